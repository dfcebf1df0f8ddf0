"""Syscall programs: Python calls them, by PROG_TEST_RUN."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyebpf.dataclass import dataclass
from pyebpf.errors import InvalidValue
from pyebpf.specs.attach.base import SYSCALL_PROGRAMS, AttachSpec
from pyebpf.uapi.bpf import ProgramType
from pyebpf.uapi.flags import BPF_F_SLEEPABLE

if TYPE_CHECKING:
    from pyebpf.specs.attach.base import KernelRequirement
    from pyebpf.types import StructType

__all__ = ["SyscallProgram"]


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
    def requirement(self) -> KernelRequirement:
        return SYSCALL_PROGRAMS

    @property
    def is_open(self) -> bool:
        return True

    def at(self, *place: Any, **options: Any) -> AttachSpec:  # noqa: ARG002 - the protocol's
        """Raise InvalidValue: nothing starts it but `probe.run()`."""
        raise InvalidValue("a syscall program is attached to nothing: run it, probe.run()")
