"""Hash tables: plain, per-CPU, least recently used.

Memory of removed entries is used again as the kernel's preallocated tables do it on one processor: last removed first,
and an update of an existing key swaps its element with a spare one. So a program that keeps a pointer to an entry which
it removed or replaced sees in it what it would see in the kernel.

Source: kernel/bpf/hashtab.c (htab_map_update_elem, alloc_htab_elem, free_htab_elem), Linux 6.18.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyebpf.uapi.errno_table import E2BIG, EINVAL, ENOENT
from pyebpf.uapi.flags import BPF_ANY, BPF_EXIST, BPF_F_LOCK, BPF_F_NO_PREALLOC
from pyebpf.vm.maps.base import VmMap, exists_error, refuse_flags

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyebpf.vm.memory import Region

__all__ = ["HashMap", "LruHashMap", "LruPerCpuHashMap", "PerCpuHashMap"]


class HashMap(VmMap):
    """BPF_MAP_TYPE_HASH: -E2BIG when full."""

    def begin(self) -> None:
        self._entries: dict[bytes, Region] = {}
        self._free: list[Region] = []
        self._spare: Region | None = None
        self._preallocated = not self.spec.flags & BPF_F_NO_PREALLOC

    def _new(self, value: bytes) -> Region:
        if not self._free or not self._preallocated:
            return self._region(value)
        region = self._free.pop()
        region.data[:] = value
        return region

    def lookup(self, key: bytes, cpu: int) -> int:  # noqa: ARG002 - one value for all
        found = self._entries.get(key)
        return 0 if found is None else found.base

    def update(self, key: bytes, value: bytes, flags: int, cpu: int) -> int:  # noqa: ARG002 - one value for all
        # BPF_F_LOCK is for values with a spin lock in them, which only BTF can tell.
        error = refuse_flags(flags) or (-EINVAL if flags & BPF_F_LOCK else 0)
        error = error or exists_error(flags, exists=key in self._entries)
        if error:
            return error
        old = self._entries.get(key)
        if old is None:
            if len(self._entries) >= self.max_entries:
                return -E2BIG
            self._entries[key] = self._new(value)
        elif self._preallocated:
            spare = self._spare or self._region(value)
            spare.data[:] = value
            # A table lists its newest element first; order is kept by removing the old one.
            del self._entries[key]
            self._entries[key], self._spare = spare, old
        else:
            del self._entries[key]
            self._entries[key] = self._region(value)
        return 0

    def delete(self, key: bytes) -> int:
        found = self._entries.pop(key, None)
        if found is None:
            return -ENOENT
        self._free.append(found)
        return 0

    def elements(self, cpu: int) -> Iterator[tuple[bytes, int]]:  # noqa: ARG002 - one value for all
        for key, region in list(self._entries.items()):
            yield key, region.base

    def lookup_elem(self, key: bytes) -> bytes | None:
        found = self._entries.get(key)
        return None if found is None else bytes(found.data)

    def entries(self) -> dict[bytes, bytes]:
        return {key: bytes(region.data) for key, region in self._entries.items()}


class LruHashMap(HashMap):
    """BPF_MAP_TYPE_LRU_HASH: when full, the entry that was not used for the longest time goes.

    The kernel's choice is an approximation of that: it looks at a reference bit, in batches for each processor, and may
    give up entries somewhat before the table is full. Which entry goes is therefore not to be relied on.
    """

    def lookup(self, key: bytes, cpu: int) -> int:
        found = super().lookup(key, cpu)
        if found:
            self._entries[key] = self._entries.pop(key)
        return found

    def update(self, key: bytes, value: bytes, flags: int, cpu: int) -> int:
        error = (-EINVAL if flags > BPF_EXIST else 0) or exists_error(flags, exists=key in self._entries)
        if not error and key not in self._entries and len(self._entries) >= self.max_entries:
            self.delete(next(iter(self._entries)))
        return error or super().update(key, value, flags, cpu)


class PerCpuHashMap(VmMap):
    """BPF_MAP_TYPE_PERCPU_HASH: values are changed in place; those of other processors begin with zeros."""

    _evicts = False

    def begin(self) -> None:
        self._entries: dict[bytes, list[Region]] = {}
        self._free: list[list[Region]] = []
        self._slot = self.value_size + 7 & ~7

    def lookup(self, key: bytes, cpu: int) -> int:
        found = self._entries.get(key)
        if found is None:
            return 0
        if self._evicts:
            self._entries[key] = self._entries.pop(key)
        return found[cpu].base

    def _insert(self, key: bytes, flags: int) -> list[Region] | int:
        """The regions of a key, new ones if need be; or a negative error number."""
        found = self._entries.get(key)
        error = (-EINVAL if flags > BPF_EXIST else 0) or exists_error(flags, exists=found is not None)
        if error:
            return error
        if found is not None:
            return found
        if len(self._entries) >= self.max_entries:
            if not self._evicts:
                return -E2BIG
            self.delete(next(iter(self._entries)))
        slots = self._free.pop() if self._free else [self._region(bytes(self.value_size)) for _ in range(self.cpus)]
        for region in slots:
            region.data[:] = bytes(self.value_size)
        self._entries[key] = slots
        return slots

    def update(self, key: bytes, value: bytes, flags: int, cpu: int) -> int:
        slots = self._insert(key, flags)
        if isinstance(slots, int):
            return slots
        slots[cpu].data[:] = value
        return 0

    def delete(self, key: bytes) -> int:
        found = self._entries.pop(key, None)
        if found is None:
            return -ENOENT
        self._free.append(found)
        return 0

    def elements(self, cpu: int) -> Iterator[tuple[bytes, int]]:
        for key, slots in list(self._entries.items()):
            yield key, slots[cpu].base

    def _joined(self, slots: list[Region]) -> bytes:
        return b"".join(bytes(region.data).ljust(self._slot, b"\0") for region in slots)

    def lookup_elem(self, key: bytes) -> bytes | None:
        found = self._entries.get(key)
        return None if found is None else self._joined(found)

    def write(self, key: bytes, value: bytes, flags: int = BPF_ANY) -> int:
        slots = self._insert(key, flags)
        if isinstance(slots, int):
            return slots
        for cpu, region in enumerate(slots):
            region.data[:] = value[cpu * self._slot : cpu * self._slot + self.value_size]
        return 0

    def entries(self) -> dict[bytes, bytes]:
        return {key: self._joined(slots) for key, slots in self._entries.items()}


class LruPerCpuHashMap(PerCpuHashMap):
    """BPF_MAP_TYPE_LRU_PERCPU_HASH: as `LruHashMap`, with a value for each processor."""

    _evicts = True
