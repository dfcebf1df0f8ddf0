"""Trampolines at kernel functions: fentry, fexit and fmod_ret, with arguments typed by BTF."""

from __future__ import annotations

from pyebpf.dataclass import dataclass
from pyebpf.specs.attach.base import AttachSpec
from pyebpf.specs.attach.kernel_functions import MAX_PROBES
from pyebpf.uapi.attach_types import AttachType
from pyebpf.uapi.bpf import ProgramType

__all__ = ["Fentry", "Fexit", "FmodRet"]


@dataclass(frozen=True, slots=True)
class Fentry(AttachSpec):
    """The entry of a function through a trampoline: the context has its arguments, with types the verifier knows.

    `function` is a name, a module's ("sch_fq:fq_enqueue"), or a pattern for at most `most` of them.
    """

    function: str
    most: int = MAX_PROBES

    program_type = ProgramType.TRACING

    def __str__(self) -> str:
        return f"fentry {self.function}"

    @property
    def attach_type(self) -> int:
        return AttachType.TRACE_FENTRY

    @property
    def target(self) -> str:
        return self.function


@dataclass(frozen=True, slots=True)
class Fexit(AttachSpec):
    """The return of a function through a trampoline: its arguments as they were at its entry, and what it returns."""

    function: str
    most: int = MAX_PROBES

    program_type = ProgramType.TRACING

    def __str__(self) -> str:
        return f"fexit {self.function}"

    @property
    def attach_type(self) -> int:
        return AttachType.TRACE_FEXIT

    @property
    def target(self) -> str:
        return self.function


@dataclass(frozen=True, slots=True)
class FmodRet(AttachSpec):
    """Before a function of the error-injection list: what the program returns, unless 0, the function's caller gets."""

    function: str
    most: int = MAX_PROBES

    program_type = ProgramType.TRACING

    def __str__(self) -> str:
        return f"fmod_ret {self.function}"

    @property
    def attach_type(self) -> int:
        return AttachType.MODIFY_RETURN

    @property
    def target(self) -> str:
        return self.function
