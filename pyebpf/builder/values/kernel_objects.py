"""Kernel objects: structs of the running kernel, read by the names that its BTF gives.

An attribute is read where it is written in the source. Where the verifier knows a pointer's type (the arguments of a
tp_btf program and what hangs off them) a plain load does it; elsewhere probe_read_kernel. Both read zeros through a
bad pointer.
"""

from __future__ import annotations

import keyword
from typing import TYPE_CHECKING, NoReturn

from pyebpf.builder.ssa.conditions import Always, Compare, Test
from pyebpf.builder.values.entity import RunTimeValue, describe
from pyebpf.builder.values.integers import Int
from pyebpf.builder.values.kernel_numbers import AddressNumber, as_number, check_width, refuse_struct
from pyebpf.builder.values.memory import Space, at_offset, probe_read, probe_read_string, probe_read_value
from pyebpf.builder.values.operations import rvalue, to_int
from pyebpf.builder.values.pointers import Pointer
from pyebpf.builder.values.strings import StringSource
from pyebpf.compiler.ir import Condition as Relation, Op, ValueType
from pyebpf.errors import NotFound
from pyebpf.types import INTEGERS, S64, U64, ArrayType, BytesType, CharFactory, IntType, type_of

if TYPE_CHECKING:
    from collections.abc import Hashable

    from pyebpf.builder.program import ProgramBuilder
    from pyebpf.compiler import ir
    from pyebpf.errors import Location
    from pyebpf.target import KernelMember, KernelType
    from pyebpf.types import Type

#: Members whose value the verifier holds to be possibly NULL, so that it allows no load before a check (Linux commit
#: 6fcd486b3a0a
#: "bpf: Refactor RCU enforcement in the verifier." (in v6.4), BTF_TYPE_SAFE_RCU_OR_NULL, and the TRUSTED_OR_NULL ones
#: after it).
NULLABLE_MEMBERS = frozenset(
    {
        ("mm_struct", "exe_file"),
        ("request_sock", "sk"),
        ("sk_buff", "sk"),
        ("socket", "sk"),
        ("dentry", "d_inode"),
        ("vm_area_struct", "vm_file"),
        ("vm_area_struct", "vm_mm"),
    }
)

#: BTF type tags that make a pointer something else than an address of kernel memory, or a nullable one.
UNTRUSTED_TAGS = frozenset({"user", "percpu", "rcu"})


BIG_ENDIAN = {"__be16", "__be32", "__be64"}


def plain_name(name: str) -> str:
    """Return the kernel's name for one that carries an underscore since it is a Python keyword: `class_` is `class`."""
    return name[:-1] if name.endswith("_") and keyword.iskeyword(name[:-1]) else name


def plain_integer(type_: KernelType) -> IntType | None:
    """`integer_type` as C has it: a number in network order is one like any other."""
    found = integer_type(type_)
    return INTEGERS[f"u{8 * found.size}"] if found is not None and found.big_endian else found


def integer_type(type_: KernelType) -> IntType | None:
    """Return the language's type for a C integer, enum or bool; None for anything else."""
    if type_.kind not in ("int", "enum") or type_.size not in (1, 2, 4, 8):
        return None
    if type_.boolean:
        return INTEGERS["bool"]
    if BIG_ENDIAN & set(type_.aliases):
        return INTEGERS[f"be{8 * type_.size}"]
    return INTEGERS[f"{'s' if type_.signed else 'u'}{8 * type_.size}"]


