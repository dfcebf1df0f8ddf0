"""The objects that a module declares and user space reads.

    latency[disk].add(elapsed)                       # in a probe
    for disk, histogram in latency.interval().items():   # in Python
        print(histogram)

An interval is the difference of two readings: nothing is removed from their maps, so no count is lost. Only `clear()`
removes what was added.
"""

from __future__ import annotations

from threading import RLock
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from pyebpf.aggregations.entity import Aggregation
from pyebpf.aggregations.statistics import Stats
from pyebpf.errors import InvalidValue, OnlyInProbe
from pyebpf.maps.mapping import ReadMapping
from pyebpf.maps.snapshot import SnapshotMapping
from pyebpf.maps.store import Stored, each_entry
from pyebpf.output.histogram import Histogram
from pyebpf.types import U32, StructType, TupleType, type_of
from pyebpf.types.codecs import slot_size

if TYPE_CHECKING:
    from typing import NoReturn

    from pyebpf.aggregations.aggregation_type import AggregationType, Cells
    from pyebpf.maps.store import MapStore
    from pyebpf.types import Type

K = TypeVar("K")
R = TypeVar("R")


def _only_in_probe(what: str, number: int) -> NoReturn:
    raise OnlyInProbe(f"add({number!r}) of {what} is called inside a probe, on each event")


class _Bound(Stored, Aggregation[R]):
    """State for reading: the loaded map, and how its cells are put together."""

    def __init__(self, kind: AggregationType[R], key: Type | None, size: int, name: str) -> None:
        super().__init__(kind, key, size, name)
        self._cells = kind.combiner()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.current_name()}: snapshot() reads it>"

    def _not_loaded(self) -> str:
        return f"{self.describe()} is not loaded: read it inside `with bpf:`"

    def _only(self) -> Cells:
        """The cells of the one value that there is without keys."""
        return self._cells(self.store.lookup_elem(bytes(U32.size)))

    def _set_to_nothing(self) -> None:
        """Set the one value that there is without keys to what it was before anything was added."""
        store = self.store
        store.update_elem(bytes(U32.size), bytes(slot_size(store.value_type.size) * store.processors))


class SingleAggregation(_Bound[R]):
    """One value. `snapshot()` is what was added since the program was loaded."""

    def __init__(self, kind: AggregationType[R], name: str = "") -> None:
        super().__init__(kind, None, 1, name)

    def _begin(self, store: MapStore) -> None:  # noqa: ARG002 - the interface's
        self._previous = (0,) * len(self.type.codes)
        self._one_reader = RLock()

    def snapshot(self) -> R:
        """Everything added so far. Raises NotLoaded outside `with`."""
        return self.type.result(self._only(), {})

    def _interval(self) -> R:
        with self._one_reader:
            now = self._only()
            before, self._previous = self._previous, now
        return self.type.result_of_difference(self.type.difference(now, before), {})

    def clear(self) -> None:
        """Remove all that was added. What programs add meanwhile may be lost: `interval()` loses nothing."""
        with self._one_reader:
            self._set_to_nothing()
            self._previous = (0,) * len(self.type.codes)


