"""The objects that a module declares and user space reads.

    latency[disk].add(elapsed)                       # in a probe
    for disk, histogram in latency.interval().items():   # in Python
        print(histogram)

Nothing is ever removed from their maps, so no count is lost: an interval is the difference of two readings.
"""

from __future__ import annotations

from collections.abc import ItemsView, Iterator, Mapping, ValuesView
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from pyebpf.aggregations.entity import Aggregation
from pyebpf.aggregations.statistics import Stats
from pyebpf.errors import InvalidValue, NotLoaded, OnlyInProbe
from pyebpf.output.histogram import Histogram
from pyebpf.types import StructType, TupleType, type_of

if TYPE_CHECKING:
    from typing import NoReturn

    from pyebpf.aggregations.backend import Backend, Words
    from pyebpf.aggregations.kind import Kind

__all__ = [
    "KeyedAggregation",
    "KeyedCounter",
    "KeyedExtreme",
    "KeyedHistogram",
    "KeyedStats",
    "KeyedTotal",
    "SingleAggregation",
    "SingleCounter",
    "SingleExtreme",
    "SingleHistogram",
    "SingleStats",
    "SingleTotal",
]

K = TypeVar("K")
R = TypeVar("R")


def _only_in_probe(what: str, number: int) -> NoReturn:
    raise OnlyInProbe(f"add({number!r}) of {what} is called inside a probe, on each event")


class _Bound(Aggregation[R]):
    """State for reading: the loaded map, and the words of the last interval."""

    def __init__(self, kind: Kind[R], key: Any, size: int, name: str) -> None:
        super().__init__(kind, key, size, name)
        self._backend: Backend | None = None
        self._words = kind.combiner()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.current_name()}: snapshot() reads it>"

    def bind(self, backend: Backend | None) -> None:
        """Read from this loaded map from now on (None: from none); intervals begin anew."""
        self._backend = backend

    def _loaded(self) -> Backend:
        if self._backend is None:
            raise NotLoaded(f"{self.describe()} is not loaded: read it inside `with bpf:`")
        return self._backend


class SingleAggregation(_Bound[R]):
    """One value. `snapshot()` is what was added since the program was loaded."""

    def __init__(self, kind: Kind[R], name: str = "") -> None:
        super().__init__(kind, None, 1, name)
        self._previous: Words | None = None

    def bind(self, backend: Backend | None) -> None:
        super().bind(backend)
        self._previous = None

    def _now(self) -> Words:
        value = self._loaded().lookup(0)
        assert value is not None
        return self._words(value)

    def snapshot(self) -> R:
        """Everything added so far. Raises NotLoaded outside `with`."""
        return self.kind.result(self._now(), {})

    def _interval(self) -> R:
        now, before = self._now(), self._previous
        self._previous = now
        if before is None:
            before = (0,) * len(now)
        return self.kind.result_of_difference(self.kind.difference(now, before), {})


