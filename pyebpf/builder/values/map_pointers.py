"""`MapPointer`: what every map is to a probe, whatever its kind; `InnerMap`: one that was found in a map of maps."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyebpf.builder.ssa.conditions import Always, Compare, Test
from pyebpf.builder.values.entity import Entity, RunTimeValue
from pyebpf.compiler.ir import Condition as Relation, Op

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from pyebpf.builder.program import ProgramBuilder
    from pyebpf.builder.values.entries import MapEntries
    from pyebpf.compiler import ir
    from pyebpf.specs import MapSpec


class MapPointer(Entity):
    """A map. `name` is empty until it has one: its author's, or the one that a module gives it."""

    name: str
    #: The address of a map known only at run time; None: it is the map of `spec`.
    address: ir.Value | None = None

    if TYPE_CHECKING:

        @property
        def spec(self) -> MapSpec:
            """The spec of the map that the loader makes."""

    @property
    def map_name(self) -> str:
        """The map's name, or what stands in for it until a module is compiled."""
        return self.name or "(unnamed)"

    def specs(self) -> Sequence[MapSpec]:
        """Every map that is to be made for it."""
        return (self.spec,)

    def handle(self, p: ProgramBuilder) -> ir.Value:
        """Return the map as helpers take it."""
        if self.address is not None:
            return self.address
        name = self.map_name
        return p.b.emit(Op.MAP, symbol=name if name in p.maps else p.use_map(self.spec))

    def is_shared(self, p: ProgramBuilder) -> bool:
        return True

    def entries(self, p: ProgramBuilder) -> MapEntries | None:
        p.fail(f"a `for` over {self.map_name}: the kernel iterates over hashes and arrays only")


class InnerMap(RunTimeValue):
    """A map of the shape of `template` that a look-up found, or None. Messages and drop reasons call it `outer`."""

    def __init__(self, address: ir.Value, template: MapPointer, outer: str) -> None:
        self.address = address
        self.template = template
        self.outer = outer

    @property
    def ssa_values(self) -> tuple[ir.Value, ...]:
        return (self.address,)

    @property
    def static_shape(self) -> Hashable:
        return ("inner map", id(self.template), self.outer)

    def with_ssa_values(self, values: tuple[ir.Value, ...]) -> InnerMap:
        return InnerMap(values[0], self.template, self.outer)

    def describe(self) -> str:
        return f"the map found in {self.outer}"

    def is_none(self, p: ProgramBuilder) -> Test:
        if p.b.is_non_null(self.address):
            return Always(holds=False)
        return Compare(Relation.EQ, self.address, p.b.const(0), null_check=True)

    def truth(self, p: ProgramBuilder) -> Test:
        p.fail(f"the truth of {self.describe()} may mean None: write `is None` or `is not None`")

    def _map(self, p: ProgramBuilder) -> MapPointer:
        if not p.b.is_non_null(self.address):
            p.fail(f"{self.outer}.get(…) may be None: test it with `is None` first")
        from copy import copy  # a millisecond that most programs save

        found = copy(self.template)
        found.address = self.address
        found.name = f"{self.outer}[…]"
        return found

    def attribute(self, p: ProgramBuilder, name: str) -> object:
        return self._map(p).attribute(p, name)

    def item(self, p: ProgramBuilder, index: object) -> object:
        return self._map(p).item(p, index)

    def set_item(self, p: ProgramBuilder, index: object, value: object) -> None:
        self._map(p).set_item(p, index, value)

    def is_shared(self, p: ProgramBuilder) -> bool:
        return True

    def augment_item(self, p: ProgramBuilder, index: object, operator: str, value: object) -> None:
        self._map(p).augment_item(p, index, operator, value)

    def delete_item(self, p: ProgramBuilder, index: object) -> None:
        self._map(p).delete_item(p, index)

    def contains(self, p: ProgramBuilder, item: object) -> Test:
        return self._map(p).contains(p, item)

    def entries(self, p: ProgramBuilder) -> MapEntries | None:
        return self._map(p).entries(p)
