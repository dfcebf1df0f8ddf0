"""Many values at once: from the kernel's bytes to Python values by the types' own codecs."""

from __future__ import annotations

import sys
from array import array
from itertools import islice, repeat
from struct import Struct as Packer
from typing import TYPE_CHECKING, Any

from pyebpf.types import CharArray, IntType, Struct, StructType

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from pyebpf.types import Type

    Assembler = Callable[[Iterator[tuple[object, ...]], int], list[Any]]

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
    return _decoder(kind, Packer(f"<{kind.format}{padding}x") if padding else kind.packer)


def encode_all(kind: Type, values: Collection[Any]) -> bytes:
    """Values laid end to end. Raises InvalidValue for the first that does not fit."""
    if _is_plain(kind) and sys.byteorder == "little":
        try:
            # In half the time of struct's pack, which makes a tuple of them first.
            return array(kind.format, values).tobytes()
        except (OverflowError, TypeError):
            pass  # said in the type's own words below
    return b"".join(map(kind.encode, values))


def _decoder(kind: Type, packer: Packer) -> Callable[[Buffer], list[Any]]:
    if _is_plain(kind) and packer.size == kind.size and sys.byteorder == "little":
        return lambda data: memoryview(data).cast(kind.format).tolist()  # type: ignore[call-overload]  # an integer's
    iter_unpack, size, assemble = packer.iter_unpack, packer.size, assembler(kind)
    return lambda data: assemble(iter_unpack(data), len(data) // size)


def assembler(kind: Type) -> Assembler:
    """Function from unpacked tuples of plain values, and how many of them to take, to a list of Python values."""
    if _is_plain(kind):
        return lambda rows, count: [value for (value,) in islice(rows, count)]
    if isinstance(kind, StructType) and kind.cls is not None and kind.cls.__init__ is Struct.__init__:
        converters = [_converter(f.type) for f in kind.fields]
        if all(f.type.count == 1 for f in kind.fields):
            return _struct_assembler(kind.cls, tuple(f.name for f in kind.fields), converters)
    assemble = kind.assemble
    return lambda rows, count: [assemble(iter(plain)) for plain in islice(rows, count)]


def _converter(kind: Type) -> Callable[[Any], object] | None:
    """Function from one plain value to the Python value; None if it is that already."""
    if _is_plain(kind):
        return None
    if type(kind) is CharArray:
        return lambda raw: raw.partition(b"\0")[0].decode("utf-8", "surrogateescape")
    assemble = kind.assemble
    return lambda value: assemble(iter((value,)))


def _struct_assembler(
    cls: type[Struct], names: tuple[str, ...], converters: list[Callable[[Any], object] | None]
) -> Assembler:
    """Make records by a loop written for this class, without its constructor: ten times as fast.

    A decoded value always fits its field, so that the constructor has nothing to check. All records are made first, by
    code in C; the loop then unpacks straight into their attributes. Only the fields' names reach the source, which
    Python has read as identifiers before.
    """
    # Without slots (Python 3.14) instances share one table of names, which takes up new ones only while few were made.
    first = cls.__new__(cls)
    for name in names:
        object.__setattr__(first, name, None)
    targets, lines = [], []
    for index, (name, converter) in enumerate(zip(names, converters, strict=True)):
        if converter is None:
            targets.append(f"record.{name}")
        else:
            targets.append(f"v{index}")
            lines.append(f"  record.{name} = c{index}(v{index})")
    text = [
        "def assemble(rows, count):",
        " out = list(map(new, repeat(cls, count)))",
        f" for record, ({', '.join(targets)},) in zip(out, rows):",
        *(lines or ["  pass"]),
        " return out",
    ]
    scope: dict[str, Any] = {"new": cls.__new__, "cls": cls, "repeat": repeat}
    scope.update({f"c{index}": converter for index, converter in enumerate(converters)})
    exec("\n".join(text), scope)  # noqa: S102 - as dataclasses does; see the docstring for what gets in
    assemble: Assembler = scope["assemble"]
    return assemble
