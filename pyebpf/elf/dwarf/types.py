"""`DebugTypes`: the parameters of functions and the members of structs, by a file's debugging information.

DWARF 5, sections 3.3.4 (parameters), 5 (types), 5.7.6 (members).
"""

from __future__ import annotations

from bisect import bisect_right
from functools import cached_property
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

from pyebpf.elf.dwarf.abbreviations import OF_TYPES
from pyebpf.elf.dwarf.constants import SHARED_REFERENCES, Attribute, Encoding, Form, Tag
from pyebpf.elf.dwarf.index import UnitIndex
from pyebpf.elf.dwarf.inlined import below, functions
from pyebpf.elf.dwarf.sections import DebugSections, Garbled
from pyebpf.elf.dwarf.units import Units
from pyebpf.elf.leb128 import sleb, uleb
from pyebpf.errors import MalformedData

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyebpf.elf.dwarf.units import Entry, Header, Unit, Value
    from pyebpf.elf.headers import ElfHeaders

Kind: TypeAlias = Literal["void", "int", "float", "pointer", "array", "struct", "union", "enum", "function"]

_KINDS: dict[int, Kind] = {Tag.STRUCTURE_TYPE: "struct", Tag.CLASS_TYPE: "struct", Tag.UNION_TYPE: "union"}
_POINTERS = frozenset({Tag.POINTER_TYPE, Tag.REFERENCE_TYPE, Tag.RVALUE_REFERENCE_TYPE})
_QUALIFIERS = frozenset({Tag.TYPEDEF, Tag.CONST_TYPE, Tag.VOLATILE_TYPE, Tag.RESTRICT_TYPE, Tag.ATOMIC_TYPE})
_SIGNED = frozenset({Encoding.SIGNED, Encoding.SIGNED_CHAR})
_FLOATS = frozenset({Encoding.FLOAT, Encoding.COMPLEX_FLOAT, Encoding.DECIMAL_FLOAT})
_NAMED = frozenset({*_KINDS, Tag.ENUMERATION_TYPE, Tag.TYPEDEF, Tag.BASE_TYPE})
_SCOPES = frozenset({Tag.NAMESPACE, Tag.MODULE})
_POINTER_SIZE = 8
#: The name of C++'s pointers to members, which are two words if those are functions.
MEMBER_POINTER = "pointer to a member"
_PLUS_UCONST = 0x23  # DW_OP_plus_uconst
#: DW_CC_program: it and those before are called as C's functions are. DW_CC_pass_by_reference and …_by_value: so are
#: values of this class.
_PROGRAM, _BY_REFERENCE, _BY_VALUE = 2, 4, 5
#: DW_LANG_*: not told, C, C++, Objective-C, Fortran, Ada, assembler. Go, Rust and Swift have conventions of their own.
_LIKE_C = frozenset({
    0, 0x01, 0x02, 0x03, 0x04, 0x07, 0x08, 0x0C, 0x0D, 0x0E, 0x10, 0x11, 0x19, 0x1A, 0x1D, 0x21, 0x22, 0x23, 0x2A, 0x2B,
    0x2C, 0x2D, 0x2E, 0x2F, 0x3A, 0x3E, 0x8001,
})  # fmt: skip
#: Parameters of g++'s constructors and destructors, of which its copies of them have none, or have one.
_IN_CHARGE, _VIRTUAL_TABLES = "__in_chrg", "__vtt_parm"
#: From a pointer to its target, to what that is a typedef of: so many steps lead to a type.
_MAX_STEPS = 32
_NO_LENGTH = 1 << 31  # from here on it is -1
#: Bytes of units that are kept.
_KEPT = 1 << 24
_MAX_MEMBERS, _MAX_PARAMETERS = 1 << 14, 256
_MAX_ALIGNMENT = 1 << 28  # of ELF files


