"""Call stacks: addresses as the kernel walks them, and the frames that they are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyebpf.symbols.kernel import KernelSymbols
from pyebpf.symbols.process import Processes

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyebpf.symbols.frame import Frame

#: Functions that run between a traced place and the program, by how their names begin. `__bpf_trace_` and
#: `__traceiter_` are made by the macros of each tracepoint, `perf_syscall_` is one for all system calls; the
#: trampolines of returns are architectures'.
_CALLERS = (
    "bpf_trace_run",
    "__bpf_trace_",
    "__traceiter_",
    "perf_trace_",
    "perf_syscall_",
    "trace_call_bpf",
    "perf_call_bpf_",
    "bpf_trampoline_",
    "arch_rethook_trampoline",
    "__kretprobe_trampoline",
    "kretprobe_trampoline",
    "return_to_handler",
)
_TRAMPOLINE = "bpf_trampoline_"
#: Frames of a stack with the calls that were inlined; beyond them the innermost of an address are left out.
MAX_EXPANDED = 512


def without_tracer(frames: tuple[Frame, ...]) -> tuple[Frame, ...]:
    """Frames without those that are there only because somebody traces: the innermost, and trampolines anywhere."""
    start = 0
    for frame in frames:
        if frame.module != "bpf" and not frame.name.startswith(_CALLERS):
            break
        start += 1
    return tuple(frame for frame in frames[start:] if not frame.name.startswith(_TRAMPOLINE))


def resolve_stack(addresses: Sequence[int], resolve: Callable[[int], Frame]) -> tuple[Frame, ...]:
    """Frames of addresses, the innermost first.

    All but the innermost are where a call returns to, which behind a call that never returns is the next function;
    so the byte before is looked up.
    """
    frames = []
    for index, address in enumerate(addresses):
        frame = resolve(address - 1) if index and address else resolve(address)
        if frame.address != address:
            frame = frame._replace(offset=frame.offset + 1, address=address) if frame.name else resolve(address)
        frames.append(frame)
    return tuple(frames)


class Symbols:
    """Names for the addresses of stacks: the kernel's symbols, and those of every process that was seen."""

    def __init__(self) -> None:
        self.kernel = KernelSymbols()
        self.processes = Processes()

    def kernel_frames(self, addresses: Sequence[int]) -> tuple[Frame, ...]:
        """Frames of a stack in the kernel. `kernel.hidden` says why, if none has a name."""
        return resolve_stack(addresses, self.kernel.resolve)

    def user_frames(self, pid: int, addresses: Sequence[int], *, source: bool = False) -> tuple[Frame, ...]:
        """Frames of a stack in a process; from what was seen of it, if it has ended.

        `source`: with their source lines, and with the calls that were inlined.
        """
        frames = resolve_stack(addresses, lambda address: self.processes.resolve(pid, address))
        if not source:
            return frames
        found: list[Frame] = []
        for index, frame in enumerate(frames):
            address = frame.address - bool(index and frame.address)
            expanded = self.processes.with_source(pid, address, frame)
            # Whoever writes a program's DWARF may have it inlined as deep as he likes.
            room = MAX_EXPANDED - len(found) - (len(frames) - index)
            found += expanded[-1 - max(room, 0) :]
        return tuple(found)
