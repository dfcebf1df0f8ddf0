"""Bloom filters."""

from __future__ import annotations

from typing import Generic, TypeVar

from pyebpf.maps.store import Stored

__all__ = ["StoredBloomFilter"]

T = TypeVar("T")


class StoredBloomFilter(Stored, Generic[T]):
    """Values that were added: `v in filter` is never wrong when False, and rarely when True."""

    def add(self, value: T) -> None:
        """Add a value; it can't be taken out again."""
        self.store.update_elem(b"", self.store.value_type.encode(value))

    def __contains__(self, value: object) -> bool:
        return self.store.peek_elem(self.store.value_type.encode(value)) is not None
