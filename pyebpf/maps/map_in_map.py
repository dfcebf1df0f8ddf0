"""Maps of maps."""

from __future__ import annotations

from typing import Any, NoReturn, TypeVar

from pyebpf.errors import InvalidValue
from pyebpf.maps import over
from pyebpf.maps.mapping import StoredObjectArray
from pyebpf.maps.store import Stored

__all__ = ["StoredMapOfMaps"]

K = TypeVar("K")


class StoredMapOfMaps(StoredObjectArray[K]):
    """Maps as values, each of the spec's `inner` shape: `outer[k] = inner_map` shares it, `outer[k]` opens it.

    A map that was opened is the caller's to close. `ids()` opens none.
    """

    def _encode_value(self, value: Any) -> bytes:
        store = getattr(value, "store", value)
        spec, inner = getattr(store, "spec", None), self.store.spec.inner
        if spec is not None and spec.kind is not inner.kind:
            raise InvalidValue(f"map {self.store.spec.name} holds maps of kind {inner.kind.name}, not {spec.kind.name}")
        return super()._encode_value(store)

    def __getitem__(self, key: K) -> Any:
        try:
            return _opened(self.store.inner_store(super().__getitem__(key)))
        except FileNotFoundError:  # replaced and gone since its id was read
            raise KeyError(key) from None

    def make(self) -> Any:
        """A new map of the inner maps' shape, the caller's to close; one that was put in lives on there."""
        return _opened(self.store.make_inner())

    def ids(self) -> dict[K, int]:
        """The maps' ids by key."""
        return self.snapshot()

    def items(self) -> NoReturn:
        raise InvalidValue(f"map {self.store.spec.name} holds maps: .ids() lists them, and [k] opens one")

    def values(self) -> NoReturn:
        self.items()

    def pop(self, key: K, default: Any = None) -> NoReturn:  # noqa: ARG002 - the mapping's interface
        raise InvalidValue(f"map {self.store.spec.name} holds maps: read [k] first, then `del`")


def _opened(store: Any) -> Any:
    """Python's side of an inner map."""
    return store if isinstance(store, Stored) else over(store)
