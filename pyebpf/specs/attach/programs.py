"""Programs that no event starts: called by Python, or put in place of another program's function."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyebpf.dataclass import dataclass
from pyebpf.errors import InvalidValue
from pyebpf.specs.attach.base import AttachSpec
from pyebpf.uapi.bpf import ProgramType
from pyebpf.uapi.flags import BPF_F_SLEEPABLE

if TYPE_CHECKING:
    from pyebpf.types import IntType, StructType

__all__ = ["Replacement", "SyscallProgram"]


@dataclass(frozen=True, slots=True)
class SyscallProgram(AttachSpec):
    """Run by PROG_TEST_RUN from user space; the context is a `record` that the caller gives and gets back."""

    record: StructType | None = None

    kind = ProgramType.SYSCALL

    def __str__(self) -> str:
        return "a call from user space"

    @property
    def load_flags(self) -> int:
        return BPF_F_SLEEPABLE  # the kernel takes no others

    @property
    def is_open(self) -> bool:
        return True

    def at(self, *place: Any, **options: Any) -> AttachSpec:  # noqa: ARG002 - the protocol's
        """Raise InvalidValue: nothing starts it but `probe.run()`."""
        raise InvalidValue("a syscall program is attached to nothing: run it, probe.run()")


@dataclass(frozen=True, slots=True)
class Replacement(AttachSpec):
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
