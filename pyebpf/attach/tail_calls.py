"""Entries of program arrays: programs that are attached nowhere, and that others go on with by a tail call."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any

from pyebpf.builder.context import LoadAttributes, ProgramContext
from pyebpf.dataclass import dataclass, replace
from pyebpf.specs.attach_point import AttachSpec

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pyebpf.builder.program import ProgramBuilder
    from pyebpf.target import Target
    from pyebpf.uapi.bpf import ProgramType


@dataclass(frozen=True, slots=True)
class TailCalled(AttachSpec):
    """An entry of a program array: run by tail calls of programs that are attached as `like`.

    Its kind, its context and what it returns are theirs. `array` is the map's name, or answers it once it has one.
    """

    like: AttachSpec
    array: str | Callable[[], str]
    index: int

    @property
    def program_type(self) -> ProgramType:  # type: ignore[override]  # the others know theirs beforehand
        return self.like.program_type

    @property
    def map_name(self) -> str:
        """The program array's name."""
        return self.array if isinstance(self.array, str) else self.array()

    def __str__(self) -> str:
        return f"{self.map_name}[{self.index}], tail-called at {self.like}"

    @property
    def attach_type(self) -> int:
        return self.like.attach_type

    @property
    def load_flags(self) -> int:
        return self.like.load_flags

    @property
    def target(self) -> str:
        return self.like.target

    @property
    def is_deferred(self) -> bool:
        return True

    def program_context(self) -> TailCalledProgramContext:
        return TailCalledProgramContext(self)


class TailCalledProgramContext(ProgramContext[TailCalled]):
    """The context of the programs that call it."""

    def __init__(self, attach: TailCalled) -> None:
        super().__init__(attach)
        self._like: ProgramContext[Any] = attach.like.program_context()

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

    def parameter(self, p: ProgramBuilder, name: str, annotation: object, position: int) -> object:
        return self._like.parameter(p, name, annotation, position)

    def field(self, p: ProgramBuilder, name: str) -> object:
        return self._like.field(p, name)

    def attribute(self, p: ProgramBuilder, name: str) -> object:
        return self._like.attribute(p, name)

    def set_attribute(self, p: ProgramBuilder, name: str, value: object) -> None:
        self._like.set_attribute(p, name, value)
