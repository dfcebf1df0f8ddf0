"""Names of what exists while compiling alone, such as maps and reservations, given on some paths or in some rounds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyebpf.builder.entity import Entity, RunTime

if TYPE_CHECKING:
    from collections.abc import Hashable

    from pyebpf.compiler import ir

__all__ = ["HeldEntity"]


class HeldEntity(RunTime):
    """An entity in a run-time variable: nothing of it changes at run time but whether the name has it."""

    def __init__(self, entity: Entity) -> None:
        self.entity = entity

    def describe(self) -> str:
        return self.entity.describe()

    @property
    def parts(self) -> tuple[ir.Value, ...]:
        return ()

    @property
    def shape(self) -> Hashable:
        return ("entity", id(self.entity))

    def rebuild(self, parts: tuple[ir.Value, ...]) -> HeldEntity:  # noqa: ARG002 - the protocol's
        return self
