"""Names of compile-time objects, such as maps and reservations, given on some paths or in some iterations."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyebpf.builder.values.entity import Entity, RunTimeValue
from pyebpf.builder.values.methods import Method

if TYPE_CHECKING:
    from collections.abc import Hashable

    from pyebpf.compiler import ir


class ConstantEntity(RunTimeValue):
    """An entity in a run-time variable: nothing of it changes at run time but whether the name has it."""

    def __init__(self, entity: Entity) -> None:
        self.entity = entity

    def describe(self) -> str:
        return self.entity.describe()

    @property
    def ssa_values(self) -> tuple[ir.Value, ...]:
        return ()

    @property
    def static_shape(self) -> Hashable:
        return ("entity", id(self.entity))

    def with_ssa_values(self, values: tuple[ir.Value, ...]) -> ConstantEntity:  # noqa: ARG002 - the protocol's
        return self


def run_time_method(value: object) -> Method | None:
    """A method of what each event decides, also in a tuple: its owner is not what it was by the time of the call."""
    if isinstance(value, (tuple, list)):
        return next((found for found in map(run_time_method, value) if found is not None), None)
    return (
        value
        if isinstance(value, Method) and isinstance(getattr(value.build, "__self__", None), RunTimeValue)
        else None
    )
