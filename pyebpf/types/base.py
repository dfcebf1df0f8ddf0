"""The interface of every BPF type: a size, an alignment, and a codec between bytes and Python values."""

from __future__ import annotations

import struct
from abc import ABC, abstractmethod
from functools import cached_property
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from construct import Construct

    from pyebpf.btf import BtfBuilder


class Type(ABC):
    """A type of the language: immutable, compared by value, laid out as C lays it out on a 64-bit machine.

    `name` is how the type is written in Python (`u32`, `char[16]`), `c_name` how C writes it; `size` and `align` are
    bytes. `format` is the type's piece of a `struct` format without a byte-order mark: it unpacks to `count` plain
    values, which `assemble` turns into the Python value and `scatter` makes from it.
    """

    name: str
    c_name: str
    size: int
    align: int
    format: str
    #: The number of plain values that `format` unpacks to.
    count: int = 1

    @abstractmethod
    def assemble(self, plain: Iterator[object]) -> object:
        """Take `count` plain values and return the Python value."""

    @abstractmethod
    def scatter(self, value: object) -> Sequence[object]:
        """Return the `count` plain values of a Python value; InvalidValue if it does not fit."""

    def describe_btf(self, builder: BtfBuilder) -> int:
        """Add the type to BTF, and return its id: bytes, unless there is more to say."""
        return builder.add_array(builder.add_int("__u8", 1), builder.add_int("__u32", 4), self.size)

    def as_key(self) -> Type:
        """Return the type whose Python values can be keys of a dictionary: arrays are tuples in them."""
        return self

    @cached_property
    def packer(self) -> struct.Struct:
        """The whole value as one little-endian `struct.Struct`, without implicit padding."""
        return struct.Struct("<" + self.format)

    @cached_property
    def decode(self) -> Callable[[bytes | memoryview], Any]:
        """Function from exactly `size` bytes to the Python value."""
        unpack, assemble = self.packer.unpack, self.assemble
        return lambda data: assemble(iter(unpack(data)))

    @cached_property
    def encode(self) -> Callable[[object], bytes]:
        """Function from a Python value to `size` bytes; InvalidValue if it does not fit."""
        pack, scatter = self.packer.pack, self.scatter
        return lambda value: pack(*scatter(value))

    @cached_property
    @abstractmethod
    def construct(self) -> Construct:
        """The same layout as a construct object, `parse` and `build`: as part of a larger one, or for its tools."""

    def __repr__(self) -> str:
        return self.name
