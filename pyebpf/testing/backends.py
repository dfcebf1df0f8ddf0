"""User space's side of a map, served from the interpreter's: what `objects.Map` and the readers are in the kernel."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping, MutableMapping
from typing import TYPE_CHECKING, Any

from pyebpf.errors import InvalidValue, KernelError, NotLoaded
from pyebpf.types import IntType
from pyebpf.types.differences import check_counters, gained
from pyebpf.uapi.bpf import MapType
from pyebpf.vm.maps.arrays import PerfEventArrayMap
from pyebpf.vm.maps.buffers import RingBufferMap

if TYPE_CHECKING:
    from pyebpf.types import Struct
    from pyebpf.vm import VmMap

__all__ = ["EVENTS", "EventsBackend", "MapBackend"]

EVENTS = (MapType.RINGBUF, MapType.PERF_EVENT_ARRAY)
"""Kinds that are read as events."""

_MISSING: Any = object()
_NOEXIST, _EEXIST, _E2BIG = 1, 17, 7


class MapBackend(MutableMapping[Any, Any]):
    """A keyed map as a mapping of Python values, with the rules of the kernel's."""

    def __init__(self, vm: VmMap) -> None:
        self.vm = vm
        self.spec = vm.spec
        if self.spec.key is None or self.spec.value is None:
            raise InvalidValue(f"map {vm.name} ({self.spec.kind.name}) has no keys: read it as events")
        self._key, self._value = self.spec.key.as_key(), self.spec.value
        self._slot = self._value.size + 7 & ~7
        self._per_cpu = self.spec.traits.per_cpu
        self._sums = self._per_cpu and isinstance(self._value, IntType)
        self._previous: dict[Any, Any] = {}

    __eq__ = object.__eq__
    __hash__ = object.__hash__

    def fileno(self) -> int:
        """There is no descriptor."""
        raise NotLoaded(f"map {self.vm.name} is simulated: it has no descriptor")

    # --- bytes, as aggregations read them ---

    def lookup(self, key: Any) -> bytes | None:
        """The value's bytes (a per-CPU map's: all slots), or None for a missing key."""
        return self.vm.read(self._key.encode(key))

    def raw_items(self) -> Iterator[tuple[bytes, bytes]]:
        """Keys and values as bytes."""
        return iter(list(self.vm.entries().items()))

    # --- values ---

    def _slots(self, raw: bytes) -> list[Any]:
        if not self._per_cpu:
            return [self._value.decode(raw)]
        size = self._value.size
        return [self._value.decode(raw[at : at + size]) for at in range(0, len(raw), self._slot)]

    def _decode(self, raw: bytes) -> Any:
        slots = self._slots(raw)
        return slots[0] if not self._per_cpu else sum(slots) if self._sums else slots

    def _encode(self, value: Any) -> bytes:
        if not self._per_cpu:
            return self._value.encode(value)
        values = value if isinstance(value, list) and not self._sums else [value]
        raw = b"".join(self._value.encode(each).ljust(self._slot, b"\0") for each in values)
        return raw.ljust(self._slot * self.vm.cpus, b"\0")

    def __getitem__(self, key: Any) -> Any:
        raw = self.lookup(key)
        if raw is None:
            raise KeyError(key)
        return self._decode(raw)

    def __contains__(self, key: object) -> bool:
        return self.lookup(key) is not None

    def __setitem__(self, key: Any, value: Any) -> None:
        error = self.vm.write(self._key.encode(key), self._encode(value))
        if error:
            self._fail(error, key)

    def add(self, key: Any, value: Any) -> bool:
        """Insert unless the key is there already; whether it was inserted."""
        error = self.vm.write(self._key.encode(key), self._encode(value), _NOEXIST)
        if error and error != -_EEXIST:
            self._fail(error, key)
        return not error

    def _fail(self, error: int, key: Any) -> None:
        if error == -_E2BIG and self.spec.traits.is_array:
            raise InvalidValue(f"map {self.vm.name} has indices 0 to {self.vm.max_entries - 1}, not {key!r}")
        reason = f"it is full: it holds {self.vm.max_entries} entries" if error == -_E2BIG else f"error {-error}"
        raise KernelError(f"writing map {self.vm.name}: {reason}", -error)

    def __delitem__(self, key: Any) -> None:
        self._removable()
        if self.vm.remove(self._key.encode(key)):
            raise KeyError(key)

    def _removable(self) -> None:
        if self.spec.traits.is_array:
            raise InvalidValue(f"map {self.vm.name} is an array: its entries always exist; store 0 instead")

    def snapshot(self) -> dict[Any, Any]:
        """All items now."""
        return {self._key.decode(key): self._decode(value) for key, value in self.vm.entries().items()}

    def __iter__(self) -> Iterator[Any]:
        return iter(self.snapshot())

    def __len__(self) -> int:
        return len(self.vm.entries())

    def items(self) -> Any:
        """All items as they are now."""
        return self.snapshot().items()

    def values(self) -> Any:
        """All values as they are now."""
        return self.snapshot().values()

    def pop(self, key: Any, default: Any = _MISSING) -> Any:
        """Remove a key and return its value; if it is missing the default, else KeyError."""
        self._removable()
        raw = self.lookup(key)
        if raw is None:
            if default is _MISSING:
                raise KeyError(key)
            return default
        self.vm.remove(self._key.encode(key))
        return self._decode(raw)

    def drain(self) -> dict[Any, Any]:
        """Take all entries out."""
        self._removable()
        taken = self.snapshot()
        for raw in self.vm.entries():
            self.vm.remove(raw)
        return taken

    def clear(self) -> None:
        """Remove all entries; set those of an array to zero."""
        if not self.spec.traits.is_array:
            self.drain()
            return
        for raw, value in self.vm.entries().items():
            self.vm.write(raw, bytes(len(value)))

    def interval(self) -> dict[Any, Any]:
        """Return the gain of integers, or records of integers, since the last call; unchanged keys are left out."""
        check_counters(self.vm.name, self._value)
        now = self.snapshot()
        before, self._previous = self._previous, now
        return gained(self._value, now, before, slots=self._per_cpu and not self._sums)

    @property
    def per_cpu(self) -> Mapping[Any, list[Any]]:
        """The values processor by processor."""
        if not self._per_cpu:
            raise InvalidValue(f"map {self.vm.name} ({self.spec.kind.name}) is not per-CPU")
        return {self._key.decode(key): self._slots(value) for key, value in self.vm.entries().items()}


class EventsBackend:
    """A ring buffer or perf event array as decoded records. Iterating ends when there are none left."""

    def __init__(self, vm: VmMap, record: type[Struct] | None) -> None:
        self.vm = vm
        self._record = record

    def fileno(self) -> int:
        """There is no descriptor."""
        raise NotLoaded(f"events of {self.vm.name} are simulated: they have no descriptor")

    def poll(self, timeout: float | None = 0.0) -> list[Any]:  # noqa: ARG002 - nothing comes while one waits
        """All records that are there."""
        if isinstance(self.vm, RingBufferMap):
            raw = self.vm.poll()
        elif isinstance(self.vm, PerfEventArrayMap):
            raw = [data for _, data in self.vm.events]
            self.vm.events.clear()
        else:
            raise InvalidValue(f"map {self.vm.name} has no events")
        return raw if self._record is None else [self._record.layout.decode(data) for data in raw]

    def __iter__(self) -> Iterator[Any]:
        return iter(self.poll())

    async def __aiter__(self) -> AsyncIterator[Any]:
        for each in self.poll():
            yield each