class DebugType(NamedTuple):
    """A type of C, typedefs and qualifiers removed; `alias` is the outermost typedef, "" without one.

    `size` is in bytes, `element` what a pointer points to (a `void *` has an element of kind "void") or an array
    consists of, `length` of them. A struct's members are `owner`'s to tell, which knows it by `place`. `alignment` is
    in bytes, where the program asks for one by an attribute or `alignas`, else 0.
    """

    kind: Kind
    size: int
    name: str = ""
    alias: str = ""
    signed: bool = False
    element: DebugType | None = None
    length: int = 0
    place: int = 0
    owner: DebugTypes | None = None
    alignment: int = 0
    #: Whether an array is a vector, which is one value.
    is_vector: bool = False

    @property
    def c_name(self) -> str:
        """The type as C writes it, such as "struct Foo *" or "char[16]"."""
        if self.alias:
            return self.alias
        if self.element is not None:
            if self.kind == "array":
                lengths, element = "", self
                while element.kind == "array" and element.element is not None and not (lengths and element.alias):
                    lengths, element = f"{lengths}[{element.length or ''}]", element.element
                return f"{element.c_name}{lengths}"
            inner = self.element.c_name
            return f"{inner}*" if inner.endswith("*") else f"{inner} *"
        if self.kind in ("struct", "union", "enum"):
            return f"{self.kind} {self.name or '(anonymous)'}"
        return self.name or self.kind


class DebugMember(NamedTuple):
    """A member of a struct: its place from the start, and how many bits a bit-field has, else 0.

    `base` is a class that the struct is derived from: its members are the struct's own. `alignment` is what the program
    asks for, else 0.
    """

    name: str
    type: DebugType
    bit_offset: int
    bit_size: int = 0
    base: bool = False
    alignment: int = 0


class DebugParameter(NamedTuple):
    """A parameter of a function."""

    name: str
    type: DebugType


class Signature(NamedTuple):
    """The parameters of a function, in order, what it returns, and what its compiler calls itself."""

    parameters: tuple[DebugParameter, ...]
    result: DebugType
    producer: str = ""


_VOID = DebugType("void", 0, "void")


