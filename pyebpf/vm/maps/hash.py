"""Hash tables: plain, per-CPU, least recently used.

Memory of removed entries is used again as the kernel's preallocated tables do it on one processor: last removed first,
and an update of an existing key swaps its element with a spare one. So a program that keeps a pointer to an entry which
it removed or replaced sees in it what it would see in the kernel.

Source: kernel/bpf/hashtab.c (htab_map_update_elem, alloc_htab_elem, free_htab_elem), Linux 6.18.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

from pyebpf.uapi.errno_table import E2BIG, EINVAL, ENOENT
from pyebpf.uapi.flags import BPF_ANY, BPF_EXIST, BPF_F_NO_PREALLOC
from pyebpf.vm.maps.base import VmMap, exists_error
from pyebpf.vm.memory import Region

if TYPE_CHECKING:
    from collections.abc import Iterator

E = TypeVar("E", Region, "list[Region]")


class _HashTable(VmMap, Generic[E]):
    """Keys and their elements: a value's memory, or one for each processor. -E2BIG when full, unless it `_evicts`."""

    _evicts = False

    def begin(self) -> None:
        self._entries: dict[bytes, E] = {}
        self._free: list[E] = []

    def _region_of(self, element: E, cpu: int) -> Region:
        raise NotImplementedError

    def _content(self, element: E) -> bytes:
        raise NotImplementedError

    def _error(self, key: bytes, flags: int) -> int:
        """The error of an update with such flags, or since there is no room; 0 where it may go on."""
        # BPF_F_LOCK is for values with a spin lock in them, which only BTF can tell.
        error = (-EINVAL if flags > BPF_EXIST else 0) or exists_error(flags, exists=key in self._entries)
        if error or key in self._entries or len(self._entries) < self.max_entries:
            return error
        return self.delete(next(iter(self._entries))) if self._evicts else -E2BIG

    def lookup(self, key: bytes, cpu: int) -> int:
        found = self._entries.get(key)
        if found is None:
            return 0
        if self._evicts:
            self._entries[key] = self._entries.pop(key)
        return self._region_of(found, cpu).base

    def delete(self, key: bytes) -> int:
        found = self._entries.pop(key, None)
        if found is None:
            return -ENOENT
        self._free.append(found)
        return 0

    def elements(self, cpu: int) -> Iterator[tuple[bytes, int]]:
        for key, element in list(self._entries.items()):
            yield key, self._region_of(element, cpu).base

    def lookup_elem(self, key: bytes) -> bytes | None:
        found = self._entries.get(key)
        return None if found is None else self._content(found)

    def entries(self) -> dict[bytes, bytes]:
        return {key: self._content(element) for key, element in self._entries.items()}


class HashMap(_HashTable[Region]):
    """BPF_MAP_TYPE_HASH."""

    def begin(self) -> None:
        super().begin()
        self._spare: Region | None = None
        self._preallocated = not self.spec.flags & BPF_F_NO_PREALLOC

    def _region_of(self, element: Region, cpu: int) -> Region:  # noqa: ARG002 - one value for all
        return element

    def _content(self, element: Region) -> bytes:
        return bytes(element.data)

    def _new(self, value: bytes) -> Region:
        if not self._free or not self._preallocated:
            return self._region(value)
        region = self._free.pop()
        region.data[:] = value
        return region

    def update(self, key: bytes, value: bytes, flags: int, cpu: int) -> int:  # noqa: ARG002 - one value for all
        if error := self._error(key, flags):
            return error
        old = self._entries.pop(key, None)
        if old is None:
            self._entries[key] = self._new(value)
        elif self._preallocated:
            spare = self._spare or self._region(value)
            spare.data[:] = value
            # A table lists its newest element first; order is kept by removing the old one.
            self._entries[key], self._spare = spare, old
        else:
            self._entries[key] = self._region(value)
        return 0


class LruHashMap(HashMap):
    """BPF_MAP_TYPE_LRU_HASH: when full, the entry that was not used for the longest time goes.

    The kernel's choice is an approximation of that: it looks at a reference bit, in batches for each processor, and may
    give up entries somewhat before the table is full. Which entry goes is therefore not to be relied on.
    """

    _evicts = True


class PerCpuHashMap(_HashTable["list[Region]"]):
    """BPF_MAP_TYPE_PERCPU_HASH: values are changed in place; those of other processors begin with zeros."""

    def begin(self) -> None:
        super().begin()
        self._slot = self.value_size + 7 & ~7

    def _region_of(self, element: list[Region], cpu: int) -> Region:
        return element[cpu]

    def _content(self, element: list[Region]) -> bytes:
        return b"".join(bytes(region.data).ljust(self._slot, b"\0") for region in element)

    def _insert(self, key: bytes, flags: int) -> list[Region] | int:
        """The regions of a key, new ones if need be; or a negative error number."""
        if error := self._error(key, flags):
            return error
        found = self._entries.get(key)
        if found is not None:
            return found
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

    def write(self, key: bytes, value: bytes, flags: int = BPF_ANY) -> int:
        slots = self._insert(key, flags)
        if isinstance(slots, int):
            return slots
        for cpu, region in enumerate(slots):
            region.data[:] = value[cpu * self._slot : cpu * self._slot + self.value_size]
        return 0


class LruPerCpuHashMap(PerCpuHashMap):
    """BPF_MAP_TYPE_LRU_PERCPU_HASH: as `LruHashMap`, with a value for each processor."""

    _evicts = True
