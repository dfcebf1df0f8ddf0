"""Kprobes: one program at kernel functions one by one, or by one link for many."""

from __future__ import annotations

from pyebpf.dataclass import dataclass
from pyebpf.specs.attach.base import AttachSpec
from pyebpf.specs.attach.kernel_functions import MAX_PROBES, in_words
from pyebpf.uapi.attach_types import AttachType
from pyebpf.uapi.bpf import ProgramType

__all__ = ["Kprobe", "KprobeMulti"]


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

    program_type = ProgramType.KPROBE

    def __str__(self) -> str:
        return f"{'kretprobe' if self.returns else 'kprobe'} {in_words(self.functions)}"

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

    program_type = ProgramType.KPROBE

    def __str__(self) -> str:
        name = "kprobe.session" if self.session else "kretprobe.multi" if self.returns else "kprobe.multi"
        return f"{name} {in_words(self.functions)}"

    @property
    def attach_type(self) -> int:
        return AttachType.TRACE_KPROBE_SESSION if self.session else AttachType.TRACE_KPROBE_MULTI

    @property
    def target(self) -> str:
        return self.functions[0]