class DebugTypes:
    """The types of a file; `shared` as of `DebugInfo`. Raises MalformedData and OverBudget as that does."""

    def __init__(self, elf: ElfHeaders, shared: ElfHeaders | None = None) -> None:
        self.elf = elf
        self._sections = DebugSections(elf)
        self._shared = DebugTypes(shared) if shared is not None else None
        with Garbled(elf.path):
            shared_sections = self._shared._sections if self._shared is not None else None
            self._units = Units(self._sections, shared_sections, wanted=OF_TYPES)
        self._index: UnitIndex | None = None
        self._read: dict[Header, _ReadUnit] = {}
        self._size = 0  # bytes of those
        #: What by_reference() has found, by the place of the struct.
        self._passed: dict[int, bool | None] = {}

    def signature(self, address: int) -> Signature | None:
        """The parameters and the result of the function that begins at an address.

        None where nothing is known of it, or where it is not called as C's functions are.
        """
        with Garbled(self.elf.path):
            found = self._function(address)
            return None if found is None else _signature(*found)

    def constant(self, name: str, address: int) -> tuple[int, DebugType] | None:
        """The number of an enum's constant, and the enum, in the source file of the function at an address."""
        with Garbled(self.elf.path):
            for owner, unit in self._near(address):
                for each, _ in below(unit, unit.root, _SCOPES):
                    if each.abbreviation.tag != Tag.ENUMERATION_TYPE:
                        continue
                    for number, known in _enumerators(unit, each):
                        if known == name:
                            return number, owner._type(unit, each)
            return None

    def members(self, type_: DebugType) -> tuple[DebugMember, ...]:
        """The members of a struct, union or class of this file."""
        with Garbled(self.elf.path):
            return tuple(self._members(*self._entry(type_.place)))

    def by_reference(self, type_: DebugType) -> bool | None:
        """Whether a parameter that is such a struct is passed by its address: classes with more than values are.

        None where that is not told: gcc does not say it of classes that have constructors or the like.
        """
        with Garbled(self.elf.path):
            return self._by_reference(type_, _MAX_STEPS)

    def alignment(self, type_: DebugType) -> int:
        """The alignment that a struct's definition asks for, whatever typedefs of it do; 0 for none."""
        with Garbled(self.elf.path):
            return _alignment(self._entry(type_.place)[1])

    def enumerators(self, type_: DebugType) -> tuple[tuple[int, str], ...]:
        """The numbers and names of an enum of this file."""
        with Garbled(self.elf.path):
            return tuple(_enumerators(*self._entry(type_.place)))

    def named(self, kind: str, name: str, address: int | None = None) -> DebugType | None:
        """A type by its name, which `kind` ("struct", "union", "enum"; "" for typedefs and C's own) goes before.

        It is looked for in the unit that has the address; without one, in all.
        """
        with Garbled(self.elf.path):
            if address is not None:
                near = (owner._named(unit, kind, name) for owner, unit in self._near(address))
                return next((each for each in near if each is not None), None)
            for header in self._units.headers:
                self.elf.budget.clock()
                found = self._named(self._unit(header), kind, name)
                if found is not None:
                    return found
        return self._shared.named(kind, name) if self._shared is not None else None

    def _near(self, address: int) -> Iterator[tuple[DebugTypes, Unit]]:
        """The unit that an address is in, and that of the function's source where that is another: by `-flto` it is."""
        header = self._find(address)
        if header is None:
            return
        yield self, self._unit(header)
        found = self._function(address)
        if found is not None and found[1].header != header:
            yield found[0], found[1]

    # -- entries -------------------------------------------------------------------------------------------------------

    def _find(self, address: int) -> Header | None:
        if self._index is None:
            self._index = UnitIndex(self._units)
        return self._index.find(address)

    def _unit(self, header: Header) -> Unit:
        return self._read_unit(header).unit

    def _read_unit(self, header: Header) -> _ReadUnit:
        read = self._read.pop(header, None)
        if read is None:
            read = _ReadUnit(self._units.read(header))
            self._size += len(read.unit.data)
        self._read[header] = read
        while self._size > _KEPT and len(self._read) > 1:
            self._size -= len(self._read.pop(next(iter(self._read))).unit.data)
        return read

    def _entry(self, offset: int) -> tuple[Unit, Entry]:
        """The entry at an offset of `.debug_info`, with its unit. Raises KeyError for one that is not there."""
        headers = self._units.headers
        index = bisect_right(headers, offset, key=lambda header: header.offset) - 1
        if index < 0 or offset >= headers[index].end:
            raise KeyError(offset)
        unit = self._unit(headers[index])
        entry = unit.entry(offset - headers[index].offset)
        if entry is None:
            raise KeyError(offset)
        return unit, entry

    def _referred(self, unit: Unit, value: Value) -> tuple[DebugTypes, Unit, Entry] | None:
        """The entry that an attribute refers to; None for one in a file that is not there, or by a signature."""
        if value[0] == Form.REF_SIG8:
            return None
        if value[0] in SHARED_REFERENCES:
            return (self._shared, *self._shared._entry(value[1])) if self._shared is not None else None
        return self, *self._entry(unit.reference(value))

    # -- functions -----------------------------------------------------------------------------------------------------

    def _function(self, address: int) -> tuple[DebugTypes, Unit, Entry] | None:
        """The entry of the function that begins at an address: of one that was inlined elsewhere the origin."""
        header = self._find(address)
        if header is None:
            return None
        read = self._read_unit(header)
        unit, place = read.unit, read.functions.get(address)
        entry = unit.entry(place) if place is not None else None
        if entry is None or _number(entry, Attribute.CALLING_CONVENTION) > _PROGRAM:
            return None
        owner: DebugTypes = self
        # What stands out of line of an inlined function may leave out parameters: its origin has them all.
        for _ in range(_MAX_STEPS):
            if (origin := entry.values.get(Attribute.ABSTRACT_ORIGIN)) is None:
                return (owner, unit, entry) if _number(unit.root, Attribute.LANGUAGE) in _LIKE_C else None
            if (referred := owner._referred(unit, origin)) is None:
                return None
            owner, unit, entry = referred
        return None

    # -- types ---------------------------------------------------------------------------------------------------------

    def _type_of(self, unit: Unit, entry: Entry, steps: int = _MAX_STEPS) -> DebugType:
        """The type that an entry refers to; void without one."""
        value = entry.values.get(Attribute.TYPE)
        if value is None:
            return _VOID
        referred = self._referred(unit, value)
        if referred is None:
            return _VOID
        if not steps:
            raise MalformedData(f"{self.elf.path}: a type leads through more than {_MAX_STEPS} others")
        owner, unit, entry = referred
        return owner._type(unit, entry, steps - 1)

    def _type(self, unit: Unit, entry: Entry, steps: int = _MAX_STEPS) -> DebugType:
        tag = entry.abbreviation.tag
        name, size, alignment = _name(unit, entry), _size(unit, entry), _alignment(entry)
        place = unit.header.offset + entry.place
        if tag in _QUALIFIERS:
            found = self._type_of(unit, entry, steps)
            if tag == Tag.TYPEDEF and name:
                found = found._replace(alias=name)
            return found._replace(alignment=alignment) if alignment else found
        if tag in _POINTERS:
            return DebugType("pointer", _POINTER_SIZE, element=self._type_of(unit, entry, steps))
        if tag in _KINDS:
            return DebugType(_KINDS[tag], size, name, place=place, owner=self, alignment=alignment)
        if tag == Tag.ENUMERATION_TYPE:
            under = self._type_of(unit, entry, steps)
            # DWARF 2 has no type below an enum: its constants tell the sign.
            signed = under.signed if under.size else any(number < 0 for number, _ in _enumerators(unit, entry))
            return DebugType("enum", size or under.size, name, signed=signed, place=place, owner=self)
        if tag == Tag.ARRAY_TYPE:
            found = self._array(unit, entry, self._type_of(unit, entry, steps))
            return found._replace(alignment=alignment) if alignment else found
        if tag == Tag.BASE_TYPE:
            encoding = _number(entry, Attribute.ENCODING)
            if encoding == Encoding.COMPLEX_INTEGER and "complex" not in name:
                name = "complex"  # gcc has a name only for that of int
            return DebugType("float" if encoding in _FLOATS else "int", size, name, signed=encoding in _SIGNED)
        if tag == Tag.PTR_TO_MEMBER_TYPE:
            is_function = self._type_of(unit, entry, steps).kind == "function"
            return DebugType("int", 2 * _POINTER_SIZE if is_function else _POINTER_SIZE, MEMBER_POINTER)
        if tag == Tag.UNSPECIFIED_TYPE:  # of nullptr
            return DebugType("int", _POINTER_SIZE, name)
        return DebugType("function", 0) if tag == Tag.SUBROUTINE_TYPE else _VOID

    @staticmethod
    def _array(unit: Unit, entry: Entry, element: DebugType) -> DebugType:
        """An array: `int a[2][3]` is one entry with two ranges."""
        lengths = []
        for each, _ in below(unit, entry, frozenset()):
            if each.abbreviation.tag == Tag.SUBRANGE_TYPE:
                count, last = (each.values.get(key) for key in (Attribute.COUNT, Attribute.UPPER_BOUND))
                length = _value(unit, count) if count else _value(unit, last) + 1 if last else 0
                # No length, or -1 as the last one: a flexible array.
                lengths.append(length if 0 < length < _NO_LENGTH else 0)
        for length in reversed(lengths):
            element = DebugType("array", element.size * length, element=element, length=length)
        return element._replace(is_vector=True) if lengths and Attribute.GNU_VECTOR in entry.values else element

    def _members(self, unit: Unit, entry: Entry) -> Iterator[DebugMember]:
        number = 0
        for each, depth in below(unit, entry, frozenset()):
            tag, values = each.abbreviation.tag, each.values
            if depth > 1 or tag not in (Tag.MEMBER, Tag.INHERITANCE) or Attribute.DECLARATION in values:
                continue  # a static member lies elsewhere
            number += 1
            self.elf.budget.check(number, _MAX_MEMBERS, "members of a struct")
            type_ = self._type_of(unit, each)
            location = _location(unit, values.get(Attribute.DATA_MEMBER_LOCATION))
            if location is None:
                continue  # a virtual base
            start = 8 * location
            bits = _number(each, Attribute.BIT_SIZE)
            if (within := values.get(Attribute.DATA_BIT_OFFSET)) is not None:
                start = _value(unit, within)
            elif Attribute.BIT_OFFSET in values:
                # DWARF 2 and 3 count from the highest bit of the unit that the bits lie in.
                storage = 8 * (_size(unit, each) or type_.size)
                start += storage - _value(unit, values[Attribute.BIT_OFFSET]) - bits
            yield DebugMember(_name(unit, each), type_, start, bits, tag == Tag.INHERITANCE, _alignment(each))

    def _by_reference(self, type_: DebugType, steps: int) -> bool | None:
        if type_.place not in self._passed:
            self._passed[type_.place] = None  # of one that contains itself
            self._passed[type_.place] = self._is_by_reference(type_, steps)
        return self._passed[type_.place]

    def _is_by_reference(self, type_: DebugType, steps: int) -> bool | None:
        unit, entry = self._entry(type_.place)
        told = _number(entry, Attribute.CALLING_CONVENTION)
        if told in (_BY_REFERENCE, _BY_VALUE):
            return told == _BY_REFERENCE
        for each, depth in below(unit, entry, frozenset()):
            if depth > 1:
                continue
            name = unit.text(each.values.get(Attribute.NAME))
            if each.abbreviation.tag == Tag.SUBPROGRAM and (name[:1] == "~" or name == type_.name.partition("<")[0]):
                return None
            if each.abbreviation.tag in (Tag.MEMBER, Tag.INHERITANCE):
                inner = self._type_of(unit, each)
                if name.startswith("_vptr") or not steps:
                    return None
                if inner.owner is not None and inner.kind in ("struct", "union"):
                    found = inner.owner._by_reference(inner, steps - 1)
                    if found is not False:
                        return found
        return False

    def _named(self, unit: Unit, kind: str, name: str) -> DebugType | None:
        """A type of a unit; without a kind also a struct, union or enum, as in C++, if nothing else has the name."""
        other = None
        for each, _ in below(unit, unit.root, _SCOPES):
            tag, values = each.abbreviation.tag, each.values
            if tag not in _NAMED or Attribute.DECLARATION in values or Attribute.NAME not in values:
                continue
            is_kind = "enum" if tag == Tag.ENUMERATION_TYPE else _KINDS.get(tag, "")
            if kind in ("", is_kind) and unit.text(values[Attribute.NAME]) == name:
                if is_kind == kind:
                    return self._type(unit, each)
                other = other or self._type(unit, each)
        return other


