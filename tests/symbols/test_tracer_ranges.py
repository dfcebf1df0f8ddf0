"""Where the functions between a tracepoint and its programs lie, by the text of /proc/kallsyms."""

from __future__ import annotations

from pyebpf.builder.intrinsics.tracer_frames import RANGES
from pyebpf.runtime.tracer_frames import tracer_ranges

TEXT = b"""\
ffffffff81000000 T _stext
ffffffff81001000 T bpf_trace_run1
ffffffff81001000 T alias_of_run1
ffffffff81001100 T bpf_trace_run2
ffffffff81001200 T bpf_trace_run12
ffffffff81001280 T behind
ffffffff81200000 t __bpf_trace_sched_switch
ffffffff81200010 t __bpf_trace_sched_switch_more
ffffffff81300000 T __traceiter_sched_switch
ffffffff81300040 T __traceiter_other
ffffffffc0000000 t late\t[module]
"""


def pairs(flat: list[int]) -> list[tuple[int, int]]:
    """Start and size of those that are there."""
    return [(start, size) for start, size in zip(flat[::2], flat[1::2], strict=True) if size]


def test_ranges_end_where_the_next_function_begins() -> None:
    """Those of one file are one range; names are whole names."""
    found = tracer_ranges(["sched_switch"], TEXT)
    assert len(found) == 2 * RANGES
    assert pairs(found) == [(0xFFFFFFFF81001000, 0x280), (0xFFFFFFFF81200000, 0x10), (0xFFFFFFFF81300000, 0x40)]


def test_hidden_addresses_and_no_list_are_no_ranges() -> None:
    """All zeros where the kernel hides them; more tracepoints than there is room for are left out."""
    hidden = b"\n".join(b"0" * 16 + line[16:] for line in TEXT.splitlines())
    assert pairs(tracer_ranges(["sched_switch"], hidden)) == []
    assert pairs(tracer_ranges(["sched_switch"], b"")) == []
    assert len(tracer_ranges(["sched_switch"] * 9, TEXT)) == 2 * RANGES
