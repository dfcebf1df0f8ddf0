"""Parts of types: the numbers and vectors that an argument consists of, by which a calling convention passes it."""

from __future__ import annotations

from enum import Enum, auto
from typing import TYPE_CHECKING, NamedTuple

from pyebpf.elf.dwarf.types import MEMBER_POINTER

if TYPE_CHECKING:
    from typing import TypeAlias

    from pyebpf.elf.dwarf.types import DebugMember, DebugType

    #: What is known of structs, by their file and place.
    _Alignments: TypeAlias = dict[tuple[int, int], int]

#: Bytes of an integer register, and of what is passed in two.
WORD, PAIR = 8, 16
#: Structs in structs that are looked into, and their parts in all.
_MAX_DEPTH, _MAX_PARTS = 16, 1 << 10
#: Floats of 16 bytes by their names: those of x87, and those that a vector register has.
_X87, _QUADS = ("long double", "_Float64x", "__float80"), ("_Float128", "__float128", "_Decimal128")


class Class(Enum):
    """Classes of numbers, by the registers that pass them."""

    INTEGER = auto()
    FLOAT = auto()
    VECTOR = auto()
    X87 = auto()
    #: Compilers differ about it, or its name does not tell.
    EITHER = auto()
    #: Not even its alignment is known.
    UNKNOWN = auto()


class Part(NamedTuple):
    """A number, a pointer or a vector in a type; `is_repeated` in an element of an array that is not the first."""

    offset: int
    size: int
    class_: Class
    is_repeated: bool = False


def is_complex(type_: DebugType) -> bool:
    """Whether a number is a pair of numbers."""
    return type_.kind in ("int", "float") and "complex" in type_.name.lower()


def unit_of(arch: str, type_: DebugType) -> int:
    """The size of the numbers that a number consists of, which is its alignment, too."""
    if is_complex(type_):
        return max(type_.size // 2, 1)
    if type_.kind == "int" and (type_.name == MEMBER_POINTER or (arch == "x86_64" and "_BitInt" in type_.name)):
        return min(type_.size, WORD)
    return min(type_.size, PAIR)


def class_of(arch: str, type_: DebugType) -> Class:
    """The class of a number, a pointer or a vector."""
    if type_.is_vector:
        return _vector_class(arch, type_)
    if type_.kind != "float":
        return Class.UNKNOWN if arch == "aarch64" and is_complex(type_) and type_.size > PAIR else Class.INTEGER
    if arch == "aarch64" or unit_of(arch, type_) <= WORD:
        return Class.FLOAT
    if any(name in type_.name for name in _X87):
        return Class.X87
    return Class.FLOAT if any(name in type_.name for name in _QUADS) else Class.EITHER


def _vector_class(arch: str, type_: DebugType) -> Class:
    size, element = type_.size, type_.element
    if not size or size & (size - 1) or element is None or element.name in ("bool", "_Bool"):
        return Class.UNKNOWN
    # Small ones are integers for some; one of one element lies in a vector register for gcc, on the stack for clang.
    is_one = type_.length == 1 and (size > WORD or (arch == "x86_64" and element.kind == "float"))
    return Class.EITHER if size < WORD or is_one else Class.VECTOR


def parts_of(arch: str, type_: DebugType) -> list[Part]:
    """The parts that a type consists of, the first ones. What lies too deep is unknown."""
    return _parts(arch, type_, 0, {})


def _parts(arch: str, type_: DebugType, depth: int, known: dict[tuple[int, int], list[Part]]) -> list[Part]:
    found: list[Part] = []
    if depth > _MAX_DEPTH:
        found.append(Part(0, 1, Class.UNKNOWN))
    elif type_.is_vector:
        found.append(Part(0, type_.size, class_of(arch, type_)))
    elif type_.kind == "array" and type_.element is not None:
        inner = _parts(arch, type_.element, depth + 1, known)
        for number in range(min(type_.length, _MAX_PARTS // max(len(inner), 1) + 1)):
            found += _moved(inner, number * type_.element.size, is_repeated=number > 0)
    elif type_.owner is not None and type_.kind in ("struct", "union"):
        key = id(type_.owner), type_.place
        if key in known:
            return known[key]
        known[key] = found
        for each in type_.owner.members(type_):
            if each.bit_size:
                ends = each.bit_offset, each.bit_offset + each.bit_size - 1
                found += [Part(bit // 8, 1, Class.INTEGER) for bit in ends]
            else:
                found += _moved(_parts(arch, each.type, depth + 1, known), each.bit_offset // 8)
            if len(found) > _MAX_PARTS:
                break
    elif type_.size:
        unit, class_ = unit_of(arch, type_), class_of(arch, type_)
        found += [Part(offset, unit, class_) for offset in range(0, min(type_.size, unit * _MAX_PARTS), unit)]
    return found


def _moved(parts: list[Part], start: int, *, is_repeated: bool = False) -> list[Part]:
    return [Part(start + offset, size, class_, repeated or is_repeated) for offset, size, class_, repeated in parts]


# -- alignment ---------------------------------------------------------------------------------------------------------


def natural_alignment(arch: str, type_: DebugType) -> int:
    """The alignment of a struct by its members, whatever the definition of it asks for."""
    return _natural(arch, type_, 0, {})


def _natural(arch: str, type_: DebugType, depth: int, known: _Alignments) -> int:
    if type_.kind == "array" and type_.element is not None:
        return _alignment(arch, type_.element, depth + 1, known)
    if type_.owner is None or depth > _MAX_DEPTH:
        return 1
    key = id(type_.owner), type_.place
    if key not in known:
        known[key] = 1  # of one that contains itself
        members = type_.owner.members(type_)
        known[key] = max((_of_member(arch, type_, each, depth, known) for each in members), default=1)
    return known[key]


def _of_member(arch: str, type_: DebugType, member: DebugMember, depth: int, known: _Alignments) -> int:
    """The alignment that a member gives to its struct: none where it lies as only one of a packed struct does."""
    place = 0 if member.bit_size else member.bit_offset // 8
    # An attribute of a member raises what its type has; clang tells a smaller one, too.
    for each in (max(member.alignment, _alignment(arch, member.type, depth + 1, known)), member.alignment):
        if each and place % each == 0 and type_.size % each == 0:
            return each
    return 1


def _alignment(arch: str, type_: DebugType, depth: int, known: _Alignments) -> int:
    """The alignment of a member's type."""
    if type_.alignment:
        return type_.alignment
    if type_.is_vector:
        return type_.size or 1
    if type_.kind in ("struct", "union", "array"):
        return _natural(arch, type_, depth, known)
    return unit_of(arch, type_) or 1