class _ReadUnit:
    """A unit whose entries are in memory, and where its functions stand, by their addresses, once that is asked for."""

    def __init__(self, unit: Unit) -> None:
        self.unit = unit

    @cached_property
    def functions(self) -> dict[int, int]:
        return {each.low: each.place for each in functions(self.unit)}


def _signature(owner: DebugTypes, unit: Unit, entry: Entry) -> Signature | None:
    found = []
    for each, depth in below(unit, entry, frozenset()):
        if each.abbreviation.tag == Tag.FORMAL_PARAMETER and depth == 1:
            found.append(DebugParameter(_name(unit, each), owner._type_of(unit, each)))
            unit.budget.check(len(found), _MAX_PARAMETERS, "parameters of a function")
    if any(each.name == _VIRTUAL_TABLES for each in found):
        return None
    values, producer = entry.values, unit.text(unit.root.values.get(Attribute.PRODUCER))
    if Attribute.TYPE not in values and (declaration := values.get(Attribute.SPECIFICATION)) is not None:
        if (referred := owner._referred(unit, declaration)) is None:
            return None
        owner, unit, entry = referred
    parameters = tuple(each for each in found if each.name != _IN_CHARGE)
    return Signature(parameters, owner._type_of(unit, entry), producer)


def _enumerators(unit: Unit, entry: Entry) -> Iterator[tuple[int, str]]:
    for each, _ in below(unit, entry, frozenset()):
        if each.abbreviation.tag == Tag.ENUMERATOR and Attribute.CONST_VALUE in each.values:
            yield _value(unit, each.values[Attribute.CONST_VALUE]), _name(unit, each)


