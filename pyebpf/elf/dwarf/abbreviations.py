"""Abbreviations: how the attributes of a debugging information entry lie in its bytes, DWARF 5, section 7.5.

Of each kind of entry those attributes are read that somebody asks for; the others are stepped over, those of a known
size together.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from pyebpf.elf.dwarf.constants import Attribute, Form, Tag
from pyebpf.elf.leb128 import sleb, uleb
from pyebpf.errors import MalformedData

if TYPE_CHECKING:
    from pyebpf.elf.budget import Budget

_EXTENT = frozenset({Attribute.SIBLING, Attribute.LOW_PC, Attribute.HIGH_PC, Attribute.RANGES})
_UNIT = frozenset({
    Attribute.LOW_PC, Attribute.HIGH_PC, Attribute.RANGES, Attribute.NAME, Attribute.STMT_LIST, Attribute.COMP_DIR,
    Attribute.STR_OFFSETS_BASE, Attribute.ADDR_BASE, Attribute.RNGLISTS_BASE, Attribute.GNU_ADDR_BASE,
})  # fmt: skip
_NAMES = frozenset({
    Attribute.NAME, Attribute.LINKAGE_NAME, Attribute.MIPS_LINKAGE_NAME, Attribute.ABSTRACT_ORIGIN,
    Attribute.SPECIFICATION,
})  # fmt: skip
Wanted: TypeAlias = "dict[int, frozenset[Attribute]]"
#: Attributes that are read for lines and calls, by tag; of others only where the next entry on the same level is.
OF_CODE: Wanted = {
    Tag.COMPILE_UNIT: _UNIT,
    Tag.PARTIAL_UNIT: _UNIT,
    Tag.SKELETON_UNIT: _UNIT,
    Tag.SUBPROGRAM: _EXTENT | _NAMES,
    Tag.INLINED_SUBROUTINE: _EXTENT | {Attribute.ABSTRACT_ORIGIN, Attribute.CALL_FILE, Attribute.CALL_LINE},
    Tag.LEXICAL_BLOCK: _EXTENT,
}
_TYPE = frozenset({Attribute.SIBLING, Attribute.TYPE})
_COMPOSITE = frozenset({
    Attribute.SIBLING, Attribute.NAME, Attribute.BYTE_SIZE, Attribute.DECLARATION, Attribute.CALLING_CONVENTION,
    Attribute.ALIGNMENT,
})  # fmt: skip
#: Those that are read for types and parameters.
OF_TYPES: Wanted = {
    **dict.fromkeys(
        (Tag.COMPILE_UNIT, Tag.PARTIAL_UNIT, Tag.SKELETON_UNIT), _UNIT | {Attribute.LANGUAGE, Attribute.PRODUCER}
    ),
    Tag.SUBPROGRAM: _EXTENT | _NAMES | {Attribute.CALLING_CONVENTION, Attribute.TYPE},
    Tag.FORMAL_PARAMETER: _TYPE | {Attribute.NAME, Attribute.ABSTRACT_ORIGIN},
    Tag.BASE_TYPE: frozenset({Attribute.NAME, Attribute.BYTE_SIZE, Attribute.ENCODING}),
    **dict.fromkeys((Tag.STRUCTURE_TYPE, Tag.CLASS_TYPE, Tag.UNION_TYPE), _COMPOSITE),
    Tag.ENUMERATION_TYPE: _COMPOSITE | _TYPE,
    Tag.ENUMERATOR: frozenset({Attribute.NAME, Attribute.CONST_VALUE}),
    Tag.MEMBER: _TYPE | {
        Attribute.NAME, Attribute.DATA_MEMBER_LOCATION, Attribute.BYTE_SIZE, Attribute.BIT_SIZE, Attribute.BIT_OFFSET,
        Attribute.DATA_BIT_OFFSET, Attribute.DECLARATION, Attribute.ALIGNMENT,
    },
    Tag.INHERITANCE: _TYPE | {Attribute.DATA_MEMBER_LOCATION},
    Tag.TYPEDEF: _TYPE | {Attribute.NAME, Attribute.ALIGNMENT},
    Tag.ARRAY_TYPE: _TYPE | {Attribute.GNU_VECTOR, Attribute.ALIGNMENT},
    Tag.SUBRANGE_TYPE: frozenset({Attribute.UPPER_BOUND, Attribute.COUNT}),
    **dict.fromkeys(
        (
            Tag.POINTER_TYPE, Tag.REFERENCE_TYPE, Tag.RVALUE_REFERENCE_TYPE, Tag.CONST_TYPE, Tag.VOLATILE_TYPE,
            Tag.RESTRICT_TYPE, Tag.ATOMIC_TYPE, Tag.PTR_TO_MEMBER_TYPE,
        ),
        _TYPE,
    ),
    Tag.UNSPECIFIED_TYPE: frozenset({Attribute.NAME}),
}  # fmt: skip
_OTHERS = frozenset({Attribute.SIBLING})


class Kind(IntEnum):
    """Kinds of steps, by what they go over."""

    FIXED = 0  # so many bytes
    ULEB = 1
    SLEB = 2
    TEXT = 3  # up to a NUL
    SIZED_BLOCK = 4  # a length of so many bytes, and what it counts
    BLOCK = 5  # a length as ULEB, and what it counts
    CONSTANT = 6  # nothing: the abbreviation has the value


#: What a form goes over. Where the size is the unit's: a name of `Sizes`.
_STEPS: dict[int, tuple[Kind, int | str]] = {
    Form.ADDR: (Kind.FIXED, "address"),
    Form.REF_ADDR: (Kind.FIXED, "reference"),
    **dict.fromkeys(
        (Form.STRP, Form.SEC_OFFSET, Form.STRP_SUP, Form.LINE_STRP, Form.GNU_REF_ALT, Form.GNU_STRP_ALT),
        (Kind.FIXED, "offset"),
    ),
    **dict.fromkeys((Form.DATA1, Form.FLAG, Form.REF1, Form.STRX1, Form.ADDRX1), (Kind.FIXED, 1)),
    **dict.fromkeys((Form.DATA2, Form.REF2, Form.STRX2, Form.ADDRX2), (Kind.FIXED, 2)),
    **dict.fromkeys((Form.STRX3, Form.ADDRX3), (Kind.FIXED, 3)),
    **dict.fromkeys((Form.DATA4, Form.REF4, Form.REF_SUP4, Form.STRX4, Form.ADDRX4), (Kind.FIXED, 4)),
    **dict.fromkeys((Form.DATA8, Form.REF8, Form.REF_SIG8, Form.REF_SUP8), (Kind.FIXED, 8)),
    Form.DATA16: (Kind.FIXED, 16),
    **dict.fromkeys(
        (
            Form.UDATA, Form.REF_UDATA, Form.STRX, Form.ADDRX, Form.LOCLISTX, Form.RNGLISTX, Form.GNU_ADDR_INDEX,
            Form.GNU_STR_INDEX,
        ),
        (Kind.ULEB, 0),
    ),
    Form.SDATA: (Kind.SLEB, 0),
    Form.STRING: (Kind.TEXT, 0),
    Form.BLOCK1: (Kind.SIZED_BLOCK, 1),
    Form.BLOCK2: (Kind.SIZED_BLOCK, 2),
    Form.BLOCK4: (Kind.SIZED_BLOCK, 4),
    Form.BLOCK: (Kind.BLOCK, 0),
    Form.EXPRLOC: (Kind.BLOCK, 0),
    Form.FLAG_PRESENT: (Kind.CONSTANT, 1),
    Form.IMPLICIT_CONST: (Kind.CONSTANT, 0),
}  # fmt: skip

#: An attribute (0: it is stepped over), the kind of step, its size or constant, the form.
Step: TypeAlias = "tuple[int, int, int, int]"

_MAX_ABBREVIATIONS, _MAX_STEPS = 1 << 16, 1 << 18  # of one table


class Abbreviation(NamedTuple):
    """The shape of an entry: its tag, whether others lie below it, and the steps through its attributes."""

    tag: int
    has_children: bool
    steps: tuple[Step, ...]


class Sizes(NamedTuple):
    """Sizes of one unit, in bytes: an address, an offset of a section, a reference to another unit."""

    address: int
    offset: int
    reference: int


def read_abbreviations(data: bytes, sizes: Sizes, budget: Budget, wanted_by_tag: Wanted) -> dict[int, Abbreviation]:
    """The table that begins with the data, by its codes. Raises IndexError where it ends too early."""
    found: dict[int, Abbreviation] = {}
    place = number = 0
    while True:
        code, place = uleb(data, place)
        if not code:
            return found
        tag, place = uleb(data, place)
        has_children = bool(data[place])
        place += 1
        wanted = wanted_by_tag.get(tag, _OTHERS)
        steps: list[Step] = []
        while True:
            attribute, place = uleb(data, place)
            form, place = uleb(data, place)
            if not attribute and not form:
                break
            kind, size = _step(form, sizes)
            if form == Form.IMPLICIT_CONST:
                size, place = sleb(data, place)
            if attribute in wanted:
                steps.append((attribute, kind, size, form))
            elif kind == Kind.FIXED and steps and steps[-1][:2] == (0, Kind.FIXED):
                steps[-1] = (0, kind, steps[-1][2] + size, 0)
            elif kind != Kind.CONSTANT:
                steps.append((0, kind, size, 0))
            number += 1
            budget.check(number, _MAX_STEPS, "attributes of abbreviations")
        found[code] = Abbreviation(tag, has_children, tuple(steps))
        budget.check(len(found), _MAX_ABBREVIATIONS, "abbreviations")


def _step(form: int, sizes: Sizes) -> tuple[int, int]:
    if form not in _STEPS:  # DW_FORM_indirect, which nobody writes, among them
        raise MalformedData(f"DWARF's form {form:#x} is unknown")
    kind, size = _STEPS[form]
    return int(kind), getattr(sizes, size) if isinstance(size, str) else size
