"""Maps and ring buffers for the evaluator: helpers on Python dictionaries."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyebpf.compiler.evaluator import MapHandle, Pointer, Region
from pyebpf.uapi.flags import BPF_NOEXIST

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyebpf.specs import MapSpec

EEXIST, E2BIG = 17, 7


class FakeKernel:
    """Serves map_lookup_elem, map_update_elem, map_delete_elem, ringbuf_reserve and ringbuf_submit."""

    def __init__(self, specs: Mapping[str, MapSpec], *, room: int = 1 << 20) -> None:
        self.specs = specs
        self.room = room
        self.events: list[bytes] = []
        self.entries: dict[str, dict[bytes, Region]] = {name: {} for name in specs}
        self.values: dict[str, Region] = {}
        for name, spec in specs.items():
            if spec.traits.is_array:
                assert spec.value is not None
                for index in range(spec.max_entries):
                    region = Region.of(name, bytes(spec.value.size))
                    self.entries[name][index.to_bytes(4, "little")] = region
                    self.values.setdefault(name, region)

    def helpers(self) -> dict[int, Callable[..., Any]]:
        """By enum bpf_func_id."""
        return {1: self.lookup, 2: self.update, 3: self.delete, 131: self.reserve, 132: self.submit}

    def read(self, name: str) -> dict[Any, Any]:
        """A map's entries, decoded."""
        spec = self.specs[name]
        assert spec.key is not None
        assert spec.value is not None
        return {spec.key.decode(k): spec.value.decode(bytes(r.data)) for k, r in self.entries[name].items()}

    def _key(self, handle: MapHandle, key: Pointer) -> bytes:
        type_ = self.specs[handle.name].key
        assert type_ is not None
        return key.region.load(key.offset, type_.size)

    def lookup(self, _run: Any, handle: MapHandle, key: Pointer) -> Any:
        found = self.entries[handle.name].get(self._key(handle, key))
        return 0 if found is None else Pointer(found, 0)

    def update(self, _run: Any, handle: MapHandle, key: Pointer, value: Pointer, flags: int) -> int:
        spec, raw, entries = self.specs[handle.name], self._key(handle, key), self.entries[handle.name]
        assert spec.value is not None
        data = value.region.load(value.offset, spec.value.size)
        if raw in entries and flags == BPF_NOEXIST:
            return -EEXIST
        if raw not in entries and len(entries) >= spec.max_entries:
            return -E2BIG
        entries[raw] = Region.of(handle.name, data)
        return 0

    def delete(self, _run: Any, handle: MapHandle, key: Pointer) -> int:
        self.entries[handle.name].pop(self._key(handle, key), None)
        return 0

    def reserve(self, _run: Any, handle: MapHandle, size: int, _flags: int) -> Any:
        if self.room < size:
            return 0
        self.room -= size
        return Pointer(Region.unwritten(handle.name, size), 0)

    def submit(self, _run: Any, place: Pointer, _flags: int) -> int:
        """A byte that was not written fails here."""
        self.events.append(place.region.load(0, len(place.region.data)))
        return 0