class KernelReference(RunTimeValue):
    """A struct or union of the kernel's: an address, and what BTF says lies there.

    `trusted` ones the verifier knows. `space` is whose memory it is: a system call's arguments point to user memory.
    One that is `embedded` stands in another object, where C has no pointer to it: it is no number.
    """

    def __init__(
        self,
        address: ir.Value,
        type_: KernelType,
        *,
        offset: int = 0,
        trusted: bool = False,
        space: Space = Space.KERNEL,
        embedded: bool = False,
    ) -> None:
        self.address = address
        self.type = type_
        self.offset = offset
        self.trusted = trusted
        self.space = space
        self.embedded = embedded

    @property
    def ssa_values(self) -> tuple[ir.Value, ...]:
        return (self.address,)

    @property
    def static_shape(self) -> Hashable:
        return ("kernel object", self.type.key, self.offset, self.trusted, self.space, self.embedded)

    def with_ssa_values(self, values: tuple[ir.Value, ...]) -> KernelReference:
        return KernelReference(
            values[0],
            self.type,
            offset=self.offset,
            trusted=self.trusted,
            space=self.space,
            embedded=self.embedded,
        )

    def describe(self) -> str:
        # C's name for an anonymous struct is its typedef, kuid_t for example.
        name = self.type.c_name if self.type.name or not self.type.aliases else self.type.aliases[0]
        return f"a {name}{' in user memory' if self.space is Space.USER else ''}"

    def as_int(self, p: ProgramBuilder) -> Int:
        """Return the address as a u64, for keys and comparisons; refuse a struct inside another."""
        if self.embedded:
            refuse_struct(p, self, self.type)
        return self.address_as_int(p)

    def address_as_int(self, p: ProgramBuilder) -> Int:
        """Return the address as a u64, of a struct inside another, too."""
        return Int(at_offset(p, self.address, self.offset), U64)

    def narrow_remedy(self) -> str:
        """Return what to write in place of an address for which there is no room."""
        return "write the member that you mean"

    def _refuse(self, p: ProgramBuilder, method: str, what: str) -> NoReturn:
        if self.embedded:
            refuse_struct(p, self, self.type, what)
        super()._refuse(p, method, what)

    def is_none(self, p: ProgramBuilder) -> Test:
        return Compare(Relation.EQ, self.address, p.b.const(0)) if self.offset == 0 else _never()

    def compare(self, p: ProgramBuilder, operator: str, other: object, *, reflected: bool = False) -> Test:
        one, two = self.embedded, isinstance(other, KernelReference) and other.embedded
        # The head of a list stands in an object, and pointers lead to it: that is a question about addresses.
        addresses = one != two and isinstance(other, KernelReference)
        if one and not addresses:
            refuse_struct(p, self, self.type)
        if operator not in ("==", "!="):
            p.fail(f"{self.describe()} and {describe(other)}: addresses are compared by == and != only")
        if not hasattr(other, "as_int"):
            p.fail(f"{self.describe()} cannot be compared with {describe(other)}")
        relation = Relation.EQ if operator == "==" else Relation.NE
        return Compare(relation, address_as_int(p, self).value, address_as_int(p, other).value)

    def convert(self, p: ProgramBuilder, type_: IntType) -> Int | Test:
        number = self.as_int(p)
        check_width(p, self, type_)
        if self.trusted:
            if type_ is U64 and self.offset == 0:
                return AddressNumber(p, self.address)
            number = Int(at_offset(p, as_number(p, self.address), self.offset), U64)
        return number.convert(p, type_)

    def attribute(self, p: ProgramBuilder, name: str) -> RunTimeValue:
        try:
            member = p.target.member(self.type, plain_name(name))
        except NotFound as error:
            p.fail(str(error))
        if member.bit_size:
            return self._bit_field(p, member)
        nullable = (self.type.name, plain_name(name)) in NULLABLE_MEMBERS
        return value_at(
            p,
            self.address,
            self.offset + member.offset,
            member.type,
            trusted=self.trusted,
            space=self.space,
            nullable=nullable,
        )

    def set_attribute(self, p: ProgramBuilder, name: str, value: object) -> None:
        p.fail(f"{self.describe()} is {self.space} memory, which probes only read: {name} cannot be assigned")

    def _bit_field(self, p: ProgramBuilder, member: KernelMember) -> Int:
        """Read the storage unit that holds a bit-field, then its bits."""
        unit = member.type.size
        start = member.bit_offset // (8 * unit) * unit
        shift = member.bit_offset - 8 * start
        if shift + member.bit_size > 8 * unit:
            # A packed one, across two units: whole bytes from the first.
            start, shift, unit = member.offset, member.bit_offset % 8, 8
        word = _load(p, self.address, self.offset + start, unit, trusted=self.trusted, space=self.space)
        top = p.b.emit(Op.SHL, word, p.b.const(64 - shift - member.bit_size))
        bits = p.b.emit(Op.ASHR if member.type.signed else Op.LSHR, top, p.b.const(64 - member.bit_size))
        if not member.type.signed and member.bit_size < 64:
            p.b.assume_bounds(bits, 0, (1 << member.bit_size) - 1)
        return Int(bits, S64)


