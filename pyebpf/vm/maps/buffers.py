"""Ring buffers, queues and stacks, Bloom filters, stack traces."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from pyebpf.uapi.flags import BPF_ANY, BPF_EXIST
from pyebpf.vm.maps.base import E2BIG, EEXIST, EINVAL, ENOENT, VmMap
from pyebpf.vm.memory import Region

if TYPE_CHECKING:
    from pyebpf.specs import MapSpec
    from pyebpf.vm.memory import Memory

__all__ = ["QueueMap", "RingBufferMap", "StackMap", "StackTraceMap", "UserRingBufferMap"]

_HEADER = 8
_MAX_RECORD = (1 << 32) // 4


class RingBufferMap(VmMap):
    """BPF_MAP_TYPE_RINGBUF: `events` are the submitted records that nobody has read yet.

    Room is counted as the kernel does: a record takes its length and 8 bytes, rounded up to 8, until it is read; a
    discarded one until those before it are. kernel/bpf/ringbuf.c, __bpf_ringbuf_reserve.
    """

    def __init__(self, spec: MapSpec, memory: Memory, cpus: int) -> None:
        super().__init__(spec, memory, cpus)
        self.producer = 0
        self.consumer = 0
        #: Records in the order of their reservation: the region, and whether it is "busy", "kept" or "dropped".
        self._records: deque[list[object]] = deque()
        self._open: dict[int, list[object]] = {}

    def reserve(self, size: int) -> Region | None:
        """Memory for a record; None if there is no room."""
        step = size + _HEADER + 7 & ~7
        if size > _MAX_RECORD or step > self.max_entries or self.producer + step - self.consumer > self.max_entries - 1:
            return None
        self.producer += step
        region = Region("ringbuf_mem", self.name, bytearray(size), written=bytearray(size))
        self.memory.add(region)
        record: list[object] = [region, "busy"]
        self._records.append(record)
        self._open[region.base] = record
        return region

    def finish(self, region: Region, *, keep: bool) -> None:
        """Submit or discard a record."""
        self._open.pop(region.base)[1] = "kept" if keep else "dropped"
        self.memory.remove(region)

    @property
    def unfinished(self) -> bool:
        """Whether a record was neither submitted nor discarded."""
        return bool(self._open)

    @property
    def events(self) -> list[bytes]:
        """Submitted records, the oldest first."""
        return [bytes(region.data) for region, state in self._records if state == "kept" and isinstance(region, Region)]

    def poll(self) -> list[bytes]:
        """Take out the records that are complete, up to the first that is not, and give their room back."""
        taken = []
        while self._records and self._records[0][1] != "busy":
            region, state = self._records.popleft()
            assert isinstance(region, Region)
            self.consumer += region.size + _HEADER + 7 & ~7
            if state == "kept":
                taken.append(bytes(region.data))
        return taken


class UserRingBufferMap(VmMap):
    """BPF_MAP_TYPE_USER_RINGBUF: `samples` are what user space has sent and no program has drained."""

    def __init__(self, spec: MapSpec, memory: Memory, cpus: int) -> None:
        super().__init__(spec, memory, cpus)
        self.samples: deque[bytes] = deque()


class QueueMap(VmMap):
    """BPF_MAP_TYPE_QUEUE: first in, first out. kernel/bpf/queue_stack_maps.c."""

    def __init__(self, spec: MapSpec, memory: Memory, cpus: int) -> None:
        super().__init__(spec, memory, cpus)
        self.items: deque[bytes] = deque()

    def push(self, value: bytes, flags: int) -> int:
        if flags & ~BPF_EXIST:
            return -EINVAL
        if len(self.items) >= self.max_entries:
            if flags != BPF_EXIST:
                return -E2BIG
            self.items.popleft()  # BPF_EXIST makes room by giving up the oldest
        self.items.append(value)
        return 0

    def write(self, key: bytes, value: bytes, flags: int = BPF_ANY) -> int:  # noqa: ARG002 - it has no keys
        return self.push(value, flags)

    def lookup_and_delete_elem(self, key: bytes) -> bytes | None:  # noqa: ARG002 - it has no keys
        return self.take(remove=True)

    def take(self, *, remove: bool) -> bytes | None:
        if not self.items:
            return None
        return self.items.popleft() if remove else self.items[0]


class StackMap(QueueMap):
    """BPF_MAP_TYPE_STACK: last in, first out."""

    def take(self, *, remove: bool) -> bytes | None:
        if not self.items:
            return None
        return self.items.pop() if remove else self.items[-1]


class StackTraceMap(VmMap):
    """BPF_MAP_TYPE_STACK_TRACE: frames by number, in as many 8-byte words as a value has, zeros behind them.

    The kernel's number is a hash of the frames; here it is the first free place, the same one for equal frames.
    """

    def __init__(self, spec: MapSpec, memory: Memory, cpus: int) -> None:
        super().__init__(spec, memory, cpus)
        self._numbers: dict[tuple[int, ...], int] = {}

    def number(self, frames: tuple[int, ...]) -> int:
        """Keep frames, the innermost first, and return their number; -EEXIST if every place is taken."""
        frames = frames[: self.value_size // 8]
        found = self._numbers.get(frames)
        if found is not None:
            return found
        free = next((n for n in range(len(self._numbers) + 1) if n not in self._numbers.values()), 0)
        if free >= self.max_entries:
            return -EEXIST
        self._numbers[frames] = free
        return free

    def entries(self) -> dict[bytes, bytes]:
        return {
            number.to_bytes(4, "little"): b"".join(frame.to_bytes(8, "little") for frame in frames).ljust(
                self.value_size, b"\0"
            )
            for frames, number in self._numbers.items()
        }

    def lookup_elem(self, key: bytes) -> bytes | None:
        return self.entries().get(key)

    def delete(self, key: bytes) -> int:
        number = int.from_bytes(key, "little")
        for frames, kept in self._numbers.items():
            if kept == number:
                del self._numbers[frames]
                return 0
        return -ENOENT

    def write(self, key: bytes, value: bytes, flags: int = BPF_ANY) -> int:  # noqa: ARG002 - the kernel's alone
        return -EINVAL
