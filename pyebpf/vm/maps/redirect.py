"""Targets of redirection, and sockets."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyebpf.uapi.errno_table import E2BIG
from pyebpf.uapi.flags import BPF_ANY
from pyebpf.vm.maps.base import VmMap, exists_error

if TYPE_CHECKING:
    from pyebpf.vm.memory import Region


class RedirectMap(VmMap):
    """Targets of redirected packets (devmap, cpumap, xskmap), or sockets: entries that user space stored, by key."""

    def begin(self) -> None:
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
