"""User space's side of the rarer kinds of maps, served from the interpreter's: queues, filters, maps of maps."""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from typing import TYPE_CHECKING, Any

from pyebpf.errors import InvalidValue, KernelError
from pyebpf.testing.backends import EVENTS, MapBackend
from pyebpf.uapi.bpf import MapType
from pyebpf.uapi.flags import BPF_ANY, BPF_EXIST
from pyebpf.vm.maps import make_map
from pyebpf.vm.maps.arrays import ProgramArrayMap
from pyebpf.vm.maps.buffers import QueueMap, UserRingBufferMap
from pyebpf.vm.maps.others import BloomFilterMap, MapOfMaps, StorageMap

if TYPE_CHECKING:
    from pyebpf.types import Struct
    from pyebpf.vm import VmMap
    from pyebpf.vm.memory import Memory

__all__ = ["UserRingBackend", "backend_of"]


def backend_of(made: VmMap, memory: Memory) -> Any:
    """Return a map's backend for user space; the map itself for kinds that are read as events."""
    if isinstance(made, MapOfMaps):
        return MapOfMapsBackend(made, memory)
    if isinstance(made, QueueMap):
        return QueueBackend(made)
    if isinstance(made, BloomFilterMap):
        return BloomBackend(made)
    if isinstance(made, ProgramArrayMap):
        return ProgramArrayBackend(made)
    if isinstance(made, StorageMap):
        return StorageBackend(made)
    return made if made.spec.kind in EVENTS or isinstance(made, UserRingBufferMap) else MapBackend(made)


class QueueBackend:
    """A queue or stack."""

    def __init__(self, vm: QueueMap) -> None:
        self.vm = vm
        assert vm.spec.value is not None
        self._value = vm.spec.value

    def push(self, value: Any, *, make_room: bool = False) -> None:
        """Add a value; KernelError without room."""
        error = self.vm.push(self._value.encode(value), BPF_EXIST if make_room else BPF_ANY)
        if error:
            raise KernelError(f"writing map {self.vm.name}: it is full: it holds {self.vm.max_entries} entries", -error)

    def pop(self, default: Any = None) -> Any:
        """Take the next value out."""
        raw = self.vm.take(remove=True)
        return default if raw is None else self._value.decode(raw)

    def peek(self, default: Any = None) -> Any:
        """The next value, which stays."""
        raw = self.vm.take(remove=False)
        return default if raw is None else self._value.decode(raw)

    def drain(self) -> list[Any]:
        """Take out all values."""
        return [self.pop() for _ in range(len(self.vm.items))]


class BloomBackend:
    """A Bloom filter, which here is never wrong."""

    def __init__(self, vm: BloomFilterMap) -> None:
        self.vm = vm
        assert vm.spec.value is not None
        self._value = vm.spec.value

    def add(self, value: Any) -> None:
        """Add a value."""
        self.vm.push(self._value.encode(value), BPF_ANY)

    def __contains__(self, value: object) -> bool:
        return not self.vm.holds(self._value.encode(value))


class ProgramArrayBackend(MutableMapping[int, Any]):
    """Programs by index: what `Simulation.programs` holds."""

    def __init__(self, vm: ProgramArrayMap) -> None:
        self.vm = vm
        self.spec = vm.spec

    def __getitem__(self, index: int) -> Any:
        return id(self.vm.programs[index])

    def __setitem__(self, index: int, program: Any) -> None:
        if not 0 <= index < self.vm.max_entries:
            raise InvalidValue(f"map {self.vm.name} has indices 0 to {self.vm.max_entries - 1}, not {index!r}")
        self.vm.programs[index] = program

    def __delitem__(self, index: int) -> None:
        del self.vm.programs[index]

    def __iter__(self) -> Iterator[int]:
        return iter(sorted(self.vm.programs))

    def __len__(self) -> int:
        return len(self.vm.programs)


class StorageBackend:
    """Values of kernel objects, by the addresses that `Simulation.object` gave."""

    def __init__(self, vm: StorageMap) -> None:
        self.vm = vm
        self.spec = vm.spec
        assert vm.spec.value is not None
        self._value = vm.spec.value

    def __getitem__(self, owner: int) -> Any:
        raw = self.vm.value(owner)
        if raw is None:
            raise KeyError(owner)
        return self._value.decode(raw)

    def get(self, owner: int, default: Any = None) -> Any:
        """The object's value."""
        raw = self.vm.value(owner)
        return default if raw is None else self._value.decode(raw)

    def __setitem__(self, owner: int, value: Any) -> None:
        self.vm.drop(owner)
        self.vm.get(owner, create=self._value.encode(value))

    def __delitem__(self, owner: int) -> None:
        if self.vm.drop(owner):
            raise KeyError(owner)

    def __contains__(self, owner: int) -> bool:
        return self.vm.value(owner) is not None


def _stride(length: int) -> int:
    """Bytes that a record takes: its header, and all rounded up to 8."""
    return 8 + (length + 7 & ~7)


class UserRingBackend:
    """A user ring buffer, with the room that the kernel's has."""

    def __init__(self, vm: UserRingBufferMap, record: type[Struct]) -> None:
        self.vm = vm
        self._record = record

    @property
    def waiting(self) -> int:
        """Bytes that no program has taken yet."""
        return sum(_stride(len(sample)) for sample in self.vm.samples)

    def send(self, value: Any) -> bool:
        """Put one record in, if there is room."""
        raw = self._record.layout.encode(value)
        if self.waiting + _stride(len(raw)) > self.vm.max_entries:
            return False
        self.vm.samples.append(raw)
        return True

    def wait(self, timeout: float) -> bool:  # noqa: ARG002 - nothing happens while one waits
        """Whether there is room."""
        return self.waiting < self.vm.max_entries


class MapOfMapsBackend(MutableMapping[Any, Any]):
    """A map of maps: its values are other backends."""

    def __init__(self, vm: MapOfMaps, memory: Memory) -> None:
        self.vm = vm
        self.spec = vm.spec
        self._memory = memory
        assert self.spec.key is not None
        self._key = self.spec.key
        self._given: dict[Any, Any] = {}

    def __getitem__(self, key: Any) -> Any:
        return self._given[key]

    def __setitem__(self, key: Any, value: Any) -> None:
        shape = self.spec.inner
        assert shape is not None
        if (value.spec.kind, value.spec.key, value.spec.value) != (shape.kind, shape.key, shape.value):
            raise InvalidValue(f"map {self.vm.name} holds maps like {shape.name}, not {value.spec.name}")
        if key not in self._given and self.spec.kind is MapType.ARRAY_OF_MAPS and not 0 <= key < self.vm.max_entries:
            raise InvalidValue(f"map {self.vm.name} has indices 0 to {self.vm.max_entries - 1}, not {key!r}")
        self.vm.inner[self._key.encode(key)] = value.vm
        self._given[key] = value

    def __delitem__(self, key: Any) -> None:
        del self._given[key]
        del self.vm.inner[self._key.encode(key)]

    def __iter__(self) -> Iterator[Any]:
        return iter(list(self._given))

    def __len__(self) -> int:
        return len(self._given)

    def make(self) -> Any:
        """A new map of the inner maps' shape."""
        assert self.spec.inner is not None
        return backend_of(make_map(self.spec.inner, self._memory, self.vm.cpus), self._memory)

    def ids(self) -> dict[Any, int]:
        """A number for each map that is there."""
        return {key: each.vm.address for key, each in self._given.items()}
