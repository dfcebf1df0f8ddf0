"""Records: a Struct in memory, field by field, and the constructor that makes one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyebpf.builder.values.atomics import augment
from pyebpf.builder.values.bits import bits_of, changed_bits, read_bits
from pyebpf.builder.values.entity import Entity, NoPythonOperators, RunTimeValue
from pyebpf.builder.values.integers import Int
from pyebpf.builder.values.lvalue import Lvalue, copy, zero
from pyebpf.builder.values.own_methods import check_constructor, check_field
from pyebpf.builder.values.references import Reference, note_change
from pyebpf.dataclass import replace
from pyebpf.errors import closest, closest_or_all
from pyebpf.types import CharArray, Struct, StructType
from pyebpf.types.structs import too_many

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping, Sequence

    from pyebpf.builder.program import ProgramBuilder
    from pyebpf.compiler import ir
    from pyebpf.types import Type
    from pyebpf.types.structs import Field


class Record(Reference):
    """A reference to a Struct in memory. Its fields are read and written where the source does."""

    type: StructType
    #: Whether it has just been made, and no name stands for it.
    fresh = False

    def describe(self) -> str:
        owner = f" ({self.lvalue.owner})" if self.lvalue.owner else ""
        return f"the record {self.type.name}{owner}"

    def field(self, p: ProgramBuilder, name: str) -> Field:
        """Return a field's layout, or refuse with the closest names."""
        found = self.type.by_name.get(name)
        if found is None:
            known = [*self.type.by_name, *(key for key in vars(self.type.cls or object) if bits_of(self.type, key))]
            p.fail(f"{self.type.name} has no field {name}{closest_or_all(name, known)}")
        return found

    def attribute(self, p: ProgramBuilder, name: str) -> object:
        bits = bits_of(self.type, name)
        if bits is not None:
            return read_bits(p, self.attribute(p, bits.field), bits)
        field = self.field(p, name)
        check_field(p, self.type, name)
        self.check(p)
        # What is nested in a record that is there is there.
        return p.load_value(replace(self.lvalue.at(field.offset), null_check=None), field.type, part=True)

    def set_attribute(self, p: ProgramBuilder, name: str, value: object) -> None:
        bits = bits_of(self.type, name)
        if bits is not None:
            name, value = bits.field, changed_bits(p, self.attribute(p, bits.field), bits, value)
        field = self.field(p, name)
        check_field(p, self.type, name, written=True)
        self.check_writable(p)
        note_change(p, field.type)
        p.store_value(*self.lvalue.at(field.offset).address(p), field.type, value)
        self.note_written(p)

    def augment_attribute(self, p: ProgramBuilder, name: str, operator: str, value: object) -> None:
        if not self.lvalue.shared or p.b.no_calls or bits_of(self.type, name) is not None:
            super().augment_attribute(p, name, operator, value)
            return
        field = self.field(p, name)
        check_field(p, self.type, name, written=True)
        self.check_writable(p)
        augment(p, self.lvalue.at(field.offset), field.type, operator, value, f"{self.type.name}.{name}")

    def write_to(self, p: ProgramBuilder, address: ir.Value, offset: int, type_: Type) -> None:
        """Copy the whole record."""
        self.check(p)
        if type_ != self.type:
            p.fail(f"{self.describe()} does not fit {type_.name}")
        copy(p, address, offset, *self.lvalue.address(p), self.type.size)
        if self.lvalue.untrusted:
            # Numbers are what they are, and strings are written as the language has them.
            for field in self.type.fields:
                if isinstance(field.type, (CharArray, StructType)):
                    part = p.load_value(self.lvalue.at(field.offset), field.type)
                    p.store_value(address, offset + field.offset, field.type, part)


class RecordLiteral(RunTimeValue):
    """A record whose values are known but that is not in memory yet: it is built where it goes.

    Passed on as a value it takes its place there, on the stack, in a map's entry or in a ring buffer's reservation.
    """

    def __init__(self, type_: StructType, values: Mapping[str, object]) -> None:
        self.type = type_
        self.values = values

    @property
    def ssa_values(self) -> tuple[ir.Value, ...]:
        return ()

    @property
    def static_shape(self) -> Hashable:
        return ("pending record", id(self))

    def with_ssa_values(self, values: tuple[ir.Value, ...]) -> RecordLiteral:
        return self

    def describe(self) -> str:
        return f"the new record {self.type.name}"

    @property
    def plain(self) -> bool:
        """Whether it holds numbers and constants only, so that writing it reads no memory."""
        return all(isinstance(value, Int) or not isinstance(value, Entity) for value in self.values.values())

    def local(self, p: ProgramBuilder) -> Record:
        """Build it on the stack."""
        slot = p.b.slot(-(-self.type.size // 8) * 8, name=self.type.name)
        self.write_to(p, p.b.slot_address(slot), 0, self.type)
        return Record(self.type, Lvalue(slot=slot))

    def write_to(self, p: ProgramBuilder, address: ir.Value, offset: int, type_: Type) -> None:
        """Build it in its place: every field, and zeros between them."""
        if type_ != self.type:
            p.fail(f"{self.describe()} does not fit {type_.name}")
        for start, size in self.type.padding:
            zero(p, address, offset + start, size)
        for field in self.type.fields:
            p.store_value(address, offset + field.offset, field.type, self.values[field.name])

    def attribute(self, p: ProgramBuilder, name: str) -> object:
        return self.local(p).attribute(p, name)


class StructConstructor(Entity, NoPythonOperators):
    """A Struct class in a probe: called, it makes a record."""

    def __init__(self, struct: type[Struct] | StructType) -> None:
        self.type = struct if isinstance(struct, StructType) else struct.layout

    def describe(self) -> str:
        return f"the record type {self.type.name}"

    def call(self, p: ProgramBuilder, arguments: Sequence[object], keywords: Mapping[str, object]) -> RecordLiteral:
        check_constructor(p, self.type)
        fields, positional = self.type.fields, self.type.positional
        name = self.type.name
        if len(arguments) > len(positional):
            p.fail(too_many(self.type, len(arguments)))
        values = dict(zip((field.name for field in positional), arguments, strict=False))
        for given, value in keywords.items():
            if given not in self.type.by_name:
                p.fail(f"{name} has no field {given}{closest(given, self.type.by_name)}")
            if given in values:
                p.fail(f"{name} got two values for {given}")
            values[given] = value
        missing = [field.name for field in fields if field.required and field.name not in values]
        if missing:
            p.fail(f"{name} needs a value for {', '.join(missing)}: every field without a default must be given")
        return RecordLiteral(self.type, {field.name: values.get(field.name, field.default) for field in fields})


def is_fresh(value: object) -> bool:
    """Whether a record has just been made, so that no name stands for it."""
    return isinstance(value, RecordLiteral) or (isinstance(value, Record) and value.fresh)