class KeyedAggregation(_Bound[R], ReadMapping[K, R], Generic[K, R]):
    """A value for each key that something was added to: a mapping, read anew by each method.

    `label` names the key in what is printed; a Struct's fields name themselves.
    """

    def __init__(
        self, kind: AggregationType[R], key: type[K] | tuple[Any, ...], size: int, name: str = "", label: str = ""
    ) -> None:
        key_type = type_of(key)
        if key_type is None:
            raise InvalidValue(
                f"{kind.name}: key={key!r} is not a type: give an integer type, char[N], a Struct or a tuple of such"
            )
        super().__init__(kind, key_type, size, name)
        self.label = label
        self._decode_key = key_type.as_key().decode
        self._fields: list[str] | None = None
        if isinstance(key_type, StructType) and not isinstance(key_type, TupleType):
            self._fields = [f.name for f in key_type.fields]

    def _begin(self, store: MapStore) -> None:  # noqa: ARG002 - the interface's
        self._previous: dict[bytes, Cells] = {}
        self._one_reader = RLock()

    def clear(self) -> None:
        """Remove all keys. What programs add meanwhile may be lost: `interval()` loses nothing."""
        with self._one_reader:
            self._previous = {}
            for _ in self.store.lookup_and_delete_batches():
                pass

    def _labels(self, key: object) -> dict[str, object]:
        if self._fields is not None:
            return {name: getattr(key, name) for name in self._fields}
        return {self.label or "key": key}

    def _added(self) -> dict[bytes, Cells]:
        """The cells of every key to which something was added."""
        cells = self._cells
        found = {key: cells(value) for key, value in each_entry(self.store.lookup_batches())}
        return {key: value for key, value in found.items() if any(value)}

    def _read_value(self, key: K) -> R:
        store = self.store
        assert self.key is not None
        value = store.lookup_elem(self.key.encode(key))
        cells = self._cells(value) if value is not None else ()
        if not any(cells):
            raise KeyError(key)
        return self.type.result(cells, self._labels(key))

    def _now(self) -> SnapshotMapping[K, R]:
        added = self._added()
        keys = list(map(self._decode_key, added))
        results = map(self.type.result, added.values(), map(self._labels, keys))
        return SnapshotMapping(keys, list(results))

    def _began_again(self, now: Cells, before: Cells) -> bool:  # noqa: ARG002 - for maps that programs clear
        """Whether all was removed between two readings by what is not known here."""
        return False

    def _interval(self) -> dict[K, R]:
        with self._one_reader:
            now = self._added()
            before, self._previous = self._previous, now
        kind, answer = self.type, {}
        for raw, cells in now.items():
            earlier = before.get(raw)
            if cells == earlier:
                continue
            if earlier is None or self._began_again(cells, earlier):
                earlier = (0,) * len(cells)
            gained = kind.difference(cells, earlier)
            if any(gained):
                key = self._decode_key(raw)
                answer[key] = kind.result_of_difference(gained, self._labels(key))
        return answer


class SingleHistogram(SingleAggregation[Histogram]):
    """One histogram."""

    def add(self, value: int) -> None:
        """Count a value (in probes)."""
        _only_in_probe(self.describe(), value)

    def interval(self) -> Histogram:
        """Return the values counted since the last call; the first time, since the program was loaded."""
        return self._interval()


class SingleCounter(SingleAggregation[int]):
    """One counter."""

    def add(self, n: int = 1) -> None:
        """Count `n` more (in probes)."""
        _only_in_probe(self.describe(), n)

    def interval(self) -> int:
        """Return the count since the last call; the first time, since the program was loaded."""
        return self._interval()


class SingleTotal(SingleAggregation[int]):
    """One sum, an s64."""

    def add(self, value: int) -> None:
        """Add a value (in probes)."""
        _only_in_probe(self.describe(), value)

    def interval(self) -> int:
        """Return the sum added since the last call; the first time, since the program was loaded."""
        return self._interval()


class SingleExtreme(_Bound[int]):
    """The least or greatest value since the program was loaded, or `clear()`; there is none of an interval."""

    def __init__(self, kind: AggregationType[int], name: str = "") -> None:
        super().__init__(kind, None, 1, name)

    def add(self, value: int) -> None:
        """Take a value into account (in probes)."""
        _only_in_probe(self.describe(), value)

    def clear(self) -> None:
        """Forget all values. One that programs take into account meanwhile may be lost."""
        self._set_to_nothing()

    def snapshot(self) -> int | None:
        """The extreme so far, None before the first value. Raises NotLoaded outside `with`."""
        cells = self._only()
        return self.type.result(cells, {}) if any(cells) else None


