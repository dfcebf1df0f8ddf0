"""Tuples with run-time values in them: they live while compiling, their elements at run time.

They are compared element by element, as Python compares tuples.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyebpf.builder.ssa.conditions import Always, Test
from pyebpf.builder.values.entity import RunTimeValue, describe
from pyebpf.builder.values.lvalue import Lvalue, zero
from pyebpf.builder.values.operations import to_int
from pyebpf.builder.values.records import Record
from pyebpf.builder.values.references import copied, is_overwritten
from pyebpf.dataclass import replace
from pyebpf.errors import closest
from pyebpf.types import ArrayType, StructType, TupleType

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from pyebpf.builder.program import ProgramBuilder
    from pyebpf.compiler import ir
    from pyebpf.types import Type


class TupleValue(RunTimeValue):
    """A tuple in a run-time variable: as many elements, each of one shape."""

    def __init__(self, elements: tuple[object, ...], kind: object = tuple) -> None:
        self.elements = elements
        #: The namedtuple that it is, which names the elements.
        self.kind = kind if hasattr(kind, "_fields") else tuple

    def describe(self) -> str:
        return f"a tuple of {len(self.elements)}"

    @property
    def ssa_values(self) -> tuple[ir.Value, ...]:
        return tuple(
            part for element in self.elements if isinstance(element, RunTimeValue) for part in element.ssa_values
        )

    @property
    def static_shape(self) -> Hashable:
        return (
            "tuple",
            self.kind,
            tuple(
                element.static_shape if isinstance(element, RunTimeValue) else ("constant", repr(element))
                for element in self.elements
            ),
        )

    def with_ssa_values(self, values: tuple[ir.Value, ...]) -> TupleValue:
        rest = list(values)
        rebuilt: list[object] = []
        for element in self.elements:
            if isinstance(element, RunTimeValue):
                count = len(element.ssa_values)
                rebuilt.append(element.with_ssa_values(tuple(rest[:count])))
                del rest[:count]
            else:
                rebuilt.append(element)
        return TupleValue(tuple(rebuilt), self.kind)

    def local(self, p: ProgramBuilder) -> RunTimeValue:
        """Integers become variables, so that another path may give others; the rest must be the same on each path."""
        return TupleValue(tuple(_local(p, element) for element in self.elements), self.kind)

    def attribute(self, p: ProgramBuilder, name: str) -> object:
        names: tuple[str, ...] = getattr(self.kind, "_fields", ())
        if name not in names:
            p.fail(f"{self.describe()} has no attribute {name}{closest(name, names)}")
        return self.elements[names.index(name)]

    def item(self, p: ProgramBuilder, index: object) -> object:
        if not isinstance(index, int) or not -len(self.elements) <= index < len(self.elements):
            p.fail(
                f"a tuple of {len(self.elements)} is indexed by a number known at compile time, not by "
                f"{describe(index)}"
            )
        return self.elements[index]

    def length(self, p: ProgramBuilder) -> int:
        return len(self.elements)

    def truth(self, p: ProgramBuilder) -> Test:
        return Always(bool(self.elements))

    def write_to(self, p: ProgramBuilder, address: ir.Value, offset: int, type_: Type) -> None:
        """Write each element in its place."""
        if not isinstance(type_, TupleType):
            p.fail(f"{self.describe()} does not fit {type_.name}")
        write_elements(p, address, offset, type_, self.elements)


class TupleReference(Record):
    """A tuple in memory: a map's key or value, read element by element where the source does."""

    type: TupleType

    def local(self, p: ProgramBuilder) -> RunTimeValue:
        """Where the program writes over tuples, a name takes a copy of one that is there and has no records in it."""
        parts = (field.type for field in self.type.fields)
        if any(isinstance(each, (StructType, ArrayType)) for each in parts) or self.lvalue.may_be_null(p):
            return self
        return copied(p, self, TupleReference) if is_overwritten(p, self.lvalue, TupleType) else self

    def describe(self) -> str:
        owner = f" ({self.lvalue.owner})" if self.lvalue.owner else ""
        return f"the tuple {self.type.name}{owner}"

    def taken(self, p: ProgramBuilder) -> TupleValue:
        """Its elements as they are now; text where it stands."""
        self.check(p)
        lvalue = replace(self.lvalue, null_check=None)
        return TupleValue(
            tuple(p.load_value(lvalue.at(field.offset), field.type, part=True) for field in self.type.fields)
        )

    def attribute(self, p: ProgramBuilder, name: str) -> object:
        p.fail(f"{self.describe()} has no attribute {name}: its elements have numbers, t[0], or names, `a, b = t`")

    def set_attribute(self, p: ProgramBuilder, name: str, value: object) -> None:
        self.attribute(p, name)

    def augment_attribute(self, p: ProgramBuilder, name: str, operator: str, value: object) -> None:
        self.attribute(p, name)

    def item(self, p: ProgramBuilder, index: object) -> object:
        return self.taken(p).item(p, index)

    def set_item(self, p: ProgramBuilder, index: object, value: object) -> None:
        p.fail(f"{self.describe()} is immutable, as in Python: assign a whole tuple, or use a Struct")

    def augment_item(self, p: ProgramBuilder, index: object, operator: str, value: object) -> None:
        self.set_item(p, index, value)

    def length(self, p: ProgramBuilder) -> int:
        return len(self.type.fields)


def built(p: ProgramBuilder, type_: TupleType, value: object) -> TupleReference:
    """A tuple on the stack: what goes into it may stand where the tuple is to go."""
    slot = p.b.slot(-(-type_.size // 8) * 8, name="tuple")
    p.store_value(p.b.slot_address(slot), 0, type_, value)
    return TupleReference(type_, Lvalue(slot=slot, owner="a local"))


def write_elements(
    p: ProgramBuilder, address: ir.Value, offset: int, type_: TupleType, values: Sequence[object]
) -> None:
    """Write values as a tuple in memory, zeros between them."""
    if len(values) != len(type_.fields):
        p.fail(f"{describe(tuple(values))} does not fit {type_.name}: give {len(type_.fields)} values")
    for start, size in type_.padding:
        zero(p, address, offset + start, size)
    for field, value in zip(type_.fields, values, strict=True):
        p.store_value(address, offset + field.offset, field.type, value)


def _local(p: ProgramBuilder, element: object) -> object:
    if isinstance(element, RunTimeValue):
        return element.local(p)
    if isinstance(element, int):
        return to_int(p, element)
    return TupleValue(element, type(element)).local(p) if isinstance(element, tuple) else element


def elements_of(value: object) -> tuple[object, ...] | list[object] | None:
    """The elements of a tuple or list, with run-time values or without; None of anything else."""
    if isinstance(value, TupleValue):
        return value.elements
    return value if isinstance(value, (tuple, list)) else None
