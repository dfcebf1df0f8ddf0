"""Many values at once: from the kernel's bytes to Python values by the types' own codecs."""

from __future__ import annotations

import struct
from struct import Struct as Packer
from typing import TYPE_CHECKING, Any

from pyebpf.types import CharArray, IntType, Struct, StructType

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    from pyebpf.types import Type

__all__ = ["assembler", "decoder", "encode_all", "slot_decoder", "slot_size"]

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
    if _is_plain(kind):
        try:
            return Packer(f"<{len(values)}{kind.format}").pack(*values)
        except struct.error:
            pass  # said in the type's own words below
    return b"".join(map(kind.encode, values))


def _decoder(kind: Type, packer: Packer) -> Callable[[Buffer], list[Any]]:
    iter_unpack, assemble = packer.iter_unpack, assembler(kind)
    return lambda data: assemble(iter_unpack(data))


def assembler(kind: Type) -> Callable[[Iterable[tuple[Any, ...]]], list[Any]]:
    """Function from unpacked tuples of plain values to a list of Python values."""
    if _is_plain(kind):
        return lambda rows: [value for (value,) in rows]
    if isinstance(kind, StructType) and kind.cls is not None and kind.cls.__init__ is Struct.__init__:
        converters = [_converter(f.type) for f in kind.fields]
        if all(f.type.count == 1 for f in kind.fields):
            return _struct_assembler(kind.cls, tuple(f.name for f in kind.fields), converters)
    assemble = kind.assemble
    return lambda rows: [assemble(iter(plain)) for plain in rows]


def _converter(kind: Type) -> Callable[[Any], Any] | None:
    """Function from one plain value to the Python value; None if it is that already."""
    if _is_plain(kind):
        return None
    if isinstance(kind, CharArray):
        return lambda raw: raw.partition(b"\0")[0].decode("utf-8", "surrogateescape")
    assemble = kind.assemble
    return lambda value: assemble(iter((value,)))


def _struct_assembler(
    cls: type[Struct], names: tuple[str, ...], converters: list[Callable[[Any], Any] | None]
) -> Callable[[Iterable[tuple[Any, ...]]], list[Any]]:
    """Make records by a loop written for this class, without its constructor: seven times as fast.

    A decoded value always fits its field, so that the constructor has nothing to check. Only the fields' names reach
    the source, which Python has read as identifiers before.
    """
    values = [f"v{index}" for index in range(len(names))]
    lines = ["def assemble(rows):", " out = []", f" for {', '.join(values)}, in rows:", "  record = new(cls)"]
    for index, (name, converter) in enumerate(zip(names, converters, strict=True)):
        value = f"c{index}({values[index]})" if converter is not None else values[index]
        lines.append(f"  record.{name} = {value}")
    lines += ["  out.append(record)", " return out"]
    scope: dict[str, Any] = {"new": cls.__new__, "cls": cls}
    scope.update({f"c{index}": converter for index, converter in enumerate(converters)})
    exec("\n".join(lines), scope)  # noqa: S102 - as dataclasses does; see the docstring for what gets in
    assemble: Callable[[Iterable[tuple[Any, ...]]], list[Any]] = scope["assemble"]
    return assemble
