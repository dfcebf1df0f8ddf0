"""Program arrays."""

from __future__ import annotations

from typing import Any

from pyebpf.types import U64
from pyebpf.uapi.errno_table import E2BIG
from pyebpf.uapi.flags import BPF_ANY
from pyebpf.vm.maps.base import VmMap

_INDEX = 4


class ProgramArrayMap(VmMap):
    """Programs to tail-call, by index: entries are what the machine made of them."""

    def begin(self) -> None:
        self.programs: dict[int, Any] = {}
        self.value_type = U64  # an id, as programs have no descriptors
        self._known: dict[int, Any] = {}

    def object_number(self, value: object) -> int:
        """The id of a program."""
        self._known[id(value)] = value
        return id(value)

    def write(self, key: bytes, value: bytes, flags: int = BPF_ANY) -> int:  # noqa: ARG002 - always replaced
        index = int.from_bytes(key, "little")
        if index >= self.max_entries:
            return -E2BIG
        self.programs[index] = self._known[int.from_bytes(value, "little")]
        return 0

    def delete_elem(self, key: bytes) -> bool:
        return self.programs.pop(int.from_bytes(key, "little"), None) is not None

    def lookup_elem(self, key: bytes) -> bytes | None:
        return self.entries().get(key)

    def entries(self) -> dict[bytes, bytes]:
        return {
            index.to_bytes(_INDEX, "little"): id(program).to_bytes(U64.size, "little")
            for index, program in sorted(self.programs.items())
        }
