"""Queues and stacks. kernel/bpf/queue_stack_maps.c."""

from __future__ import annotations

from collections import deque

from pyebpf.uapi.errno_table import E2BIG, EINVAL
from pyebpf.uapi.flags import BPF_ANY, BPF_EXIST
from pyebpf.vm.maps.base import VmMap


class QueueMap(VmMap):
    """BPF_MAP_TYPE_QUEUE: first in, first out. kernel/bpf/queue_stack_maps.c."""

    def begin(self) -> None:
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
