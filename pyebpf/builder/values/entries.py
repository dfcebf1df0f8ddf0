"""The iterable of a `for` over a map: its entries, keys or values, named but not yet visited."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyebpf.builder.values.entity import Entity, NoPythonOperators

if TYPE_CHECKING:
    from pyebpf.builder.program import ProgramBuilder
    from pyebpf.builder.values.map_pointers import MapPointer


class MapEntries(Entity, NoPythonOperators):
    """`m.items()`, `m.keys()`, `m.values()`, or `m` itself: what a `for` goes over."""

    def __init__(self, table: MapPointer, view: str) -> None:
        self.table = table
        self.view = view

    def describe(self) -> str:
        return f"{self.table.map_name}.{self.view}()"

    def entries(self, p: ProgramBuilder) -> MapEntries:
        return self

    def element(self, key: object, value: object) -> object:
        """Return the value of the `for` target."""
        return {"keys": key, "values": value, "items": (key, value)}[self.view]
