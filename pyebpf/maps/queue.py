"""Queues and stacks: values without keys."""

from __future__ import annotations

from typing import Any, Generic, TypeVar

from pyebpf.maps.store import Stored
from pyebpf.uapi.flags import BPF_ANY, BPF_EXIST

__all__ = ["StoredQueue"]

_MISSING: Any = object()

T = TypeVar("T")


class StoredQueue(Stored, Generic[T]):
    """A queue (QUEUE, first in first out) or stack (STACK, last in first out) of values.

    Raises KernelError when a push finds it full, IndexError when a pop or peek finds it empty.
    """

    def push(self, value: T, *, make_room: bool = False) -> None:
        """Add a value. With `make_room` a full one gives up its oldest value (BPF_EXIST)."""
        self.store.update_elem(b"", self.store.value_type.encode(value), BPF_EXIST if make_room else BPF_ANY)

    def pop(self, default: Any = _MISSING) -> Any:
        """Take the next value out; the default if there is none, else IndexError."""
        return self._decoded(self.store.lookup_and_delete_elem(b""), "pop", default)

    def peek(self, default: Any = _MISSING) -> Any:
        """The next value, which stays."""
        return self._decoded(self.store.peek_elem(bytes(self.store.value_type.size)), "peek", default)

    def _decoded(self, value: bytes | None, doing: str, default: Any) -> Any:
        if value is not None:
            return self.store.value_type.decode(value)
        if default is _MISSING:
            raise IndexError(f"{doing} from map {self.store.spec.name}, which is empty")
        return default

    def drain(self) -> list[T]:
        """Take out all values that are there, in their order; at most `max_entries`, however fast programs push."""
        taken: list[T] = []
        store = self.store
        while len(taken) < store.max_entries and (value := store.lookup_and_delete_elem(b"")) is not None:
            taken.append(store.value_type.decode(value))
        return taken
