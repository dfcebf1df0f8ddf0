"""Values of kernel objects."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyebpf.types import U64
from pyebpf.uapi.errno_table import ENOENT
from pyebpf.uapi.flags import BPF_ANY
from pyebpf.vm.maps.base import VmMap

if TYPE_CHECKING:
    from pyebpf.vm.memory import Region


class StorageMap(VmMap):
    """A value for each kernel object (task, socket, inode, control group), by the object's address."""

    def begin(self) -> None:
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
