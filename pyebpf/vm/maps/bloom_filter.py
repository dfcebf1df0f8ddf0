"""Bloom filters."""

from __future__ import annotations

from pyebpf.uapi.errno_table import EINVAL, ENOENT
from pyebpf.uapi.flags import BPF_ANY
from pyebpf.vm.maps.base import VmMap


class BloomFilterMap(VmMap):
    """BPF_MAP_TYPE_BLOOM_FILTER. The kernel's also finds some values that were never pushed, this one does not."""

    def begin(self) -> None:
        self.values: set[bytes] = set()

    def push(self, value: bytes, flags: int) -> int:
        if flags != BPF_ANY:
            return -EINVAL
        self.values.add(value)
        return 0

    def write(self, key: bytes, value: bytes, flags: int = BPF_ANY) -> int:  # noqa: ARG002 - it has no keys
        return self.push(value, flags)

    def peek_elem(self, value: bytes) -> bytes | None:
        return None if self.holds(value) else value

    def holds(self, value: bytes) -> int:
        """Peek: 0 or -ENOENT."""
        return 0 if value in self.values else -ENOENT