class SingleStats(SingleAggregation[Stats]):
    """Count, total and extremes."""

    def add(self, value: int) -> None:
        """Take a value into account (in probes)."""
        _only_in_probe(self.describe(), value)

    def interval(self) -> Stats:
        """Count and total since the last call, the first time since the program was loaded; no extremes."""
        return self._interval()


class HistogramEntry(Histogram):
    """One key's histogram; in probes, where `add` counts."""

    __slots__ = ()

    def add(self, value: int) -> None:
        """Count a value (in probes)."""
        _only_in_probe("a histogram", value)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Histogram):
            return NotImplemented
        return (self.buckets, self.unit, self.kind, self.labels, self.sum) == (
            other.buckets,
            other.unit,
            other.kind,
            other.labels,
            other.sum,
        )

    __hash__ = Histogram.__hash__


class CountEntry(int):
    """One key's count; in probes, where `add` counts."""

    def add(self, n: int = 1) -> None:
        """Count `n` more (in probes)."""
        _only_in_probe("a counter", n)


class NumberEntry(int):
    """One key's number; in probes, where a value is added."""

    def add(self, value: int) -> None:
        """Add a value (in probes)."""
        _only_in_probe("a number", value)


class StatsEntry(Stats):
    """One key's statistics; in probes, where a value is added."""

    __slots__ = ()

    def add(self, value: int) -> None:
        """Take a value into account (in probes)."""
        _only_in_probe("statistics", value)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Stats):
            return NotImplemented
        return (self.count, self.total, self.minimum, self.maximum) == (
            other.count,
            other.total,
            other.minimum,
            other.maximum,
        )

    __hash__ = Stats.__hash__


class KeyedHistogram(KeyedAggregation[K, Histogram]):
    """A histogram for each key."""

    if TYPE_CHECKING:

        def __getitem__(self, key: K) -> HistogramEntry: ...

    def _read_value(self, key: K) -> HistogramEntry:
        found = super()._read_value(key)
        return HistogramEntry(found.buckets, found.unit, found.kind, found.labels, found.sum)

    def interval(self) -> dict[K, Histogram]:
        """Return the values counted since the last call, by key; the first time, since the program was loaded."""
        return self._interval()


class KeyedCounter(KeyedAggregation[K, int]):
    """A counter for each key."""

    if TYPE_CHECKING:

        def __getitem__(self, key: K) -> CountEntry: ...

    def _read_value(self, key: K) -> CountEntry:
        return CountEntry(super()._read_value(key))

    def interval(self) -> dict[K, int]:
        """Return the counts since the last call, by key; the first time, since the program was loaded."""
        return self._interval()


class KeyedTotal(KeyedAggregation[K, int]):
    """A sum for each key, an s64. A key whose sum is 0 is left out."""

    if TYPE_CHECKING:

        def __getitem__(self, key: K) -> NumberEntry: ...

    def _read_value(self, key: K) -> NumberEntry:
        return NumberEntry(super()._read_value(key))

    def interval(self) -> dict[K, int]:
        """Return the sums added since the last call, by key; the first time, since the program was loaded."""
        return self._interval()


class KeyedExtreme(KeyedAggregation[K, int]):
    """The least or greatest value for each key since the program was loaded, or `clear()`; none of an interval."""

    if TYPE_CHECKING:

        def __getitem__(self, key: K) -> NumberEntry: ...

    def _read_value(self, key: K) -> NumberEntry:
        return NumberEntry(super()._read_value(key))


class KeyedStats(KeyedAggregation[K, Stats]):
    """Count, total and extremes for each key."""

    if TYPE_CHECKING:

        def __getitem__(self, key: K) -> StatsEntry: ...

    def _read_value(self, key: K) -> StatsEntry:
        found = super()._read_value(key)
        return StatsEntry(found.count, found.total, found.minimum, found.maximum)

    def interval(self) -> dict[K, Stats]:
        """Count and total since the last call, by key; the first time, since the program was loaded; no extremes."""
        return self._interval()
