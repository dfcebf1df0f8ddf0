"""One `add` as a program, run by the evaluator: a model of the map, and the words that it holds afterwards."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyebpf.aggregations.entity import MAP_LOOKUP_ELEM, MAP_UPDATE_ELEM
from pyebpf.builder.drop_counters import DROPS_MAP
from pyebpf.compiler.checker import check_module
from pyebpf.compiler.evaluator import Pointer, Region
from pyebpf.uapi.flags import BPF_NOEXIST
from tests.builder.harness import Everything, Probe

if TYPE_CHECKING:
    from pyebpf.aggregations import Aggregation
    from pyebpf.types import IntType


class Added:
    """The program `aggregation.add(value)`, or `aggregation[key].add(value)`: word 0 is the value, word 1 the key."""

    def __init__(
        self, aggregation: Aggregation[Any], type_: IntType, capacity: int = 1 << 30, target: Any = None
    ) -> None:
        p = Probe(target or Everything())
        aggregation.name = aggregation.name or "values"
        self.aggregation = aggregation
        self.capacity = capacity
        #: Processor that runs the program, by the map's name: values by key.
        self.entries: dict[bytes, Region] = {}
        value = p.number(0, type_)
        if aggregation.key is None:
            aggregation.attribute(p, "add").call(p, (value,), {})
            self.entries[bytes(4)] = self._zeros()
        else:
            entry = aggregation.item(p, p.number(1))
            entry.attribute(p, "add").call(p, (value,), {})
        p.ret(0)
        self.module = p.finish()
        check_module(self.module)
        lost = p.drop_counters.spec()
        self.values = {name: Region.of(name, bytes(spec.value.size)) for name, spec in p.maps.items() if spec.value}
        if lost is not None and lost.value is not None:
            self.values[DROPS_MAP] = Region.of(DROPS_MAP, bytes(lost.value.size))
        template = aggregation.template
        if template is not None:
            self.values[template.name].writable = False

    def _zeros(self) -> Region:
        return Region.of("value", bytes(self.aggregation.type.layout.size))

    def _key(self, pointer: Any) -> bytes:
        size = self.aggregation.key.size if self.aggregation.key is not None else 4
        return bytes(pointer.region.load(pointer.offset, size))

    def _lookup(self, _evaluator: Any, _handle: Any, key: Any) -> Any:
        found = self.entries.get(self._key(key))
        return 0 if found is None else Pointer(found, 0)

    def _update(self, _evaluator: Any, _handle: Any, key: Any, value: Any, flags: int) -> int:
        size = self.aggregation.type.layout.size
        assert flags == BPF_NOEXIST
        assert value.region.load(value.offset, size) == bytes(size)
        if self._key(key) in self.entries or len(self.entries) >= self.capacity:
            return -1
        self.entries[self._key(key)] = self._zeros()
        return 0

    def add(self, value: int, key: int = 0) -> None:
        """Run it."""
        helpers = {MAP_LOOKUP_ELEM: self._lookup, MAP_UPDATE_ELEM: self._update}
        Probe.run_module(self.module, value, key, helpers=helpers, values=self.values)

    def lost(self) -> int:
        """What was counted as dropped."""
        region = self.values.get(DROPS_MAP)
        return 0 if region is None else sum(region.data[::8])


def store(*processors: Added) -> Any:
    """Several processors' values as one loaded map."""

    class Together:
        def lookup_batches(self) -> Any:
            keys = dict.fromkeys(key for one in processors for key in one.entries)
            return ((key, self._value(key), 1) for key in keys)

        def _value(self, key: bytes) -> bytes:
            size = processors[0].aggregation.type.layout.size
            return b"".join(bytes(one.entries[key].data) if key in one.entries else bytes(size) for one in processors)

        def lookup_elem(self, key: bytes) -> bytes | None:
            return self._value(key) if any(key in one.entries for one in processors) else None

    return Together()
