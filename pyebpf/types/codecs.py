"""Many values at once: from the kernel's bytes to Python values by the types' own codecs."""

from __future__ import annotations

import sys
from array import array
from itertools import islice, repeat, starmap
from operator import attrgetter
from struct import Struct as Packer, error as bad_value
from typing import TYPE_CHECKING, Any

from pyebpf.types import CharArray, IntType, Struct, StructType
from pyebpf.types.tuples import TupleType

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
    at_once = _encoder(kind)
    if at_once is not None:
        try:
            return at_once(values)
        except (OverflowError, TypeError, bad_value):
            pass  # said in the type's own words below
    return b"".join(map(kind.encode, values))


def in_first_slots(kind: Type, values: Collection[Any], slots: int) -> bytes:
    """Each value in the first of so many slots of `slot_size` bytes, and zeros in the others."""
    pack = Packer(f"{kind.size}s{slot_size(kind.size) * slots - kind.size}x").pack
    return b"".join(starmap(pack, Packer(f"{kind.size}s").iter_unpack(encode_all(kind, values))))


def _encoder(kind: Type) -> Callable[[Collection[Any]], bytes] | None:
    """Function that encodes many values at once, or raises what struct and array do; None: each by itself."""
    if isinstance(kind, IntType) and not kind.is_bool and sys.byteorder == "little":
        # In half the time of struct's pack, which makes a tuple of them first.
        code = kind.code
        if not kind.big_endian:
            return lambda values: array(code, values).tobytes()
        return lambda values: _swapped(array(code, values)).tobytes()
    if not isinstance(kind, StructType) or not all(map(_is_plain, (f.type for f in kind.fields))):
        return None
    pack = kind.packer.pack
    if isinstance(kind, TupleType):
        return lambda values: b"".join(starmap(pack, _of_classes(values, {tuple})))
    names = [f.name for f in kind.fields]
    if kind.cls is None or len(names) == 1:
        return None  # attrgetter() of one name gives no tuple
    only, parts = {kind.cls}, attrgetter(*names)
    return lambda values: b"".join(starmap(pack, map(parts, _of_classes(values, only))))


def _of_classes(values: Collection[Any], classes: set[type]) -> Collection[Any]:
    """Return the values; TypeError if one is of another class."""
    if not classes.issuperset(map(type, values)):
        raise TypeError
    return values


def _swapped(numbers: array[int]) -> array[int]:
    numbers.byteswap()
    return numbers


def _decoder(kind: Type, packer: Packer) -> Callable[[Buffer], list[Any]]:
    if isinstance(kind, IntType) and packer.size == kind.size and sys.byteorder == "little":
        code = kind.code
        if _is_plain(kind):
            return lambda data: memoryview(data).cast(code).tolist()  # type: ignore[call-overload]  # an integer's
        if kind.big_endian:
            return lambda data: _swapped(array(code, bytes(data))).tolist()
    iter_unpack, size, assemble = packer.iter_unpack, packer.size, assembler(kind)
    return lambda data: assemble(iter_unpack(data), len(data) // size)


def assembler(kind: Type) -> Assembler:
    """Function from unpacked tuples of plain values, and how many of them to take, to a list of Python values."""
    if _is_plain(kind):
        return lambda rows, count: [value for (value,) in islice(rows, count)]
    if type(kind) is TupleType and all(map(_is_plain, kind.elements)):
        return lambda rows, count: list(islice(rows, count))
    if isinstance(kind, StructType) and kind.cls is not None and kind.cls.__init__ is Struct.__init__:
        converters = [_converter(f.type) for f in kind.fields]
        if all(f.type.count == 1 for f in kind.fields):
            return _struct_assembler(kind.cls, tuple(f.name for f in kind.fields), converters)
    if kind.count == 1 and (convert := _converter(kind)) is not None:
        return lambda rows, count: [convert(value) for (value,) in islice(rows, count)]
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
