"""Programs in place of a function of another loaded program."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyebpf.dataclass import dataclass
from pyebpf.specs.attach.base import AttachSpec
from pyebpf.uapi.bpf import ProgramType

if TYPE_CHECKING:
    from pyebpf.types import IntType

__all__ = ["Freplace"]


@dataclass(frozen=True, slots=True)
class Freplace(AttachSpec):
    """In place of the function `function` of another loaded program, with its parameters and its result.

    `program` is that program: what has a `program`, as a probe has inside `with`, or a `pyebpf.objects.Program`.
    """

    program: Any
    function: str
    parameters: tuple[tuple[str, IntType], ...]
    result: IntType | None

    kind = ProgramType.EXT

    def __str__(self) -> str:
        return f"function {self.function} of another program"

    @property
    def numbers(self) -> int:
        return len(self.parameters)

    @property
    def target(self) -> str:
        return self.function

    @property
    def loaded(self) -> Any:
        """The program whose function it is. Raises NotLoaded if it is not loaded (any more)."""
        return getattr(self.program, "program", self.program)
