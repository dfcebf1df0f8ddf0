"""Generated programs run by the IR evaluator, with maps kept in Python."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyebpf.compiler.evaluator import MapHandle, Pointer, Region, evaluate
from pyebpf.uapi.bpf import MapType
from pyebpf.uapi.flags import BPF_NOEXIST

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyebpf.compiler import ir
    from pyebpf.specs import MapSpec

__all__ = ["Maps"]

LOOKUP, UPDATE, DELETE = 1, 2, 3
ENOENT, EEXIST, E2BIG = 2, 17, 7


class Maps:
    """The maps of one module, by name; a value is a region that programs write through its address."""

    def __init__(self, specs: Mapping[str, MapSpec]) -> None:
        self.specs = dict(specs)
        self.entries: dict[str, dict[bytes, Region]] = {name: {} for name in specs}
        for name, spec in specs.items():
            if spec.type is MapType.ARRAY:
                assert spec.value is not None
                for index in range(spec.max_entries):
                    self.entries[name][index.to_bytes(4, "little")] = Region.of(name, bytes(spec.value.size))
            for key, value in spec.initial:
                self.entries[name][key] = Region.of(name, value)

    def set(self, name: str, key: Any, value: Any) -> None:
        """Store a value, as user space would."""
        spec = self.specs[name]
        assert spec.key is not None
        assert spec.value is not None
        self.entries[name][spec.key.encode(key)] = Region.of(name, spec.value.encode(value))

    def read(self, name: str) -> dict[Any, Any]:
        """All entries, decoded."""
        spec = self.specs[name]
        assert spec.key is not None
        assert spec.value is not None
        return {spec.key.decode(key): spec.value.decode(bytes(value.data)) for key, value in self.entries[name].items()}

    def run(
        self, module: ir.Module, context: bytes = bytes(96), helpers: Mapping[int, Callable[..., Any]] | None = None
    ) -> int:
        """Run a program once; `helpers` are those besides the maps'. Returns what the program returned."""
        return self.run_in(module, context, helpers)[0]

    def run_in(
        self, module: ir.Module, context: bytes, helpers: Mapping[int, Callable[..., Any]] | None = None
    ) -> tuple[int, bytes]:
        """Likewise; the context, too, as the program left it."""
        single = {
            name: next(iter(self.entries[name].values()))
            for name, spec in self.specs.items()
            if spec.type is MapType.ARRAY and spec.max_entries == 1
        }
        known = {LOOKUP: self._lookup, UPDATE: self._update, DELETE: self._delete, **(helpers or {})}
        given = Region.of("context", context)
        returned = evaluate(module, [Pointer(given, 0)], helpers=known, values=single, step_limit=200_000)
        assert isinstance(returned, int)
        return returned, bytes(given.data)

    def _bytes(self, pointer: Any, size: int) -> bytes:
        assert isinstance(pointer, Pointer)
        return pointer.region.load(pointer.offset, size)

    def _key(self, handle: Any, pointer: Any) -> tuple[MapSpec, bytes]:
        assert isinstance(handle, MapHandle)
        spec = self.specs[handle.name]
        assert spec.key is not None
        return spec, self._bytes(pointer, spec.key.size)

    def _lookup(self, _evaluator: Any, handle: Any, key: Any) -> Any:
        spec, raw = self._key(handle, key)
        found = self.entries[spec.name].get(raw)
        return 0 if found is None else Pointer(found, 0)

    def _update(self, _evaluator: Any, handle: Any, key: Any, value: Any, flags: int) -> int:
        spec, raw = self._key(handle, key)
        assert spec.value is not None
        entries = self.entries[spec.name]
        if raw in entries and flags == BPF_NOEXIST:
            return -EEXIST
        if raw not in entries and (spec.type is MapType.ARRAY or len(entries) >= spec.max_entries):
            return -E2BIG
        entries[raw] = Region.of(spec.name, self._bytes(value, spec.value.size))
        return 0

    def _delete(self, _evaluator: Any, handle: Any, key: Any) -> int:
        spec, raw = self._key(handle, key)
        return 0 if self.entries[spec.name].pop(raw, None) is not None else -ENOENT
