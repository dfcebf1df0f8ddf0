"""Tries of networks, as their users see them."""

from __future__ import annotations

from typing import Any, TypeVar

from pyebpf.builder.trie import TrieEntity
from pyebpf.dsl.maps import KeyedMap, bpf_type
from pyebpf.errors import InvalidValue
from pyebpf.uapi.bpf import MapType
from pyebpf.uapi.flags import BPF_F_NO_PREALLOC

__all__ = ["TrieMap"]

K = TypeVar("K")
V = TypeVar("V")


class TrieMap(TrieEntity, KeyedMap[K, V]):
    """`bpf.lpm_trie(key=ipv4_prefix, value=V)`."""

    def __init__(self, key: Any, value: Any, size: int, name: str) -> None:
        found = bpf_type(key, "key")
        if not hasattr(found, "address_size"):
            raise InvalidValue(f"bpf.lpm_trie(key={key!r}): give ipv4_prefix, ipv6_prefix or prefix(bytes)")
        super().__init__(MapType.LPM_TRIE, found, value, size, name)
        self.flags = BPF_F_NO_PREALLOC
