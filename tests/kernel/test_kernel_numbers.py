"""A struct that stands in a kernel object is not a number, and the address of an object is one of 64 bits."""

from __future__ import annotations

import os
import time

import pytest

from pyebpf import BPF, CompileError, current_task, u64

TRACEPOINTS = ["raw_tracepoint", "btf_tracepoint"]
MODULE = """
from pyebpf import *
class Numbers(Struct):
    narrow: u32 = 0
    wide: u64 = 0
counts = bpf.hash(key=u32, value=u64)
by_address = bpf.hash(key=u64, value=u64)
pairs = bpf.hash(key=(u32, u32), value=u64)
total = bpf.total()
latency = bpf.log2_hist(key=u32)
events = bpf.ringbuf(Numbers)
"""
#: A uid is a struct of one member: as a number each of these would use an address.
USES = [
    "counts[uid] += 1",
    "by_address[uid] += 1",
    "counts[1] = uid",
    "counts[1] += uid",
    "pairs[uid, 1] += 1",
    "events.emit(Numbers(narrow=uid))",
    "events.emit(Numbers(wide=uid))",
    "total.add(uid)",
    "latency[uid].add(1)",
    "counts[u32(uid)] += 1",
    "counts[u64(uid) & 255] += 1",
    "counts[int(uid)] += 1",
    "counts[min(uid, 5)] += 1",
    "counts[abs(uid)] += 1",
    "number: u32 = uid",
    "counts[uid + 1] += 1",
    "counts[1 + uid] += 1",
    "counts[-uid] += 1",
    "if uid == 0:\n        counts[1] += 1",
    "if 0 != uid:\n        counts[1] += 1",
    "if uid > 3:\n        counts[1] += 1",
    "if uid == next.cred.uid:\n        counts[1] += 1",
    "if uid in (0, 1000):\n        counts[1] += 1",
    "if uid:\n        counts[1] += 1",
]


def refused(body: str, kind: str) -> str:
    """Return the message of the error that a probe with the body is."""
    bpf = BPF()
    bpf.define(f'{MODULE}\n@bpf.{kind}("sched_switch")\ndef p(prev, next):\n    uid = prev.cred.uid\n    {body}\n')
    with pytest.raises(CompileError) as caught, bpf:
        pass
    return caught.value.message


@pytest.mark.parametrize("kind", TRACEPOINTS)
@pytest.mark.parametrize("body", USES)
def test_a_struct_in_an_object_is_not_a_number(body: str, kind: str) -> None:
    """Not in a field, a key, a sum, a conversion, arithmetic or a comparison; the error names the member to write."""
    message = refused(body, kind)
    assert message.startswith("a kuid_t ")
    assert message.endswith(": write .val")


@pytest.mark.parametrize(
    ("member", "remedy"),
    [
        ("prev.cred.usage", ".counter"),
        ("prev.usage", ".refs.counter"),
        ("prev.se.avg", "the member that you mean, .last_update_time, .load_sum, "),
        ("prev.cpus_mask", ".bits[0]"),
        ("prev.signal.rlim", "the element that you mean, [0] for example"),
    ],
)
def test_the_error_names_the_members(member: str, remedy: str) -> None:
    """Through structs of one member, the first ones of a struct of several, and elements."""
    assert f" is not a number: write {remedy}" in refused(f"counts[{member}] += 1", "raw_tracepoint")


@pytest.mark.parametrize("kind", TRACEPOINTS)
@pytest.mark.parametrize(
    "body",
    [
        "counts[prev] += 1",
        "pairs[prev, 1] += 1",
        "counts[u32(prev)] += 1",
        "events.emit(Numbers(narrow=prev))",
        "counts[prev.stack] += 1",
        "number: u32 = prev.mm",
    ],
)
def test_an_address_needs_64_bits(body: str, kind: str) -> None:
    """A kernel object or a pointer is refused where the number is narrower, at every kind of tracepoint."""
    assert " is an address, which u32 has no room for: " in refused(body, kind)


@pytest.mark.parametrize("kind", TRACEPOINTS)
def test_addresses_and_members_are_numbers(kind: str) -> None:
    """A key of 64 bits is an object's address, `u64()` one to compute with, and what the members hold is right."""
    me = os.getpid()
    bpf = BPF()
    seen = bpf.hash(key=u64, value=u64, size=100_000)
    found = bpf.array(value=u64, size=4)

    @getattr(bpf, kind)("sched_switch")
    def on_switch(prev, next) -> None:  # noqa: A002 - the kernel's name
        seen[prev] += 1
        if prev.tgid == me:
            found[0] = u64(prev)
            found[1] = prev.cred.uid.val
            found[2] = u64(prev) >> 3
            if prev == current_task() and prev != next and prev.tasks.next != prev.tasks:
                found[3] = 1

    with bpf:
        while not found[3]:
            time.sleep(0.001)
        bpf.detach()
        assert found[0] in dict(seen)
        assert found[0] >> 60 == 0xF
        assert (found[1], found[3]) == (os.getuid(), 1)
        assert found[2] == found[0] >> 3
