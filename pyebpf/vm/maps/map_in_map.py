"""Maps of maps."""

from __future__ import annotations

from typing import Any

from pyebpf.errors import InvalidValue
from pyebpf.types import U64
from pyebpf.uapi.bpf import MapType
from pyebpf.uapi.errno_table import E2BIG
from pyebpf.uapi.flags import BPF_ANY
from pyebpf.vm.maps.base import VmMap, exists_error


class MapOfMaps(VmMap):
    """Array or hash of maps. `inner` are the maps by raw key, as user space sets them."""

    def begin(self) -> None:
        self.inner: dict[bytes, VmMap] = {}
        self.value_type = U64  # an address, as it has no descriptors

    def lookup(self, key: bytes, cpu: int) -> int:  # noqa: ARG002 - one map for all
        found = self.inner.get(key)
        return 0 if found is None else found.address

    def object_number(self, value: Any) -> int:
        """The address of a map, which must be of the inner maps' shape."""
        inner, given = self.spec.inner_map, value.spec
        if inner is None or (given.type, given.key, given.value) != (inner.type, inner.key, inner.value):
            raise InvalidValue(f"map {self.name} holds maps like {inner and inner.name}, not {given.name}")
        return int(value.address)

    def write(self, key: bytes, value: bytes, flags: int = BPF_ANY) -> int:
        index = int.from_bytes(key, "little") if self.spec.type is MapType.ARRAY_OF_MAPS else len(self.inner)
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
