"""The kernel's functions: kprobes, many at once or one by one, and trampolines with BTF types."""

from __future__ import annotations

from pyebpf.dataclass import dataclass
from pyebpf.errors import NotFound
from pyebpf.specs.attach.base import AttachSpec
from pyebpf.uapi.attach_types import AttachType
from pyebpf.uapi.bpf import ProgramType

__all__ = ["MAX_PROBES", "Fentry", "Fexit", "FmodRet", "Kprobe", "KprobeMulti", "not_loaded", "split"]


#: Functions that a pattern may match at most, unless its author says otherwise.
MAX_PROBES = 1000


def split(function: str) -> tuple[str, str, str]:
    """Module, name and offset of "module:name+offset"; empty where not given."""
    module, _, name = function.rpartition(":")
    name, _, offset = name.partition("+")
    return module, name, offset


def not_loaded(function: str) -> NotFound:
    """The error for a function of a module that is not loaded."""
    module, _, _ = split(function)
    return NotFound(f"no function {function}: module {module} is not loaded (modprobe {module})")


def _list(functions: tuple[str, ...]) -> str:
    """The functions for a message, the first of many."""
    if len(functions) <= 2:
        return " and ".join(functions)
    return f"{functions[0]} and {len(functions) - 1} more"


@dataclass(frozen=True, slots=True)
class Kprobe(AttachSpec):
    """The entry of kernel functions, or the return with `returns`: the context is `struct pt_regs`.

    A function is given by name ("tcp_sendmsg", "ip_rcv+0x1c" for an instruction within, "sch_fq:fq_enqueue" for a
    module's) or by a pattern ("tcp_*"), which stands for at most `most` of them. `matched` are those that only a
    pattern named: what takes no probe among them is left out.
    """

    functions: tuple[str, ...]
    returns: bool = False
    most: int = MAX_PROBES
    matched: tuple[str, ...] = ()

    kind = ProgramType.KPROBE

    def __str__(self) -> str:
        return f"{'kretprobe' if self.returns else 'kprobe'} {_list(self.functions)}"

    @property
    def target(self) -> str:
        return self.functions[0]


@dataclass(frozen=True, slots=True)
class KprobeMulti(AttachSpec):
    """`Kprobe` by one link for all functions (since Linux 5.18, on arm64 later). No offsets.

    `session`: the program runs at the entry and, if it returned 0 there, at the return (since Linux 6.10). `cookies`
    are what get_attach_cookie reads, one a function, or none.
    """

    functions: tuple[str, ...]
    returns: bool = False
    session: bool = False
    cookies: tuple[int, ...] = ()
    most: int = MAX_PROBES

    kind = ProgramType.KPROBE

    def __str__(self) -> str:
        name = "kprobe.session" if self.session else "kretprobe.multi" if self.returns else "kprobe.multi"
        return f"{name} {_list(self.functions)}"

    @property
    def attach_type(self) -> int:
        return AttachType.TRACE_KPROBE_SESSION if self.session else AttachType.TRACE_KPROBE_MULTI

    @property
    def target(self) -> str:
        return self.functions[0]


@dataclass(frozen=True, slots=True)
class Fentry(AttachSpec):
    """The entry of a function through a trampoline: the context has its arguments, with types the verifier knows.

    `function` is a name, a module's ("sch_fq:fq_enqueue"), or a pattern for at most `most` of them.
    """

    function: str
    most: int = MAX_PROBES

    kind = ProgramType.TRACING

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

    kind = ProgramType.TRACING

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

    kind = ProgramType.TRACING

    def __str__(self) -> str:
        return f"fmod_ret {self.function}"

    @property
    def attach_type(self) -> int:
        return AttachType.MODIFY_RETURN

    @property
    def target(self) -> str:
        return self.function
