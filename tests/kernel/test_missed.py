"""Events of many processes at once: each is counted, or counted as missed.

A program that a tracepoint of system calls (since Linux 7.3) or a trampoline runs can be preempted on kernels that
preempt tasks in the kernel. Until its task has the processor again the kernel leaves out the program's other events
there, and counts them. Kprobes run with preemption disabled.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from pyebpf import BPF, u64
from tests.support.needs import needs

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyebpf.attach.decorators import TracingDecorator

pytestmark = pytest.mark.every_kernel

PROCESSES, READS = 5, 700
#: A length that nobody else reads.
LENGTH = 4321

#: The feature that a way needs, and the decorator.
WAYS: dict[str, tuple[str, Callable[[BPF], TracingDecorator]]] = {
    "tracepoint": ("", lambda bpf: bpf.tracepoint("syscalls:sys_enter_read")),
    "fentry": ("attach:fentry", lambda bpf: bpf.fentry("vfs_read")),
    "kprobe": ("attach:kprobe", lambda bpf: bpf.kprobe("vfs_read")),
    "kprobe_multi": ("attach:kprobe_multi", lambda bpf: bpf.kprobe_multi("vfs_read")),
}
#: Those that run with preemption disabled on every kernel.
NEVER_PREEMPTED = ("kprobe", "kprobe_multi")


def read_at_once() -> None:
    """Let processes read at once, and wait for them."""
    children = []
    for _ in range(PROCESSES):
        child = os.fork()
        if not child:
            zeros = os.open("/dev/zero", os.O_RDONLY)
            for _ in range(READS):
                os.read(zeros, LENGTH)
            os._exit(0)
        children.append(child)
    for child in children:
        assert os.waitpid(child, 0)[1] == 0


@pytest.mark.parametrize("way", WAYS)
def test_an_event_is_seen_or_counted_as_missed(way):
    """What was seen and what the kernel left out are together what was done."""
    feature, decorator = WAYS[way]
    if feature:
        needs(feature)
    bpf = BPF()
    seen = bpf.percpu_array(u64, size=1)

    @decorator(bpf)
    def reading(count: int) -> None:
        if count == LENGTH:
            seen[0] += 1

    with bpf:
        read_at_once()
        missed = sum(bpf.dropped.values())
        # Reads of others may be missed as well: none of these processes' is lost without being counted.
        assert seen[0] <= PROCESSES * READS <= seen[0] + missed
        if way in NEVER_PREEMPTED:
            assert not missed