class KeyedAggregation(_Bound[R], Mapping[K, R], Generic[K, R]):
    """A value for each key that something was added to: a mapping, read anew by each method.

    `label` names the key in what is printed; a Struct's fields name themselves.
    """

    def __init__(self, kind: Kind[R], key: type[K], size: int, name: str = "", label: str = "") -> None:
        key_type = type_of(key)
        if key_type is None:
            raise InvalidValue(
                f"{kind.name}: key={key!r} is no type: give an integer type, char[N], a Struct or a tuple of such"
            )
        super().__init__(kind, key_type, size, name)
        self.label = label
        self._decode_key = key_type.as_key().decode
        self._fields: list[str] | None = None
        if isinstance(key_type, StructType) and not isinstance(key_type, TupleType):
            self._fields = [f.name for f in key_type.fields]
        self._previous: dict[bytes, Words] = {}

    # One aggregation is not another of equal content, which may change the next moment.
    __eq__ = object.__eq__
    __hash__ = object.__hash__

    def bind(self, backend: Backend | None) -> None:
        super().bind(backend)
        self._previous = {}

    def _labels(self, key: Any) -> dict[str, object]:
        if self._fields is not None:
            return {name: getattr(key, name) for name in self._fields}
        return {self.label or "key": key}

    def _now(self) -> dict[bytes, Words]:
        """The words of every key to which something was added."""
        words = self._words
        found = {key: words(value) for key, value in self._loaded().raw_items()}
        return {key: value for key, value in found.items() if any(value)}

    def _read(self, key: K) -> R:
        value = self._loaded().lookup(key)
        words = self._words(value) if value is not None else ()
        if not any(words):
            raise KeyError(key)
        return self.kind.result(words, self._labels(key))

    def __getitem__(self, key: K) -> R:
        return self._read(key)

    def __contains__(self, key: object) -> bool:
        value = self._loaded().lookup(key)
        return value is not None and any(self._words(value))

    def __iter__(self) -> Iterator[K]:
        return iter([self._decode_key(key) for key in self._now()])

    def __len__(self) -> int:
        return len(self._now())

    def snapshot(self) -> dict[K, R]:
        """Everything added so far, by key. Raises NotLoaded outside `with`."""
        result, labels, decode = self.kind.result, self._labels, self._decode_key
        return {key: result(words, labels(key)) for raw, words in self._now().items() for key in (decode(raw),)}

    def items(self) -> ItemsView[K, R]:
        """Keys and values as they are now."""
        return self.snapshot().items()

    def values(self) -> ValuesView[R]:
        """Values as they are now."""
        return self.snapshot().values()

    def _interval(self) -> dict[K, R]:
        now, before = self._now(), self._previous
        self._previous = now
        kind, answer = self.kind, {}
        for raw, words in now.items():
            earlier = before.get(raw)
            if words == earlier:
                continue
            gained = kind.difference(words, earlier or (0,) * len(words))
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
    """The least or greatest value since the program was loaded; there is none of an interval."""

    def __init__(self, kind: Kind[int], name: str = "") -> None:
        super().__init__(kind, None, 1, name)

    def add(self, value: int) -> None:
        """Take a value into account (in probes)."""
        _only_in_probe(self.describe(), value)

    def snapshot(self) -> int | None:
        """The extreme so far, None before the first value. Raises NotLoaded outside `with`."""
        value = self._loaded().lookup(0)
        assert value is not None
        words = self._words(value)
        return self.kind.result(words, {}) if any(words) else None


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
        return (self.buckets, self.unit, self.kind, self.labels) == (
            other.buckets,
            other.unit,
            other.kind,
            other.labels,
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

    def __getitem__(self, key: K) -> HistogramEntry:
        found = self._read(key)
        return HistogramEntry(found.buckets, found.unit, found.kind, found.labels)

    def interval(self) -> dict[K, Histogram]:
        """Return the values counted since the last call, by key; the first time, since the program was loaded."""
        return self._interval()


class KeyedCounter(KeyedAggregation[K, int]):
    """A counter for each key."""

    def __getitem__(self, key: K) -> CountEntry:
        return CountEntry(self._read(key))

    def interval(self) -> dict[K, int]:
        """Return the counts since the last call, by key; the first time, since the program was loaded."""
        return self._interval()


class KeyedTotal(KeyedAggregation[K, int]):
    """A sum for each key, an s64. A key whose sum is 0 is left out."""

    def __getitem__(self, key: K) -> NumberEntry:
        return NumberEntry(self._read(key))

    def interval(self) -> dict[K, int]:
        """Return the sums added since the last call, by key; the first time, since the program was loaded."""
        return self._interval()


class KeyedExtreme(KeyedAggregation[K, int]):
    """The least or greatest value for each key since the program was loaded; there is none of an interval."""

    def __getitem__(self, key: K) -> NumberEntry:
        return NumberEntry(self._read(key))


class KeyedStats(KeyedAggregation[K, Stats]):
    """Count, total and extremes for each key."""

    def __getitem__(self, key: K) -> StatsEntry:
        found = self._read(key)
        return StatsEntry(found.count, found.total, found.minimum, found.maximum)

    def interval(self) -> dict[K, Stats]:
        """Count and total since the last call, by key; the first time, since the program was loaded; no extremes."""
        return self._interval()
