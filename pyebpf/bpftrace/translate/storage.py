"""Scratch variables: numbers in SSA variables, everything else in memory of the program's own."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from pyebpf.bpftrace.translate.buffers import fitted
from pyebpf.bpftrace.translate.values import Condition, Integer, Reference, Special, of_number_type, read_stored, unkept
from pyebpf.bpftrace.value_types import (
    Address,
    Boolean,
    KernelStack,
    KernelSymbol,
    Number,
    Timestamp,
    UnkeptStruct,
    Username,
)
from pyebpf.builder.ssa.conditions import Compare
from pyebpf.builder.values.integers import Int
from pyebpf.builder.values.lvalue import Lvalue, zero
from pyebpf.builder.values.operations import to_int
from pyebpf.compiler.ir import Condition as Relation
from pyebpf.dataclass import dataclass, replace
from pyebpf.types import S64, U64

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyebpf.bpftrace.translate.inference import Variables
    from pyebpf.bpftrace.translate.values import Value
    from pyebpf.bpftrace.value_types import ValueType
    from pyebpf.builder.program import ProgramBuilder
    from pyebpf.builder.ssa.environment import Variable
    from pyebpf.compiler import ir

#: Types whose values are one number.
_SCALARS = (Number, Boolean, Address, UnkeptStruct, KernelStack, KernelSymbol, Timestamp, Username)


@dataclass(frozen=True, slots=True)
class Stored:
    """A value in a slot that nobody changes any more."""

    type: ValueType
    slot: ir.Slot

    def read(self, p: ProgramBuilder) -> Value:
        """The value, in the function that is being built."""
        return read_stored(p, self.type, Lvalue(slot=self.slot, owner="an entry", writable=False))


class Storage:
    """A program's variables, of the types that earlier builds found. All begin as nothing: 0, an empty string."""

    def __init__(self, p: ProgramBuilder, variables: Variables) -> None:
        self._p = p
        self._types = dict(variables.types)
        #: With what this build has found so far.
        self._noted = variables.types
        #: Variables whose address is taken: they stand in memory, numbers too.
        self._addressed = set(variables.addressed)
        self._numbers: dict[str, Variable] = {}
        self._slots: dict[str, ir.Slot] = {}
        #: The names that the bodies of loops over maps use, of each loop that is being built.
        self._in_loops: list[set[str]] = []

    def begin(self) -> None:
        """Make them."""
        b = self._p.b
        for name, type_ in self._types.items():
            if isinstance(type_, _SCALARS) and name not in self._addressed:
                variable = self._numbers[name] = b.variable(hint=name)
                b.write(variable, b.const(0))
            else:
                size = -(-type_.storage.size // 8) * 8
                slot = self._slots[name] = b.slot(size, name=name)
                zero(self._p, b.slot_address(slot), 0, size)

    def address(self, name: str) -> ir.Value | None:
        """The address of a variable; None if the builds before did not know that it is taken."""
        slot = self._slots.get(name)
        return None if slot is None or name not in self._addressed else self._p.b.slot_address(slot)

    def numbers(self, names: set[str] | None) -> list[Variable]:
        """The variables of these names, or all, that are numbers and have a value here."""
        found = [each for name, each in self._numbers.items() if names is None or name in names]
        return [each for each in found if self._p.b.read(each) is not None]

    @contextmanager
    def in_loop(self) -> Iterator[set[str]]:
        """Build the body, that of a loop; gives the names of the variables that it uses, once it is built."""
        names: set[str] = set()
        self._in_loops.append(names)
        yield names
        self._in_loops.pop()

    def _use(self, name: str) -> None:
        for names in self._in_loops:
            names.add(name)

    def type_of(self, name: str) -> ValueType | None:
        """The type of a variable; None if nothing was assigned to it."""
        return self._types.get(name)

    def declare(self, name: str) -> None:
        """Make a variable nothing again."""
        p, type_ = self._p, self._types.get(name)
        self._use(name)
        if name in self._numbers:
            p.b.write(self._numbers[name], p.b.const(0))
        elif type_ is not None:
            zero(p, p.b.slot_address(self._slots[name]), 0, self._slots[name].size)

    def now(self, name: str) -> Value | None:
        """The value of a variable now; None if nothing is known of it.

        What is one number, and new to this build, has a stand-in of its type: what is built is not the last.
        """
        if name in self._types:
            return self.read(name)
        noted, one = self._noted.get(name), self._p.b.const(1)
        if isinstance(noted, Number) and noted.flexible:  # it may yet be a pointer
            found = Integer(one, signed=noted.signed, literal=1, sure=False)
            found.type = replace(found.type, names=noted.names, enum=noted.enum)
            return found
        return from_number(self._p, noted, one) if isinstance(noted, _SCALARS) else None

    def read(self, name: str) -> Value:
        """The value of a variable now."""
        p, type_ = self._p, self._types[name]
        self._use(name)
        if isinstance(type_, Number) and isinstance(noted := self._noted[name], Number):
            type_ = noted  # its sign may be another by now, and what is made of it has that
        if name in self._numbers:
            number = p.b.read(self._numbers[name])
            if number is None:  # nothing can come here
                number = p.b.const(0)
            return from_number(p, type_, number)
        # Text is read where it is used, and the variable may have another by then.
        storage = type_.storage
        copy = p.b.slot(-(-storage.size // 8) * 8, name=f"{name}_now")
        from pyebpf.builder.values.lvalue import copy as copy_bytes

        copy_bytes(p, p.b.slot_address(copy), 0, p.b.slot_address(self._slots[name]), 0, copy.size)
        return read_stored(p, type_, Lvalue(slot=copy, owner=f"${name}", writable=False))

    def write(self, name: str, value: Value) -> None:
        """Assign a value that the type holds; while types are still being found, others are dropped."""
        p, type_ = self._p, self._types.get(name)
        self._use(name)
        if type_ is None:
            return
        value = fitted(p, value, type_)
        if name in self._numbers:
            p.b.write(self._numbers[name], to_int(p, value.operand(p)).value)
        else:
            p.store_value(p.b.slot_address(self._slots[name]), 0, type_.storage, value.operand(p))


def from_number(p: ProgramBuilder, type_: ValueType, number: ir.Value) -> Value:
    """A value of a type that is one number."""
    match type_:
        case Number():
            return of_number_type(type_, number)
        case Boolean():
            return Condition(Compare(Relation.NE, number, p.b.const(0)))
        case Address(target, space, held):
            return Reference(number, target, space, held)
        case UnkeptStruct(target, space):
            return unkept(number, target, space)
    return Special(type_, Int(number, S64 if isinstance(type_, KernelStack) else U64))