def _number(entry: Entry, attribute: Attribute) -> int:
    """An attribute that is a number; 0 without one."""
    return entry.values.get(attribute, (0, 0))[1]


def _name(unit: Unit, entry: Entry) -> str:
    """The name of an entry; what a terminal would obey in it is written as Python writes it."""
    name = unit.text(entry.values.get(Attribute.NAME))
    return name if name.isprintable() else ascii(name)[1:-1]


def _size(unit: Unit, entry: Entry) -> int:
    """The size of a type in bytes; 0 if it says none, or one that nothing has."""
    value = entry.values.get(Attribute.BYTE_SIZE)
    size = 0 if value is None else _value(unit, value)
    return size if 0 < size < _NO_LENGTH else 0


def _alignment(entry: Entry) -> int:
    """The alignment that an entry asks for; 0 if it asks for none, or for one that nothing has."""
    number = _number(entry, Attribute.ALIGNMENT)
    return number if 0 < number <= _MAX_ALIGNMENT and not number & (number - 1) else 0


def _value(unit: Unit, value: Value) -> int:
    form, number = value
    return sleb(unit.data, number)[0] if form == Form.SDATA else number


def _location(unit: Unit, value: Value | None) -> int | None:
    """The place of a member in bytes: a number, or an expression that adds one; None where a program must find it."""
    if value is None:
        return 0
    form, number = value
    if form in (Form.EXPRLOC, Form.BLOCK):
        _, number = uleb(unit.data, number)
    elif form == Form.BLOCK1:
        number += 1
    else:
        return _value(unit, value)
    return uleb(unit.data, number + 1)[0] if unit.data[number] == _PLUS_UCONST else None