class KernelArray(RunTimeValue):
    """An array in the kernel, or a pointer to something that is not a struct: indexed, never sliced."""

    def __init__(
        self,
        address: ir.Value,
        element: KernelType,
        length: int | None,
        *,
        offset: int = 0,
        trusted: bool = False,
        space: Space = Space.KERNEL,
    ) -> None:
        self.address = address
        self.element = element
        self.array_length = length
        self.offset = offset
        self.trusted = trusted
        self.space = space

    @property
    def ssa_values(self) -> tuple[ir.Value, ...]:
        return (self.address,)

    @property
    def static_shape(self) -> Hashable:
        element = (self.element.c_name, self.element.id)
        return ("kernel array", element, self.array_length, self.offset, self.trusted, self.space)

    def with_ssa_values(self, values: tuple[ir.Value, ...]) -> KernelArray:
        return KernelArray(
            values[0],
            self.element,
            self.array_length,
            offset=self.offset,
            trusted=self.trusted,
            space=self.space,
        )

    def describe(self) -> str:
        return f"a {self.element.c_name}{f'[{self.array_length}]' if self.array_length else ' *'}"

    def as_int(self, p: ProgramBuilder) -> Int:
        """Return the address as a u64; refuse an array, whose length is known: it stands in another object."""
        if self.array_length:
            p.fail(f"{self.describe()} is not a number: {self.narrow_remedy()}")
        return self.address_as_int(p)

    def address_as_int(self, p: ProgramBuilder) -> Int:
        """Return the address as a u64, of an array, too."""
        return Int(at_offset(p, self.address, self.offset), U64)

    def convert(self, p: ProgramBuilder, type_: IntType) -> Int | Test:
        number = self.as_int(p)
        check_width(p, self, type_)
        return number.convert(p, type_)

    def narrow_remedy(self) -> str:
        """Return what to write in place of an address for which there is no room."""
        return "write the element that you mean, [0] for example"

    def is_none(self, p: ProgramBuilder) -> Test:
        return Compare(Relation.EQ, self.address, p.b.const(0)) if not self.array_length else _never()

    def length(self, p: ProgramBuilder) -> int:
        if not self.array_length:
            p.fail(f"{self.describe()} has no length: C declares it without one")
        return self.array_length

    def item(self, p: ProgramBuilder, index: object) -> RunTimeValue:
        size = self.element.size
        if not size:
            p.fail(f"{self.describe()} has elements of unknown size: cast() it to its type")
        if isinstance(index, int):
            if index < 0 or (self.array_length and index >= self.array_length):
                p.fail(f"index {index} is outside {self.describe()}")
            offset = self.offset + index * size
            return value_at(p, self.address, offset, self.element, trusted=self.trusted, space=self.space)
        number = to_int(p, index).value
        low, high = p.b.bounds(number)
        if self.array_length and (low < 0 or high >= self.array_length):
            p.fail(
                f"this index of {self.describe()} may lie outside 0 to {self.array_length - 1}: test it first, "
                f"if 0 <= i < {self.array_length}, or mask it"
            )
        # The verifier takes no variable offset into a typed kernel pointer; probe_read_kernel needs none checked.
        distance = p.b.emit(Op.MUL, number, p.b.const(size))
        base = p.b.emit(Op.ADD, as_number(p, self.address), p.b.const(self.offset))
        return value_at(p, p.b.emit(Op.ADD, base, distance), 0, self.element, trusted=False, space=self.space)

    def write_to(self, p: ProgramBuilder, address: ir.Value, offset: int, type_: Type) -> None:
        """Copy the array into memory as a `type_` of elements of the same size."""
        fits = isinstance(type_, (BytesType, ArrayType)) and type_.element.size == self.element.size
        if not fits or integer_type(self.element) is None or type_.size > self.element.size * (self.array_length or 0):
            p.fail(f"{self.describe()} does not fit {type_.name}: copy it element by element")
        destination = at_offset(p, address, offset)
        probe_read(p, self.space, destination, type_.size, at_offset(p, self.address, self.offset))


