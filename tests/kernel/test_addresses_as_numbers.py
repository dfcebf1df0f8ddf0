"""`u64(object)`: where it is only stored the pointer itself is, elsewhere a number that may be computed with."""

from __future__ import annotations

import os

from pyebpf import BPF, KernelObject, Struct, pid, u32, u64

ME = os.getpid()


class Told(Struct):
    """What a probe found of one object."""

    address: u64
    above: u64
    pid: u32
    same: u32


def test_it_is_the_same_number_stored_and_computed():
    """As a key, in a record and in an entry, before and behind a branch, through a name and through none."""
    bpf = BPF()
    told = bpf.ringbuf(Told)
    by_address = bpf.hash(key=u64, value=u64, name="by_address")

    @bpf.btf_tracepoint("task_newtask")
    def on_task(task: KernelObject) -> None:
        if pid() != ME:
            return
        by_address[u64(task)] = u64(task)
        address = u64(task)
        if task.pid & 1:
            by_address[u64(task) + 1] = address
        else:
            by_address[address + 1] = u64(task)
        same = 1 if by_address.get(u64(task), 0) == u64(task) else 0
        told.emit(Told(address=u64(task), above=u64(task) + 7, pid=task.pid, same=same))

    with bpf:
        child = os.fork()
        if not child:
            os._exit(0)
        os.waitpid(child, 0)
        (found,) = told.poll(1)
        entries = dict(by_address.items())
    assert (found.pid, found.same) == (child, 1)
    assert found.address >> 56 == 0xFF  # the kernel's half, with pages of four and of five levels
    assert found.above == found.address + 7
    assert entries == {found.address: found.address, found.address + 1: found.address}


def test_storing_it_calls_no_helper():
    """But the map's own."""
    bpf = BPF()
    since = bpf.hash(key=u64, value=u64)

    @bpf.btf_tracepoint("task_newtask")
    def on_task(task: KernelObject) -> None:
        since[u64(task)] = u64(task)

    (spec,) = bpf.specs().programs
    assert [each.imm for each in spec.code.instructions if each.op.name == "call"] == [2]  # bpf_map_update_elem
