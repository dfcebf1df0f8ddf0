"""Tries of networks: a whole address as key finds the longest prefix of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from pyebpf.builder.values.entity import describe
from pyebpf.builder.values.references import Reference
from pyebpf.errors import InvalidValue
from pyebpf.maps.declared import bpf_type
from pyebpf.maps.keyed import KeyedMap
from pyebpf.types import BE16, BE32, BE64, U8, U32, BytesType
from pyebpf.uapi.bpf import MapType
from pyebpf.uapi.flags import BPF_F_NO_PREALLOC

if TYPE_CHECKING:
    from pyebpf.builder.program import ProgramBuilder
    from pyebpf.compiler import ir

K = TypeVar("K")
V = TypeVar("V")

_NUMBERS = {1: U8, 2: BE16, 4: BE32, 8: BE64}


class TrieMap(KeyedMap[K, V]):
    """`bpf.lpm_trie(key=ipv4_prefix, value=V)`; in a probe `routes.get(address)`.

    There an address of 1, 2, 4 or 8 bytes is a number, another one `u8[N]`.
    """

    def __init__(self, name: str, key: object, value: object, size: int) -> None:
        found = bpf_type(key, "key")
        if not hasattr(found, "address_size"):
            raise InvalidValue(f"bpf.lpm_trie(key={key!r}): give ipv4_prefix, ipv6_prefix or prefix(bytes)")
        super().__init__(name, MapType.LPM_TRIE, found, value, size, BPF_F_NO_PREALLOC)

    def _store_key(self, p: ProgramBuilder, address: ir.Value, key: object) -> None:
        size = self.key.size - U32.size
        p.b.store(address, 0, p.b.const(8 * size), U32.size)
        type_ = _NUMBERS.get(size, BytesType(size))
        if isinstance(type_, BytesType) and not (isinstance(key, (bytes, Reference))):
            p.fail(f"the keys of {self.describe()} are addresses of {size} bytes, u8[{size}], not {describe(key)}")
        p.store_value(address, U32.size, type_, key)