def address_as_int(p: ProgramBuilder, value: object) -> Int:
    """Return what an operand has for an address, as a u64: where an address is asked for, not a number."""
    found: Int = value.address_as_int(p) if hasattr(value, "address_as_int") else to_int(p, value)
    return found


def _never() -> Test:
    return Always(holds=False)


def _load(
    p: ProgramBuilder, address: ir.Value, offset: int, size: int, *, trusted: bool, space: Space, signed: bool = False
) -> ir.Value:
    if trusted:
        return p.b.load(address, offset, size, signed=signed)
    return probe_read_value(p, space, address, offset, size, signed=signed)


def value_at(
    p: ProgramBuilder,
    address: ir.Value,
    offset: int,
    type_: KernelType,
    *,
    trusted: bool,
    space: Space,
    nullable: bool = False,
) -> RunTimeValue:
    """Return the value in the language of a C object of `type_` at address + offset."""
    integer = (plain_integer if p.keeps_byte_order else integer_type)(type_)
    if integer is not None:
        value = _load(p, address, offset, type_.size, trusted=trusted, space=space, signed=integer.signed)
        if integer.big_endian:
            value = p.b.emit(Op.SWAP, value, size=type_.size)
            if type_.size < 8:
                p.b.assume_bounds(value, 0, (1 << 8 * type_.size) - 1)
        if type_.size == U64.size:
            return Int(value, S64 if type_.signed else U64)
        return Int(value, S64, integer)
    if type_.composite:
        return KernelReference(address, type_, offset=offset, trusted=trusted, space=space, embedded=True)
    if type_.kind == "array":
        assert type_.element is not None
        if type_.element.character:
            length = type_.length or None
            return CharacterArray(address, offset, space, length, length, p.b.where)
        return KernelArray(address, type_.element, type_.length or None, offset=offset, trusted=trusted, space=space)
    if type_.kind == "pointer":
        assert type_.element is not None
        typed = type_.element.composite and type_.element.size > 0
        # What the verifier holds for possibly NULL may neither be loaded through nor computed with: the helper makes it
        # a number like any other.
        direct = trusted and not nullable and not UNTRUSTED_TAGS & {*type_.tags, *type_.element.tags}
        if direct:
            pointer = p.b.load(address, offset, 8, result=ValueType.POINTER if typed else ValueType.SCALAR)
        else:
            pointer = probe_read_value(p, space, address, offset, 8)
        return pointer_to(pointer, type_, trusted=direct and typed, space=space)
    p.fail(f"a {type_.c_name} of {type_.size} bytes is not supported in probes")


class CharacterArray(StringSource):
    """A C `char[n]`, as the text that it begins with; a front end may read its bytes."""

    def __init__(
        self, address: ir.Value, offset: int, space: Space, length: int | None, size: int | None, where: Location | None
    ) -> None:
        def read_into(p: ProgramBuilder, destination: ir.Value, room: int) -> None:
            probe_read_string(p, space, destination, room, at_offset(p, address, offset))

        super().__init__("the kernel's char array", read_into, size, where)
        self._address, self._offset, self.space = address, offset, space
        self.array_length = length

    def sized(self, size: int) -> CharacterArray:
        return CharacterArray(self._address, self._offset, self.space, self.array_length, size, self.where)

    def string_address(self, p: ProgramBuilder) -> ir.Value:
        """The address of its first byte."""
        return at_offset(p, self._address, self._offset)


