"""Entries of program arrays: a tail call passes the caller's context on, so that all is as in the caller."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any

from pyebpf.builder.contexts.base import LoadAttributes, ProgramContext
from pyebpf.dataclass import replace
from pyebpf.specs.attach.tail_calls import TailCalled

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyebpf.builder.program import ProgramBuilder
    from pyebpf.specs import AttachSpec
    from pyebpf.target import Target
    from pyebpf.uapi.bpf import ProgramType

__all__ = ["TailCalledProgramContext"]


class TailCalledProgramContext(ProgramContext[TailCalled]):
    """The context of the programs that call it."""

    def __init__(self, attach: TailCalled) -> None:
        from pyebpf.builder.contexts import program_context

        super().__init__(attach)
        self._like: ProgramContext[Any] = program_context(attach.like)

    def expand(self, target: Target) -> Iterable[AttachSpec]:
        # One program stands in the array: of several places it is made for the first.
        for like in islice(self._like.expand(target), 1):
            yield replace(self.attach, like=like, array=self.attach.map_name)

    def exists(self, target: Target) -> bool:
        return self._like.exists(target)

    def load_attributes(self, target: Target) -> LoadAttributes:
        return self._like.load_attributes(target)

    def default_return(self, program_type: ProgramType) -> int | None:
        return self._like.default_return(program_type)

    def parameter(self, p: ProgramBuilder, name: str, annotation: Any, position: int) -> Any:
        return self._like.parameter(p, name, annotation, position)

    def field(self, p: ProgramBuilder, name: str) -> Any:
        return self._like.field(p, name)

    def attribute(self, p: ProgramBuilder, name: str) -> Any:
        return self._like.attribute(p, name)

    def set_attribute(self, p: ProgramBuilder, name: str, value: Any) -> None:
        self._like.set_attribute(p, name, value)
