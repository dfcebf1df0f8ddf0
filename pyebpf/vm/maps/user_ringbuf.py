"""User ring buffers."""

from __future__ import annotations

from collections import deque

from pyebpf.vm.maps.base import VmMap


class UserRingBufferMap(VmMap):
    """BPF_MAP_TYPE_USER_RINGBUF: `samples` are what user space has sent and no program has drained."""

    def begin(self) -> None:
        self.samples: deque[bytes] = deque()