def pointer_to(
    address: ir.Value, type_: KernelType, *, trusted: bool, space: Space = Space.KERNEL
) -> KernelReference | KernelArray | Pointer:
    """Return the value in the language of a C pointer of `type_`; one found in user memory points there, too."""
    element = type_.element
    assert element is not None
    if "user" in {*type_.tags, *element.tags}:
        space = Space.USER
    if element.composite:
        return KernelReference(address, element, trusted=trusted, space=space)
    if element.character:
        return Pointer(address, CharFactory(), space)
    integer = integer_type(element)
    if integer is not None:
        return Pointer(address, integer, space)
    if element.kind in ("pointer", "array"):
        return KernelArray(address, element, None, space=space)
    return Pointer(address, None, space)


def from_register(p: ProgramBuilder, register: ir.Value, type_: KernelType, *, trusted: bool) -> RunTimeValue:
    """Return the value of an argument of `type_` that is passed in a 64-bit register.

    The register's upper part is junk for a narrower integer.
    """
    integer = integer_type(type_)
    if integer is not None:
        if integer.size < 8:
            value = p.b.emit(Op.SEXT if integer.signed else Op.ZEXT, register, size=integer.size)
            low, high = (integer.minimum, integer.maximum)
            p.b.assume_bounds(value, low, high)
            return Int(value, S64, integer)
        return Int(register, S64 if integer.signed else U64)
    if type_.kind == "pointer":
        return pointer_to(register, type_, trusted=trusted)
    p.fail(f"an argument of type {type_.c_name} is not supported in probes")


def cast(p: ProgramBuilder, name: object, value: object) -> RunTimeValue:
    """`cast("struct tcp_sock", sk)`: the same address, in the same memory, seen as another struct.

    The verifier's trust is lost. A number that has been no pointer here is an address in the kernel.
    """
    if not isinstance(name, str):
        p.fail('cast() takes the type first, as a string: cast("struct tcp_sock", sk)')
    if not hasattr(value, "as_int"):
        p.fail(f"cast() takes a kernel object or an address, not {describe(value)}")
    try:
        type_ = p.target.type_named(name)
    except NotFound as error:
        p.fail(str(error))
    address = address_as_int(p, value).value
    space = getattr(value, "space", Space.KERNEL)
    if type_.composite:
        return KernelReference(address, type_, space=space)
    if type_.kind == "pointer":
        return pointer_to(address, type_, trusted=False, space=space)
    p.fail(f'cast("{name}", …): give a struct, a union or a pointer type')


def user(p: ProgramBuilder, value: object, target: object = None) -> RunTimeValue:
    """`user(p)`: the same address in the process's memory; `user(n, u32)` of a number, or to see another type."""
    found = None if target is None else target if isinstance(target, CharFactory) else type_of(target)
    if target is not None and found is None:
        p.fail(f"user(…, {target!r}): give an integer type, a Struct or char")
    value = rvalue(p, value)
    if not hasattr(value, "as_int") and not isinstance(value, Int):
        p.fail(f"user() takes an address, not {describe(value)}")
    if isinstance(value, KernelReference) and found is None:
        address = as_number(p, value.address)
        return KernelReference(address, value.type, offset=value.offset, space=Space.USER, embedded=value.embedded)
    if isinstance(value, KernelArray) and found is None:
        address = as_number(p, value.address)
        return KernelArray(address, value.element, value.array_length, offset=value.offset, space=Space.USER)
    pointed = value.target if isinstance(value, Pointer) and found is None else found
    return Pointer(address_as_int(p, value).value, pointed, Space.USER)


def container_of(p: ProgramBuilder, value: object, struct: object, member: object) -> KernelReference:
    """`container_of(inode, "struct socket_alloc", "vfs_inode")`: the struct that `value` is a member of."""
    if not isinstance(value, KernelReference) or not isinstance(struct, str) or not isinstance(member, str):
        p.fail(
            "container_of() takes a kernel object, the struct and the member: "
            'container_of(inode, "struct socket_alloc", "vfs_inode")'
        )
    try:
        found = p.target.struct_member(struct, member)
        type_ = p.target.type_named(struct)
    except NotFound as error:
        p.fail(str(error))
    return KernelReference(at_offset(p, value.address, value.offset - found.offset), type_, space=value.space)
