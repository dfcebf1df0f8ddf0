"""Bloom filters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

from pyebpf.builder.ssa.conditions import Compare, Test
from pyebpf.builder.values.lvalue import temporary
from pyebpf.builder.values.methods import method_of
from pyebpf.builder.values.operations import rvalue
from pyebpf.compiler.ir import Condition as Relation
from pyebpf.maps.queue import Keyless
from pyebpf.maps.store import Stored
from pyebpf.uapi.bpf import MapType
from pyebpf.uapi.flags import BPF_ANY
from pyebpf.uapi.helper_ids import MAP_PEEK_ELEM

if TYPE_CHECKING:
    from pyebpf.builder.program import ProgramBuilder

T = TypeVar("T")


class StoredBloomFilter(Stored, Generic[T]):
    """Values that were added: `v in filter` is never wrong when False, and rarely when True."""

    def add(self, value: T) -> None:
        """Add a value; it can't be taken out again."""
        self.store.update_elem(b"", self.store.value_type.encode(value))

    def __contains__(self, value: object) -> bool:
        return self.store.peek_elem(self.store.value_type.encode(value)) is not None


class BloomFilter(Keyless, StoredBloomFilter[T], Generic[T]):
    """`bpf.bloom_filter(T)`; in a probe `add(v)`, and `v in filter`."""

    def __init__(self, name: str, value: object, size: int, hashes: int) -> None:
        super().__init__(name, MapType.BLOOM_FILTER, value, size, hashes)

    def attribute(self, p: ProgramBuilder, name: str) -> object:
        return method_of(p, self, name, {"add": self._add})

    def _add(self, p: ProgramBuilder, value: object) -> None:
        self._push_value(p, value, BPF_ANY)

    def contains(self, p: ProgramBuilder, item: object) -> Test:
        item = rvalue(p, item)
        with temporary(p, self.value.size) as slot:
            address = p.b.slot_address(slot)
            p.store_value(address, 0, self.value, item)
            status = self._status(p, MAP_PEEK_ELEM, address)
        return Compare(Relation.EQ, status, p.b.const(0))
