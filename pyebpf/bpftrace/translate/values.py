"""Values of a script while it is compiled: what is known of each, and the builder's operand that stands for it.

Numbers have C's meaning in 64 bits, as bpftrace has it: arithmetic wraps, division rounds to zero, and an operation of
a signed number with an unsigned one is signed. A number of a narrower type is extended by that type's sign when it is
read, or cut when it is cast.
"""

from __future__ import annotations

from sys import byteorder
from typing import TYPE_CHECKING

from pyebpf.bpftrace.value_types import (
    Address,
    Array as ArrayType,
    Boolean,
    Buffer,
    Characters,
    Number,
    Record,
    String,
    Tuple,
    UnkeptStruct,
    ValueType,
)
from pyebpf.builder.ssa.conditions import Always, Compare, Test
from pyebpf.builder.values.arrays import Array
from pyebpf.builder.values.integers import Int
from pyebpf.builder.values.kernel_objects import CharacterArray, KernelArray, KernelReference, plain_integer
from pyebpf.builder.values.lvalue import Lvalue, copy, moved
from pyebpf.builder.values.memory import Space, at_offset, probe_read, probe_read_string
from pyebpf.builder.values.pointers import Pointer
from pyebpf.builder.values.strings import String as BuilderString, StringSource, local_string
from pyebpf.compiler.ir import Condition as Relation, Op
from pyebpf.dataclass import replace
from pyebpf.types import INTEGERS, S64, U64, CharArray, CharFactory, IntType

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyebpf.builder.program import ProgramBuilder
    from pyebpf.compiler import ir
    from pyebpf.target import KernelType


class Value:
    """A value of a script. `operand` is what the builder stores as the type's `storage`."""

    type: ValueType

    def operand(self, p: ProgramBuilder) -> object:
        """The builder's operand."""
        raise NotImplementedError

    def number(self, p: ProgramBuilder) -> ir.Value | None:  # noqa: ARG002 - the interface's
        """Its 64 bits where it can be computed with; None if it cannot."""
        return None

    def truth(self, p: ProgramBuilder) -> Test | None:
        """Whether it counts as true; None if it is neither."""
        number = self.number(p)
        return None if number is None else Compare(Relation.NE, number, p.b.const(0))


class Integer(Value):
    """A number, in 64 bits; `literal` where the script wrote it, or computed it of such.

    A literal that comes of an `Unknown` value is not `sure`: nothing is decided by it.
    """

    def __init__(
        self, value: ir.Value, *, signed: bool, literal: int | None = None, size: int = 8, sure: bool = True
    ) -> None:
        self.value, self.signed, self.literal, self.sure = value, signed, literal, sure
        flexible = literal is not None and 0 <= literal <= S64.maximum
        least = (
            0
            if literal is None
            else next((each for each in (1, 2, 4) if -1 << 8 * each - 1 <= literal < 1 << 8 * each - 1), 8)
        )
        self.type: Number = Number(signed, flexible, size, least=least)

    def operand(self, p: ProgramBuilder) -> Int:  # noqa: ARG002 - the interface's
        return Int(self.value, S64 if self.signed else U64)

    def number(self, p: ProgramBuilder) -> ir.Value:  # noqa: ARG002 - the interface's
        return self.value

    def truth(self, p: ProgramBuilder) -> Test | None:
        return Always(self.literal != 0) if self.literal is not None and self.sure else super().truth(p)


class Unknown(Integer):
    """A value of a map or variable that nothing has given a type so far: what is built with it is not the last."""

    def __init__(self, p: ProgramBuilder) -> None:
        super().__init__(p.b.const(0), signed=True, literal=0, sure=False)


class Condition(Value):
    """The result of a comparison."""

    type = Boolean()

    def __init__(self, test: Test) -> None:
        self.test = test
        self._value: ir.Value | None = None

    def operand(self, p: ProgramBuilder) -> Test:  # noqa: ARG002 - the interface's
        return self.test

    def number(self, p: ProgramBuilder) -> ir.Value:
        return p.b.truth_value(self.test)

    def truth(self, p: ProgramBuilder) -> Test:  # noqa: ARG002 - the interface's
        return self.test


