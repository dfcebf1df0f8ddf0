"""Many values at once: from the kernel's bytes to Python values by the types' own codecs."""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, Any

from pyebpf.types import IntType

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyebpf.types import Type

__all__ = ["decoder", "slot_decoder", "slot_size"]

Buffer = bytes | bytearray | memoryview


def slot_size(size: int) -> int:
    """Bytes of one processor's slot for a value of `size` bytes: the kernel rounds up to 8."""
    return size + 7 & ~7


def _is_plain(kind: Type) -> bool:
    """Whether unpacking alone gives the Python value."""
    return isinstance(kind, IntType) and not kind.big_endian and not kind.is_bool


def decoder(kind: Type) -> Callable[[Buffer], list[Any]]:
    """Function from any number of values laid end to end to a list of them."""
    return _decoder(kind, kind.packer)


def slot_decoder(kind: Type) -> Callable[[Buffer], list[Any]]:
    """As `decoder`, for values in slots of `slot_size` bytes."""
    padding = slot_size(kind.size) - kind.size
    return _decoder(kind, Struct(f"<{kind.format}{padding}x") if padding else kind.packer)


def _decoder(kind: Type, packer: Struct) -> Callable[[Buffer], list[Any]]:
    iter_unpack, assemble = packer.iter_unpack, kind.assemble
    if _is_plain(kind):
        return lambda data: [value for (value,) in iter_unpack(data)]
    return lambda data: [assemble(iter(plain)) for plain in iter_unpack(data)]
