"""Longest-prefix tries, maps of maps, Bloom filters, redirection, storage of kernel objects, arenas."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyebpf.errors import InvalidValue
from pyebpf.types import U64
from pyebpf.uapi.bpf import MapType
from pyebpf.uapi.flags import BPF_ANY, BPF_EXIST
from pyebpf.vm.maps.base import E2BIG, EINVAL, ENOENT, VmMap, exists_error
from pyebpf.vm.memory import ArenaRegion, Region

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from pyebpf.specs import MapSpec
    from pyebpf.vm.memory import Memory

__all__ = [
    "ArenaMap",
    "BloomFilterMap",
    "CgroupArrayMap",
    "LpmTrieMap",
    "MapOfMaps",
    "PerCpuStorageMap",
    "RedirectMap",
    "StorageMap",
    "StructOpsMap",
]

_PREFIX = 4
_PAGE = 4096
ENOSPC = 28
_ARENA_BASE = 1 << 44


class LpmTrieMap(VmMap):
    """BPF_MAP_TYPE_LPM_TRIE: keys are a u32 length in bits and as many bits, each byte's highest first.

    kernel/bpf/lpm_trie.c. A full trie answers -ENOSPC.
    """

    def __init__(self, spec: MapSpec, memory: Memory, cpus: int) -> None:
        super().__init__(spec, memory, cpus)
        self._entries: dict[tuple[int, int], tuple[bytes, Region]] = {}
        self._bits = 8 * (self.key_size - _PREFIX)

    def _split(self, key: bytes) -> tuple[int, int] | None:
        """Length and prefix; None for a length that no key has."""
        length = int.from_bytes(key[:_PREFIX], "little")
        return None if length > self._bits else (length, self._prefix(key, length))

    def _prefix(self, key: bytes, length: int) -> int:
        return int.from_bytes(key[_PREFIX:], "big") >> (self._bits - length)

    def lookup(self, key: bytes, cpu: int) -> int:  # noqa: ARG002 - one value for all
        found = self._match(key)
        return 0 if found is None else found.base

    def _match(self, key: bytes) -> Region | None:
        most = int.from_bytes(key[:_PREFIX], "little")
        if most > self._bits:
            return None
        for length in range(most, -1, -1):
            found = self._entries.get((length, self._prefix(key, length)))
            if found is not None:
                return found[1]
        return None

    def update(self, key: bytes, value: bytes, flags: int, cpu: int) -> int:  # noqa: ARG002 - one value for all
        place = self._split(key)
        if flags > BPF_EXIST or place is None:
            return -EINVAL
        error = exists_error(flags, exists=place in self._entries)
        if not error and place not in self._entries and len(self._entries) >= self.max_entries:
            return -ENOSPC
        if not error:
            self._entries[place] = (key, self._region(value))
        return error

    def delete(self, key: bytes) -> int:
        place = self._split(key)
        if place is None:
            return -EINVAL
        return 0 if self._entries.pop(place, None) is not None else -ENOENT

    def lookup_elem(self, key: bytes) -> bytes | None:
        found = self._match(key)
        return None if found is None else bytes(found.data)

    def entries(self) -> dict[bytes, bytes]:
        return {key: bytes(region.data) for key, region in self._entries.values()}


class MapOfMaps(VmMap):
    """Array or hash of maps. `inner` are the maps by raw key, as user space sets them."""

    def __init__(self, spec: MapSpec, memory: Memory, cpus: int) -> None:
        super().__init__(spec, memory, cpus)
        self.inner: dict[bytes, VmMap] = {}
        self.value_type = U64  # an address, as it has no descriptors

    def lookup(self, key: bytes, cpu: int) -> int:  # noqa: ARG002 - one map for all
        found = self.inner.get(key)
        return 0 if found is None else found.address

    def object_number(self, value: Any) -> int:
        """The address of a map, which must be of the inner maps' shape."""
        inner, given = self.spec.inner, value.spec
        if inner is None or (given.kind, given.key, given.value) != (inner.kind, inner.key, inner.value):
            raise InvalidValue(f"map {self.name} holds maps like {inner and inner.name}, not {given.name}")
        return int(value.address)

    def write(self, key: bytes, value: bytes, flags: int = BPF_ANY) -> int:
        index = int.from_bytes(key, "little") if self.spec.kind is MapType.ARRAY_OF_MAPS else len(self.inner)
        error = exists_error(flags, exists=key in self.inner)
        if not error and key not in self.inner and index >= self.max_entries:
            return -E2BIG
        if not error:
            self.inner[key] = self.memory.maps[int.from_bytes(value, "little")]
        return error

    def delete_elem(self, key: bytes) -> bool:
        return self.inner.pop(key, None) is not None

    def lookup_elem(self, key: bytes) -> bytes | None:
        return self.entries().get(key)

    def entries(self) -> dict[bytes, bytes]:
        return {key: found.address.to_bytes(U64.size, "little") for key, found in self.inner.items()}


