"""Programs that are attached nowhere: other programs go on with them by a tail call."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyebpf.dataclass import dataclass
from pyebpf.specs.attach.base import AttachSpec

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyebpf.uapi.bpf import ProgramType

__all__ = ["TailCalled"]


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
    def is_open(self) -> bool:
        return True
