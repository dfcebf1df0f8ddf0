"""What an event costs by the kind of its attachment: `python -m benchmarks.attachment_costs`.

Needs root. A process makes a system call many times over, without a program and with each kind attached to it, empty
and with a keyed count; the difference is the cost of an event, with all that the kernel does around the program. Kinds
that the kernel lacks are left out. In an emulated machine only the ratios mean something.
"""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any

from benchmarks.measure import table
from pyebpf import BPF, NotPermitted, NotSupported, u32, u64

if TYPE_CHECKING:
    from collections.abc import Callable

CALLS = 2_000
ROUNDS = 21

#: Each kind with its decorator, and what it is attached to: all of them run once for each getpgid(2).
KINDS = {
    "tracepoint": ("tracepoint", "syscalls:sys_enter_getpgid"),
    "raw_tp": ("raw_tracepoint", "sys_enter"),
    "tp_btf": ("btf_tracepoint", "sys_enter"),
    "fentry": ("fentry", "sys_getpgid"),
    "fexit": ("fexit", "sys_getpgid"),
    "kprobe.multi": ("kprobe_multi", "sys_getpgid"),
    "kretprobe.multi": ("kretprobe_multi", "sys_getpgid"),
    "kprobe": ("kprobe", "sys_getpgid"),
    "kretprobe": ("kretprobe", "sys_getpgid"),
}


def empty(decorator: str, target: str) -> BPF:
    """A program that does nothing."""
    bpf = BPF()

    @getattr(bpf, decorator)(target)
    def on_event() -> None:
        return

    return bpf


def counting(decorator: str, target: str) -> BPF:
    """A program that counts under a key."""
    bpf = BPF()
    counts = bpf.percpu_hash(key=u32, value=u64, name="counts")

    @getattr(bpf, decorator)(target)
    def on_event() -> None:
        counts[1009] += 1

    return bpf


def calls() -> float:
    """Nanoseconds of one system call and of the loop around it."""
    call = os.getpgid
    began = time.perf_counter_ns()
    for _ in range(CALLS):
        call(0)
    return (time.perf_counter_ns() - began) / CALLS


def cost(make: Callable[[str, str], BPF], decorator: str, target: str) -> float | None:
    """Nanoseconds that a program adds to an event, in turns with none; None where the kernel has no such kind.

    The difference of the fastest rounds of each, as whatever else runs on the machine only makes them slower.
    """
    with_program, without = [], []
    bpf: Any = make(decorator, target)
    try:
        bpf.load()
        with bpf:
            for _ in range(ROUNDS):
                with_program.append(calls())
                bpf.detach()
                without.append(calls())
                bpf.attach()
    except (NotSupported, NotPermitted):
        return None
    return min(with_program) - min(without)


def main() -> None:
    """Measure each kind, and print nanoseconds and ratios."""
    found = {name: (cost(empty, *kind), cost(counting, *kind)) for name, kind in KINDS.items()}
    base = min(each for each, _ in found.values() if each is not None)
    rows = [
        (name, f"{alone:.0f}", f"{counted:.0f}", f"{alone / base:.1f}", f"{counted / base:.1f}")
        for name, (alone, counted) in found.items()
        if alone is not None and counted is not None
    ]
    table(("attached by", "empty ns", "counting ns", "empty, ratio", "counting, ratio"), rows)


if __name__ == "__main__":
    main()