class BloomFilterMap(VmMap):
    """BPF_MAP_TYPE_BLOOM_FILTER. The kernel's also finds some values that were never pushed, this one does not."""

    def __init__(self, spec: MapSpec, memory: Memory, cpus: int) -> None:
        super().__init__(spec, memory, cpus)
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


class RedirectMap(VmMap):
    """Targets of redirected packets (devmap, cpumap, xskmap), or sockets: entries that user space stored, by key."""

    def __init__(self, spec: MapSpec, memory: Memory, cpus: int) -> None:
        super().__init__(spec, memory, cpus)
        self._entries: dict[bytes, Region] = {}

    def lookup(self, key: bytes, cpu: int) -> int:  # noqa: ARG002 - one value for all
        found = self._entries.get(key)
        return 0 if found is None else found.base

    def write(self, key: bytes, value: bytes, flags: int = BPF_ANY) -> int:
        if int.from_bytes(key, "little") >= self.max_entries:
            return -E2BIG
        error = exists_error(flags, exists=key in self._entries)
        if not error:
            self._entries[key] = self._region(value)
            self._entries[key].writable = False
        return error

    def delete_elem(self, key: bytes) -> bool:
        return self._entries.pop(key, None) is not None

    def lookup_elem(self, key: bytes) -> bytes | None:
        found = self._entries.get(key)
        return None if found is None else bytes(found.data)

    def entries(self) -> dict[bytes, bytes]:
        return {key: bytes(region.data) for key, region in self._entries.items()}


class StorageMap(VmMap):
    """A value for each kernel object (task, socket, inode, control group), by the object's address."""

    def __init__(self, spec: MapSpec, memory: Memory, cpus: int) -> None:
        super().__init__(spec, memory, cpus)
        self._values: dict[int, Region] = {}
        self.key_type = U64  # an address, as it has no descriptors

    def get(self, owner: int, *, create: bytes | None) -> int:
        """Address of the owner's value; a new one begins as `create`, None: there is none then."""
        found = self._values.get(owner)
        if found is None and create is not None and owner:
            found = self._values[owner] = self._region(create)
        return 0 if found is None else found.base

    def drop(self, owner: int) -> int:
        """Remove the owner's value; 0 or a negative error number."""
        return 0 if self._values.pop(owner, None) is not None else -ENOENT

    def lookup_elem(self, key: bytes) -> bytes | None:
        found = self._values.get(int.from_bytes(key, "little"))
        return None if found is None else bytes(found.data)

    def write(self, key: bytes, value: bytes, flags: int = BPF_ANY) -> int:  # noqa: ARG002 - always replaced
        owner = int.from_bytes(key, "little")
        self.drop(owner)
        self.get(owner, create=value)
        return 0

    def delete_elem(self, key: bytes) -> bool:
        return not self.drop(int.from_bytes(key, "little"))


class PerCpuStorageMap(StorageMap):
    """A value of each processor's own for each control group (BPF_MAP_TYPE_PERCPU_CGROUP_STORAGE)."""

    def place(self, owner: int, cpu: int) -> int:
        """Return what stands for a processor's part of the owner."""
        return owner << 16 | cpu


class CgroupArrayMap(VmMap):
    """BPF_MAP_TYPE_CGROUP_ARRAY: `groups` are ids of control groups by index."""

    def __init__(self, spec: MapSpec, memory: Memory, cpus: int) -> None:
        super().__init__(spec, memory, cpus)
        self.groups: dict[int, int] = {}


class StructOpsMap(VmMap):
    """BPF_MAP_TYPE_STRUCT_OPS: a table that user space registers and no program looks into."""


class ArenaMap(VmMap):
    """BPF_MAP_TYPE_ARENA: `max_entries` pages that user space shares; programs reach them by 32-bit addresses.

    `base` is where user space has them mapped: `MapSpec.extra`, or an address of the machine's choice.
    """

    def __init__(self, spec: MapSpec, memory: Memory, cpus: int) -> None:
        super().__init__(spec, memory, cpus)
        self.base = spec.extra or _ARENA_BASE
        self.region = ArenaRegion(spec.name, self.max_entries, self.base)
        memory.arena = self.region

    def allocate(self, count: int) -> int:
        """User address of `count` pages in a row, 0 if there are not as many."""
        first = self.region.allocate(count)
        return 0 if first is None else self.base + first * _PAGE

    def free(self, address: int, count: int) -> None:
        """Give pages back; they read as zeros then."""
        self.region.free((address - self.base & 0xFFFF_FFFF) // _PAGE, count)

    def elements(self, cpu: int) -> Iterator[tuple[bytes, int]]:  # noqa: ARG002 - there are none
        return iter(())
