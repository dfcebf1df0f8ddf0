"""Longest-prefix tries. kernel/bpf/lpm_trie.c."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyebpf.uapi.errno_table import EINVAL, ENOENT, ENOSPC
from pyebpf.uapi.flags import BPF_EXIST
from pyebpf.vm.maps.base import VmMap, exists_error

if TYPE_CHECKING:
    from pyebpf.vm.memory import Region

_PREFIX = 4


class LpmTrieMap(VmMap):
    """BPF_MAP_TYPE_LPM_TRIE: keys are a u32 length in bits and as many bits, each byte's highest first.

    kernel/bpf/lpm_trie.c. A full trie answers -ENOSPC.
    """

    def begin(self) -> None:
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
