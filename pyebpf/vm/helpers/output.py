"""Helpers that send data to user space: ring buffer, perf event array, trace pipe."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyebpf.errors import VmError
from pyebpf.uapi.errno_table import E2BIG, EAGAIN, EINVAL, EOPNOTSUPP
from pyebpf.uapi.flags import BPF_RB_FORCE_WAKEUP, BPF_RB_NO_WAKEUP
from pyebpf.vm.helpers.registry import emulates
from pyebpf.vm.helpers.text import formatted
from pyebpf.vm.maps.perf_event_array import PerfEventArrayMap
from pyebpf.vm.maps.ringbuf import RingBufferMap

if TYPE_CHECKING:
    from pyebpf.vm.machine import Machine
    from pyebpf.vm.memory import Region

_LOW = 0xFFFF_FFFF
_WAKEUP = BPF_RB_NO_WAKEUP | BPF_RB_FORCE_WAKEUP


def ring_at(vm: Machine, at: int) -> RingBufferMap:
    """The ring buffer that a pointer means."""
    found = vm.map_at(at)
    if not isinstance(found, RingBufferMap):
        raise VmError(f"cannot pass map_type {found.spec.type} into func bpf_ringbuf_output ({found.name})")
    return found


def _record(vm: Machine, address: int) -> tuple[RingBufferMap, Region]:
    region = vm.memory.regions.get(address >> 32)
    if region is None or region.kind != "ringbuf_mem" or address != region.base:
        raise VmError("arg 1 is an unacquired reference: give what bpf_ringbuf_reserve returned, once")
    ring = vm.maps[region.name]
    assert isinstance(ring, RingBufferMap)
    return ring, region


@emulates("ringbuf_reserve")
def ringbuf_reserve(vm: Machine, at: int, size: int, flags: int) -> int:
    """Memory of a record, NULL when there is no room."""
    region = None if flags else ring_at(vm, at).reserve(size)
    return 0 if region is None else region.base


@emulates("ringbuf_submit")
def ringbuf_submit(vm: Machine, record: int, _flags: int) -> None:
    """Send a record."""
    ring, region = _record(vm, record)
    if vm.strict and region.written is not None and 0 in region.written:
        place = region.written.index(0)
        raise VmError(f"record of ring buffer {ring.name} is sent with byte {place} of {region.size} not initialised")
    ring.finish(region, keep=True)


@emulates("ringbuf_discard")
def ringbuf_discard(vm: Machine, record: int, _flags: int) -> None:
    """Give a record up."""
    ring, region = _record(vm, record)
    ring.finish(region, keep=False)


@emulates("ringbuf_output")
def ringbuf_output(vm: Machine, at: int, data: int, size: int, flags: int) -> int:
    """Send a copy of some bytes."""
    ring = ring_at(vm, at)
    if flags & ~_WAKEUP:
        return -EINVAL
    found = vm.memory.read(data, size)
    region = ring.reserve(size)
    if region is None:
        return -EAGAIN
    region.data[:] = found
    ring.finish(region, keep=True)
    return 0


@emulates("ringbuf_query")
def ringbuf_query(vm: Machine, at: int, flags: int) -> int:
    """Bytes not read yet, the size, the consumer's and the producer's position: by `flags` 0 to 3."""
    ring = ring_at(vm, at)
    answers = (ring.producer - ring.consumer, ring.max_entries, ring.consumer, ring.producer)
    return answers[flags] if flags < len(answers) else 0


@emulates("perf_event_output", "skb_output", "xdp_output")
def perf_event_output(vm: Machine, _context: int, at: int, flags: int, data: int, size: int) -> int:
    """Send a copy of some bytes to the processor that `flags` names, which must be this one."""
    found = vm.map_at(at)
    if not isinstance(found, PerfEventArrayMap):
        raise VmError(f"cannot pass map_type {found.spec.type} into func bpf_perf_event_output ({found.name})")
    if flags & ~_LOW:
        return -EINVAL
    taken = vm.memory.read(data, size)
    index = vm.cpu if flags == _LOW else flags
    if index >= found.max_entries:
        return -E2BIG
    if index != vm.cpu:
        return -EOPNOTSUPP
    found.events.append((vm.cpu, taken))
    return 0


@emulates("trace_printk")
def trace_printk(vm: Machine, text: int, size: int, *arguments: int | None) -> int:
    """Keep a line in `Result.printed`; its length with the NUL that the kernel counts."""
    raw = vm.memory.read(text, size & _LOW)
    if not raw.endswith(b"\0"):
        return -EINVAL
    line = formatted(vm, raw.partition(b"\0")[0], [0 if a is None else a for a in arguments])
    if line is None:
        return -EINVAL
    vm.printed.append(line.decode("utf-8", "surrogateescape"))
    return len(line) + 1


@emulates("trace_vprintk")
def trace_vprintk(vm: Machine, text: int, size: int, data: int, length: int) -> int:
    """`trace_printk` with its arguments in memory."""
    raw = vm.memory.read(text, size & _LOW).partition(b"\0")[0]
    values = vm.memory.read(data, length & _LOW)
    words = [int.from_bytes(values[place : place + 8], "little") for place in range(0, len(values), 8)]
    line = formatted(vm, raw, words)
    if line is None:
        return -EINVAL
    vm.printed.append(line.decode("utf-8", "surrogateescape"))
    return len(line) + 1
