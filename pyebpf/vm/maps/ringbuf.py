"""Ring buffers. kernel/bpf/ringbuf.c."""

from __future__ import annotations

from collections import deque

from pyebpf.vm.maps.base import VmMap
from pyebpf.vm.memory import Region

_HEADER = 8
_MAX_RECORD = (1 << 32) // 4


class RingBufferMap(VmMap):
    """BPF_MAP_TYPE_RINGBUF: `events` are the submitted records that nobody has read yet.

    Room is counted as the kernel does: a record takes its length and 8 bytes, rounded up to 8, until it is read; a
    discarded one until those before it are. kernel/bpf/ringbuf.c, __bpf_ringbuf_reserve.
    """

    def begin(self) -> None:
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
