"""Many values at once: from the kernel's bytes to Python values by the types' own codecs."""

from __future__ import annotations

from struct import Struct as Packer
from typing import TYPE_CHECKING, Any

from pyebpf.types import CharArray, IntType, Struct, StructType

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from pyebpf.types import Type

__all__ = ["assembler", "decoder", "slot_decoder", "slot_size"]

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
    """Make records without their constructor, which checks what a decoded record can't get wrong."""
    new = cls.__new__
    convert = [(name, function) for name, function in zip(names, converters, strict=True) if function is not None]

    def records(rows: Iterable[tuple[Any, ...]]) -> Iterator[Any]:
        for plain in rows:
            record = new(cls)
            fields = dict(zip(names, plain, strict=True))
            for name, function in convert:
                fields[name] = function(fields[name])
            vars(record).update(fields)
            yield record

    return lambda rows: list(records(rows))
