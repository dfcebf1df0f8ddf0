"""Aggregations without keys: one value a processor, in an array, whose lookup the verifier makes a few instructions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyebpf.aggregations.aggregation_type import combiner
from pyebpf.bpftrace.tables import NO_KEY, Gathered
from pyebpf.builder.ssa.conditions import Compare
from pyebpf.builder.values.operations import to_int
from pyebpf.compiler.ir import Condition as Relation
from pyebpf.dataclass import replace
from pyebpf.types import U32, U64, ArrayType
from pyebpf.uapi.bpf import MapType

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyebpf.aggregations.aggregation_type import Cells
    from pyebpf.bpftrace.value_types import Aggregate, ValueType
    from pyebpf.builder.program import ProgramBuilder
    from pyebpf.specs import MapSpec

_KEY = bytes(U32.size)


class Single(Gathered):
    """A map without keys that count(), hist() and their like fill, and that no `delete()` removes.

    An array's value is always there: one cell more than the aggregation has tells whether anything was added, or the
    value was set to zero, as an entry of a hash table does by being there.
    """

    def __init__(self, name: str, value_type: Aggregate) -> None:
        super().__init__(name, None, value_type, 1, MapType.PERCPU_ARRAY)
        self.key = U32
        self._decode_key = U32.as_key().decode
        kind = self.type
        combine: list[Callable[..., int]] | None = None if kind.combine is None else [*kind.combine, max]
        self._all_cells: Callable[[bytes], Cells] = combiner(f"{kind.codes}Q", combine)
        self._cells = lambda value: self._all_cells(value)[:-1]

    @property
    def spec(self) -> MapSpec:
        cells = ArrayType(U64, len(self.type.codes) + 1)
        return replace(super().spec, type=MapType.PERCPU_ARRAY, key=U32, value=cells)

    @property
    def template(self) -> None:
        """None: nothing is inserted."""

    def add_to(self, p: ProgramBuilder, key: object, value: object) -> None:
        b, number = p.b, to_int(p, value)
        place = self.find(p, key)
        with b.if_(Compare(Relation.NE, place, b.const(0), null_check=True)):
            self.type.update(p, place, number)
            if self.value_type.kind == "sum":  # of zeros all cells are zero
                b.store(place, 8 * len(self.type.codes), b.const(1), 8)

    def _entries(self) -> dict[Any, Any]:
        cells = self._all_cells(self.store.lookup_elem(_KEY))
        return {NO_KEY: self.type.result(cells[:-1], {})} if any(cells) else {}

    def clear(self) -> None:
        """Set the value to what it was before anything was added."""
        self._set(0)

    def zero(self) -> None:
        """Set the value to nothing; it is still there."""
        if self._entries():
            self._set(1)

    def _set(self, present: int) -> None:
        cells = bytes(8 * len(self.type.codes)) + present.to_bytes(8, "little")
        with self._one_reader:
            self._previous = {}
            self.store.update_elem(_KEY, cells * self.store.processors)


def gathered(
    name: str, key_type: ValueType | None, value_type: Aggregate, size: int, kind: MapType, *, loses: bool
) -> Gathered:
    """The map of an aggregation: an array if it has no keys, unless a program removes the value, or it was declared."""
    if key_type is None and not loses and kind is MapType.HASH:
        return Single(name, value_type)
    return Gathered(name, key_type, value_type, size, kind)