class Text(Value):
    """A string: a literal, one that is still to be read, or one that stands in memory."""

    def __init__(
        self, source: bytes | BuilderString | StringSource, size: int, data: bytes = b"", *, cut: bool = False
    ) -> None:
        self.source = source
        self.type: String = String(size, cut)
        #: The bytes of a literal, with what stands behind a NUL.
        self.data = data

    @property
    def size(self) -> int:
        """Bytes that it takes at most, with its NUL."""
        return self.type.size

    @property
    def room(self) -> int:
        """Bytes that it has: of an array all, of a literal those behind a NUL, too."""
        if isinstance(self.source, CharacterArray) and self.source.array_length:
            return self.source.array_length
        return max(self.size, len(self.data) + 1)

    def operand(self, p: ProgramBuilder) -> object:  # noqa: ARG002 - the interface's
        return self.source.decode("utf-8", "surrogateescape") if isinstance(self.source, bytes) else self.source

    def kept(self, p: ProgramBuilder) -> BuilderString:
        """The string in memory, zeros behind it."""
        if isinstance(self.source, bytes):
            slot = p.b.slot(-(-self.size // 8) * 8, name="literal")
            p.store_value(p.b.slot_address(slot), 0, CharArray(self.size), self.operand(p))
            return BuilderString(CharArray(self.size), Lvalue(slot=slot, owner="a literal", writable=False))
        source = self.source.sized(self.size) if isinstance(self.source, StringSource) else self.source
        found = local_string(p, source)
        assert found is not None
        return found

    def write_counted(self, p: ProgramBuilder, address: ir.Value) -> ir.Value:
        """Write it to any memory that has room for it, with its NUL; return the number of bytes."""
        b, source = p.b, self.source
        if isinstance(source, StringSource) and source.counts:
            written = source.read_into(p, address, self.size)
            assert written is not None
        else:
            place = at_offset(p, *self.kept(p).lvalue.address(p))
            written = probe_read_string(p, Space.KERNEL, address, self.size, place)
        count = b.variable(hint="bytes")
        b.write(count, b.const(1))  # the NUL of what cannot be read
        with b.if_(Compare(Relation.ULT, written, b.const(self.size + 1))):
            b.write(count, b.emit(Op.REFINE, written))
        found = b.read_final(count)
        b.assume_bounds(found, 1, self.size)
        return found

    def copy_bytes(self, p: ProgramBuilder, address: ir.Value, offset: int, count: int) -> None:
        """Copy so many bytes to zeroed memory: those behind a NUL, too, where there are such."""
        source = self.source
        if isinstance(source, bytes):
            data = (self.data or source)[:count] or b"\0"
            slot = p.b.slot(-(-len(data) // 8) * 8, name="literal")
            for at in range(0, len(data), 8):
                word = int.from_bytes(data[at : at + 8].ljust(8, b"\0"), byteorder, signed=True)
                p.b.store(p.b.slot_address(slot), at, p.b.const(word), 8)
            copy(p, address, offset, p.b.slot_address(slot), 0, len(data))
        elif isinstance(source, CharacterArray):
            probe_read(p, source.space, moved(p, address, offset), count, source.string_address(p))
        elif isinstance(source, BuilderString):
            source.check(p)
            copy(p, address, offset, *source.lvalue.address(p), min(count, self.size))
        else:
            copy(p, address, offset, *self.kept(p).lvalue.address(p), min(count, self.size))

    def truth(self, p: ProgramBuilder) -> Test:
        kept = self.kept(p)
        address, offset = kept.lvalue.address(p)
        return Compare(Relation.NE, p.b.load(address, offset, 1), p.b.const(0))


class Reference(Value):
    """An address with what lies there: a struct, an integer, characters; None if nothing is known of it."""

    def __init__(
        self,
        value: ir.Value,
        target: KernelType | IntType | CharFactory | None,
        space: Space,
        held: ValueType | None = None,
    ) -> None:
        self.value = value
        self.type: Address = Address(target, space, held)

    def operand(self, p: ProgramBuilder) -> Int:  # noqa: ARG002 - the interface's
        return Int(self.value, U64)

    def number(self, p: ProgramBuilder) -> ir.Value:  # noqa: ARG002 - the interface's
        return self.value


class Embedded(Value):
    """A struct, a union or an array inside another: it has parts, and an address, but is not kept."""

    def __init__(self, entity: KernelReference | KernelArray) -> None:
        self.entity = entity
        self.type = ValueType()

    def address(self, p: ProgramBuilder) -> ir.Value:
        """Its address."""
        return self.entity.address_as_int(p).value


class Elements(Value):
    """An array in the record of a tracepoint, which only its elements are read of."""

    def __init__(self, entity: Array) -> None:
        self.entity = entity
        self.type = ValueType()


class Row(Value):
    """An array in memory of the program's own, which nobody changes any more."""

    def __init__(self, type_: ArrayType, lvalue: Lvalue) -> None:
        self.type: ArrayType = type_
        self.lvalue = lvalue

    def operand(self, p: ProgramBuilder) -> object:
        return p.load_value(self.lvalue, self.type.storage)


class Group(Value):
    """A tuple; with `names` a record, `c_size` the bytes of the C struct that it is a copy of."""

    def __init__(self, elements: Sequence[Value], names: Sequence[str] = (), c_size: int = 0) -> None:
        self.elements = tuple(elements)
        self.names = tuple(names)
        #: Values in it that are no tuples themselves.
        self.size: int = sum([each.size if isinstance(each, Group) else 1 for each in self.elements])
        types = tuple(each.type for each in elements)
        self.type: Tuple | Record = Record(self.names, types, c_size) if names else Tuple(types)

    def operand(self, p: ProgramBuilder) -> object:
        return tuple(each.operand(p) for each in self.elements)


def bare(value: Value) -> int | None:
    """The number that a value is, if the script wrote it, and without a cast."""
    return value.literal if isinstance(value, Integer) and value.sure and value.type.least else None


def group_of(type_: Tuple | Record, elements: Sequence[Value]) -> Group:
    """Elements as a tuple, or as a record with the names and the size of a type."""
    return Group(elements, type_.names, type_.c_size) if isinstance(type_, Record) else Group(elements)


class Special(Value):
    """A value of a type that is shown as something else than it is: a stack, a symbol, a time."""

    def __init__(self, type_: ValueType, operand: object) -> None:
        self.type = type_
        self._operand = operand

    def operand(self, p: ProgramBuilder) -> object:  # noqa: ARG002 - the interface's
        return self._operand

    def number(self, p: ProgramBuilder) -> ir.Value | None:  # noqa: ARG002 - the interface's
        return self._operand.value if isinstance(self._operand, Int) else None


def is_unknown(value: Value) -> bool:
    """Whether a value's type, or that of a part of it, is not yet known."""
    return isinstance(value, Unknown) or (isinstance(value, Group) and any(map(is_unknown, value.elements)))


def constant(p: ProgramBuilder, literal: int) -> Integer:
    """A number that is known: signed if it fits."""
    literal = literal & U64.maximum if literal > S64.maximum else literal
    return Integer(p.b.const(literal), signed=literal <= S64.maximum, literal=literal)


def literal_text(data: bytes) -> Text:
    """A text that is known, up to its first NUL."""
    text = data.partition(b"\0")[0]
    return Text(text, len(text) + 1, data)


def of_int(found: Int) -> Integer:
    """A number of the builder's, as signed as what it was read from."""
    type_ = found.loaded or found.type
    return Integer(found.value, signed=type_.signed, size=type_.size)


def of_number_type(type_: Number, value: ir.Value) -> Integer:
    """A number of a type that was kept."""
    found = Integer(value, signed=type_.signed, size=type_.size)
    found.type = replace(type_, flexible=False)
    return found


def of_entity(p: ProgramBuilder, entity: object, text_size: int) -> Value | None:
    """The value that the builder's entity stands for; None if a script has none such."""
    if isinstance(entity, Int):
        if (entity.loaded or entity.type) == INTEGERS["bool"]:
            return Condition(Compare(Relation.NE, entity.value, p.b.const(0)))
        return of_int(entity)
    if isinstance(entity, Test):
        return Condition(entity)
    if isinstance(entity, int):
        return constant(p, entity)
    if isinstance(entity, KernelReference):
        if entity.embedded:
            return Embedded(entity)
        return Reference(entity.address_as_int(p).value, entity.type, entity.space)
    if isinstance(entity, KernelArray):
        if entity.array_length:
            return Embedded(entity)
        return Reference(entity.address_as_int(p).value, entity.element, entity.space)
    if isinstance(entity, Array):
        return Elements(entity)
    if isinstance(entity, Pointer):
        target = entity.target if isinstance(entity.target, IntType | CharFactory) else None
        return Reference(entity.address, target, entity.space)
    if isinstance(entity, CharacterArray) and entity.array_length:
        return characters(entity)
    if isinstance(entity, StringSource):
        return Text(entity, text_size if entity.size is None else entity.size)
    if isinstance(entity, BuilderString):
        return Text(entity, entity.type.length)
    return None


def characters(array: CharacterArray) -> Text:
    """The text that a C `char[n]` begins with; a full one has no NUL."""
    size = (array.array_length or 0) + 1
    return Text(array.sized(size), size)


def read_stored(p: ProgramBuilder, type_: ValueType, lvalue: Lvalue) -> Value:
    """A value of a type from memory that nobody changes any more."""
    address, offset = lvalue.address(p)
    match type_:
        case Number():
            return of_number_type(type_, p.b.load(address, offset, 8))
        case Boolean():
            return Condition(Compare(Relation.NE, p.b.load(address, offset, 1), p.b.const(0)))
        case Address(target, space, held):
            return Reference(p.b.load(address, offset, 8), target, space, held)
        case UnkeptStruct(target, space):
            return unkept(p.b.load(address, offset, 8), target, space)
        case Characters(length):
            return characters(CharacterArray(address, offset, Space.KERNEL, length, length, p.b.where))
        case String(size, cut):
            return Text(BuilderString(CharArray(size), lvalue), size, cut=cut)
        case Tuple(parts) | Record(_, parts):
            fields = type_.storage.fields
            places = [lvalue.at(field.offset) for field in fields]
            return group_of(type_, [read_stored(p, part, place) for part, place in zip(parts, places, strict=True)])
        case ArrayType():
            return Row(type_, lvalue)
    return Special(type_, p.load_value(lvalue, type_.storage))


def unkept(address: ir.Value, target: KernelType, space: Space) -> Embedded:
    """A struct, or an array of some, that a variable has the address of."""
    if target.kind == "array":
        assert target.element is not None
        return Embedded(KernelArray(address, target.element, target.length, space=space))
    return Embedded(KernelReference(address, target, space=space, embedded=True))


def target_of(reference: Reference) -> KernelReference | None:
    """The struct that a pointer leads to; None if it leads to something else."""
    target = reference.type.target
    if target is None or isinstance(target, IntType | CharFactory) or not target.composite:
        return None
    return KernelReference(reference.value, target, space=reference.type.space)


def kernel_target(type_: KernelType) -> KernelType | IntType | CharFactory | None:
    """The target of a pointer to a kernel type."""
    if type_.kind == "void":
        return None
    if type_.character:
        return CharFactory()
    return plain_integer(type_) or type_


def joined(one: ValueType, other: ValueType) -> ValueType | None:
    """The type that holds values of both; None if there is none."""
    if one == other:
        return one
    match one, other:
        case Number(), Number():
            names = one.names if one.names == other.names else ()
            enum = one.enum if one.enum == other.enum else ""
            least = max(one.least, other.least) if one.least and other.least else 0
            if one.flexible is not other.flexible:
                decisive = other if one.flexible else one
                return replace(decisive, flexible=False, names=names, enum=enum, least=least)
            size = max(one.size, other.size)
            clock = one.clock if one.clock == other.clock else ""
            return Number(one.signed or other.signed, one.flexible, size, names, enum, least, clock)
        case (Boolean(), Number() as number) | (Number() as number, Boolean()):
            return number
        case String(), String():
            size = max(one.size, other.size)
            return String(size, any(each.cut and each.size == size for each in (one, other)))
        case Buffer(), Buffer():
            return Buffer(max(one.size, other.size))
        case (Address() as address, Number(flexible=True)) | (Number(flexible=True), Address() as address):
            return address
        case Address(), Address():
            leads = one if other.target is None or one.target is not None else other
            return leads if one.space is other.space else replace(leads, space=Space.EITHER)
        case Tuple(), Tuple() if len(one.parts) == len(other.parts):
            parts = [joined(a, b) for a, b in zip(one.parts, other.parts, strict=True)]
            found = [each for each in parts if each is not None]
            return Tuple(tuple(found)) if len(found) == len(parts) else None
        case Record(), Record() if set(one.names) == set(other.names):
            others = dict(zip(other.names, other.parts, strict=True))
            together = [joined(part, others[name]) for name, part in zip(one.names, one.parts, strict=True)]
            known = [each for each in together if each is not None]
            return Record(one.names, tuple(known), one.c_size) if len(known) == len(together) else None
    return None


def arranged(value: Value, type_: ValueType | None) -> Value:
    """A value with the fields of its records in the order of a type that holds it."""
    if not isinstance(value, Group) or not isinstance(type_, Tuple | Record):
        return value
    elements = value.elements
    if isinstance(type_, Record):
        by_name = dict(zip(value.names, elements, strict=True))
        elements = tuple([by_name[name] for name in type_.names])
    parts = [arranged(each, part) for each, part in zip(elements, type_.parts, strict=True)]
    return group_of(type_, parts)
