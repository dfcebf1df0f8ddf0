"""`ptr[T]`: addresses in user or kernel memory whose target has a type of the language."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from pyebpf.builder.ssa.conditions import Compare, Test
from pyebpf.builder.values.comparisons import compare
from pyebpf.builder.values.entity import RunTimeValue, describe
from pyebpf.builder.values.integers import Int, number
from pyebpf.builder.values.kernel_numbers import check_width
from pyebpf.builder.values.lvalue import Lvalue
from pyebpf.builder.values.memory import Space, at_offset, probe_read, probe_read_string, probe_read_value
from pyebpf.builder.values.operations import rvalue, to_int
from pyebpf.builder.values.strings import StringSource
from pyebpf.compiler.ir import Condition as Relation, Op
from pyebpf.errors import closest
from pyebpf.types import S64, U64, CharArray, CharFactory, IntType, PointerType, StructType, Type

if TYPE_CHECKING:
    from collections.abc import Hashable

    from pyebpf.builder.program import ProgramBuilder
    from pyebpf.builder.values.entity import Entity
    from pyebpf.compiler import ir


class Pointer(RunTimeValue):
    """An address. Reading through it copies: a bad address gives zeros, so no None check is needed."""

    def __init__(self, address: ir.Value, target: Type | CharFactory | None, space: Space) -> None:
        self.address = address
        self.target = target
        self.space = space

    @property
    def ssa_values(self) -> tuple[ir.Value, ...]:
        return (self.address,)

    @property
    def static_shape(self) -> Hashable:
        return ("pointer", getattr(self.target, "name", None), self.space)

    def with_ssa_values(self, values: tuple[ir.Value, ...]) -> Pointer:
        return Pointer(values[0], self.target, self.space)

    def describe(self) -> str:
        return f"a ptr[{getattr(self.target, 'name', 'void')}] to {self.space} memory"

    def as_int(self, p: ProgramBuilder) -> Int:
        """Return the address as a u64."""
        return Int(self.address, U64)

    def string_address(self, p: ProgramBuilder) -> ir.Value:
        """The address, where the string begins."""
        return self.address

    def is_none(self, p: ProgramBuilder) -> Test:
        return Compare(Relation.EQ, self.address, p.b.const(0))

    def contains(self, p: ProgramBuilder, item: object) -> Test:
        p.fail(f"{self.describe()} cannot be asked whether {describe(item)} is in it: {self._reader()} is its text")

    def length(self, p: ProgramBuilder) -> NoReturn:
        p.fail(f"{self.describe()} has no length: {self._reader()} is its text")

    def compare(self, p: ProgramBuilder, operator: str, other: object, *, reflected: bool = False) -> Test:
        if isinstance(other, (str, bytes)):
            p.fail(f"{self.describe()} cannot be compared with {other!r}: {self._reader()} is its text")
        other = other.as_int(p) if isinstance(other, Pointer) else other
        mine = self.as_int(p)
        return compare(p, operator, other, mine) if reflected else compare(p, operator, mine, other)

    def convert(self, p: ProgramBuilder, type_: IntType) -> Int | Test:
        check_width(p, self, type_)
        return self.as_int(p).convert(p, type_)

    def binary(self, p: ProgramBuilder, operator: str, other: object, *, reflected: bool = False) -> Int | Pointer:
        """Bytes further on or back of a pointer to bytes, in the same memory; the distance of two pointers."""
        if operator == "-" and not reflected and isinstance(other, Pointer):
            return Int(p.b.binary(Op.SUB, self.address, other.address), S64)
        distance = number(p, other) if operator == "+" or (operator == "-" and not reflected) else None
        if distance is None:
            p.fail(f"{self.describe()} has no operator {operator} with {describe(other)}: u64(p) is its number")
        if self.target is not None and not isinstance(self.target, CharFactory):
            p.fail(
                f"{self.describe()} has no operator {operator}: p[i] reads the i-th {self.target.name}; "
                'cast("char *", p) + n is n bytes further on'
            )
        address = p.b.binary(Op.ADD if operator == "+" else Op.SUB, self.address, distance.value)
        return Pointer(address, self.target, self.space)

    def item(self, p: ProgramBuilder, index: object) -> Entity:
        if isinstance(self.target, CharFactory):
            p.fail("a C string has no items: copy it with user_string() or kernel_string(), then index the copy")
        if self.target is None:
            p.fail(f"{self.describe()} has no items: annotate what it points to, such as ptr[u32] or ptr[ptr[char]]")
        if isinstance(index, int):
            return read_typed(p, self.space, self.address, index * self.target.size, self.target)
        offset = p.b.emit(Op.MUL, to_int(p, index).value, p.b.const(self.target.size))
        return read_typed(p, self.space, p.b.emit(Op.ADD, self.address, offset), 0, self.target)

    def write_to(self, p: ProgramBuilder, address: ir.Value, offset: int, type_: Type) -> None:
        """Refuse: an address is stored as a number, and text has to be read."""
        remedy = "u64(p) is its number" if self.target is None else self.narrow_remedy()
        if isinstance(type_, CharArray) and self._is_bytes():
            remedy = f"{self._reader()} is its text"
        p.fail(f"{self.describe()} does not fit {type_.name}: {remedy}")

    def _is_bytes(self) -> bool:
        """Whether it points to bytes, by which much of the kernel means text (`unsigned char *`)."""
        return isinstance(self.target, IntType) and self.target.size == 1

    def narrow_remedy(self) -> str:
        """Return what to write in place of an address for which there is no room."""
        if isinstance(self.target, CharFactory):
            return f"{self._reader()} is its text"
        return (
            "cast() or annotate it to read what it points to" if self.target is None else "p[0] reads what it points to"
        )

    def _reader(self) -> str:
        """The call that reads the text at an address, as an author would write it."""
        return f"{'user' if self.space is Space.USER else 'kernel'}_string(…, size=64)"

    def attribute(self, p: ProgramBuilder, name: str) -> object:
        if isinstance(self.target, CharFactory):
            p.fail(f"{self.describe()} has no attribute {name}: {self._reader()} is its text")
        if not isinstance(self.target, StructType):
            p.fail(f"{self.describe()} has no attribute {name}: [0] reads what it points to")
        found = self.target.by_name.get(name)
        if found is None:
            p.fail(f"{self.target.name} has no field {name}{closest(name, self.target.by_name)}")
        return read_typed(p, self.space, self.address, found.offset, found.type)


def read_typed(p: ProgramBuilder, space: Space, address: ir.Value, offset: int, type_: Type) -> Entity:
    """Read a value of a type of the language from memory by address, copying all but integers to the stack."""
    if isinstance(type_, IntType) and not type_.big_endian:
        value = probe_read_value(p, space, address, offset, type_.size, signed=type_.signed)
        if type_.size == U64.size:
            return Int(value, S64 if type_.signed else U64)
        return Int(value, S64, type_)
    if isinstance(type_, PointerType):
        return Pointer(probe_read_value(p, space, address, offset, 8), type_.target, space)
    copied = p.b.slot_address(p.b.slot(-(-type_.size // 8) * 8, name="copy"))
    probe_read(p, space, copied, type_.size, at_offset(p, address, offset))
    return p.load_value(Lvalue(base=copied, untrusted=True, space=space), type_)


def string_at(p: ProgramBuilder, word: str, pointer: object, space: Space, size: int | None) -> StringSource:
    """Return the C string at an address, read where its destination is known; `size` stands in where there is none."""
    pointer = rvalue(p, pointer)
    if hasattr(pointer, "string_address"):
        if getattr(pointer, "space", None) is not space:
            other = "kernel_string" if word == "user_string" else "user_string"
            p.fail(f"{word}() of {describe(pointer)}: write {other}()")
        address = pointer.string_address(p)
    elif isinstance(pointer, Int):
        address = pointer.value
    else:
        p.fail(f"{word}() takes an address, not {describe(pointer)}")

    def read_into(program: ProgramBuilder, destination: ir.Value, length: int) -> None:
        probe_read_string(program, space, destination, length, address)

    return StringSource(f"{word}()", read_into, size, p.b.where)
