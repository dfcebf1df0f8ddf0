"""Maps of a script: declared with the types that are found, read in Python, printed as bpftrace prints them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyebpf.aggregations.declared import KeyedAggregation
from pyebpf.bpftrace.aggregates import aggregate
from pyebpf.bpftrace.histograms import linear_lines, log2_lines
from pyebpf.bpftrace.value_types import Aggregate, Array, Number, Record, Tuple
from pyebpf.builder.values.map_pointers import MapPointer
from pyebpf.dataclass import replace
from pyebpf.errors import InvalidValue
from pyebpf.maps.keyed import KeyedMap
from pyebpf.maps.store import each_entry
from pyebpf.uapi.bpf import MapType

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from pyebpf.aggregations.aggregation_type import AggregationType, Cells
    from pyebpf.bpftrace.value_types import Names, ValueType
    from pyebpf.specs import MapSpec

#: Entries of a map at most, as bpftrace's max_map_keys.
MAX_KEYS = 4096
#: The key of a map that has none.
NO_KEY = 0


class Shown:
    """The part of a map that prints it. `key_type` is None for a map without keys."""

    name: str
    key_type: ValueType | None
    value_type: ValueType

    def _entries(self) -> dict[Any, Any]:
        raise NotImplementedError

    def _order(self) -> Callable[[tuple[Any, Any]], Any]:
        """Numbers are sorted by value, and equal ones by key; others by key."""
        if isinstance(self.value_type, Number):
            return lambda item: (item[1], item[0])
        return lambda item: item[0]

    def only(self) -> Any:
        """The value of a map without keys, None where there is none yet. Raises InvalidValue for one with keys."""
        if self.key_type is not None:
            raise InvalidValue(f"{self.name} has keys: {self.name}[key], or snapshot() for all")
        return self._entries().get(NO_KEY)

    def lines(
        self, names: Names, top: int = 0, divisor: int = 0, *, entries: Mapping[Any, Any] | None = None
    ) -> Iterator[str]:
        """The lines of `print(@map, top, divisor)`: the `top` last entries, numbers divided by `divisor`.

        `entries` are those of an interval, in place of all.
        """
        for key, value in self.shown_items(top, entries=entries):
            yield from self._lines(f"{self.name}{self._key_text(key, names)}", value, names, divisor or 1)

    def shown_items(self, top: int = 0, *, entries: Mapping[Any, Any] | None = None) -> list[tuple[Any, Any]]:
        """The entries in the order in which they are printed, or the `top` last of them: all, if that is below 1."""
        found = sorted((self._entries() if entries is None else entries).items(), key=self._order())
        return found[-top:] if top > 0 else found

    def absent(self) -> Any:
        """The value of an entry that is missing: a zero; None of histograms and series."""
        return None

    def nothing(self) -> dict[Any, Any]:
        """The entries that `print` shows of a map without any: a zero of one that has no keys, none of others."""
        value = self.absent() if self.key_type is None else None
        return {} if value is None else {NO_KEY: value}

    def entry_lines(self, key: object, names: Names) -> Iterator[str]:
        """The lines of `print(@map[key])`: a value alone, a histogram below its name."""
        value = self._entries().get(key, self.absent())
        if value is not None:
            name = f"{self.name}{self._key_text(key, names)}"
            lines = list(self._lines(name, value, names, 1))
            yield from lines if len(lines) > 1 else [lines[0].removeprefix(f"{name}: ")]

    def _key_text(self, key: object, names: Names) -> str:
        if self.key_type is None:
            return ""
        if isinstance(self.key_type, Tuple):
            return f"[{', '.join(self.key_type.texts(key, names))}]"
        return f"[{self.key_type.text(key, names)}]"

    def _lines(self, name: str, value: Any, names: Names, divisor: int) -> Iterator[str]:
        yield f"{name}: {self.value_type.text(in_parts(self.value_type, value, divisor), names)}"


def in_parts(type_: ValueType, value: Any, divisor: int) -> Any:
    """A value with its numbers divided, those of tuples, records and arrays, too."""
    if divisor == 1:
        return value
    match type_:
        case Number():
            return quotient(value, divisor)
        case Tuple(parts) | Record(_, parts):
            return tuple([in_parts(part, each, divisor) for part, each in zip(parts, value, strict=True)])
        case Array(element):
            return [in_parts(element, each, divisor) for each in value]
    return value


def quotient(value: int, divisor: int) -> int:
    """C's division, towards 0."""
    found = abs(value) // abs(divisor)
    return found if (value < 0) is (divisor < 0) else -found


class _Pointer(MapPointer):
    """The map of an aggregation."""

    def __init__(self, owner: Gathered) -> None:
        self.name, self._owner = owner.name, owner

    @property
    def spec(self) -> MapSpec:
        """The map of the values."""
        return self._owner.spec


class Table(Shown, KeyedMap[Any, Any]):
    """A map of values that are assigned: `@x[key] = value`."""

    def __init__(self, name: str, key_type: ValueType | None, value_type: ValueType, size: int, kind: MapType) -> None:
        self.key_type, self.value_type = key_type, value_type
        key = (key_type or Number(signed=False)).storage
        super().__init__(name, kind, key, value_type.storage, size)

    def _entries(self) -> dict[Any, Any]:
        return self.snapshot()

    def absent(self) -> Any:
        storage = self.value_type.storage
        return storage.decode(bytes(storage.size))

    def zero(self) -> None:
        """Set all values to nothing."""
        with self._one_reader:
            self._previous = {}
            for key, value in list(self.raw_items()):
                self.store.update_elem(key, bytes(len(value)))


class Gathered(Shown, KeyedAggregation[Any, Any]):
    """A map that count(), hist() and their like fill."""

    value_type: Aggregate

    def __init__(self, name: str, key_type: ValueType | None, value_type: Aggregate, size: int, kind: MapType) -> None:
        self.key_type, self.value_type = key_type, value_type
        self._kind = MapType.LRU_PERCPU_HASH if kind is MapType.LRU_PERCPU_HASH else MapType.PERCPU_HASH
        aggregation: AggregationType[Any] = aggregate(value_type)
        super().__init__(aggregation, (key_type or Number(signed=False)).storage, size, name)  # type: ignore[arg-type]  # a type that is its own annotation

    @property
    def spec(self) -> MapSpec:
        return replace(super().spec, type=self._kind)

    def pointer(self) -> MapPointer:
        """The map, as what calls the kernel's functions takes it."""
        return _Pointer(self)

    def _entries(self) -> dict[Any, Any]:
        """All entries, those too to which nothing but zeros was added."""
        cells = self._cells
        raw = {key: cells(value) for key, value in each_entry(self.store.lookup_batches())}
        keys = map(self._decode_key, raw)
        return {key: self.type.result(value, {}) for key, value in zip(keys, raw.values(), strict=True)}

    def _labels(self, key: object) -> dict[str, object]:
        return {} if self.key_type is None else super()._labels(key)

    def absent(self) -> Any:
        is_histogram = self.value_type.kind in ("hist", "lhist")
        return None if is_histogram else self.type.result((0,) * len(self.type.codes), {})

    def snapshot(self) -> dict[Any, Any]:
        """All items now, as a dictionary."""
        return self._entries()

    def interval(self) -> dict[Any, Any]:
        """All that was added since the call before, by key; after `clear()` or `zero()` all that was added since.

        A count that is less than before was cleared by the script.
        """
        if self.value_type.kind in ("min", "max"):
            raise InvalidValue(f"{self.name} has no {self.value_type.kind} of an interval: snapshot(), then clear()")
        return self._interval()

    def _began_again(self, now: Cells, before: Cells) -> bool:
        match self.value_type.kind:
            case "count" | "hist" | "lhist":
                return any(a < b for a, b in zip(now, before, strict=True))
            case "avg" | "stats":
                return now[0] < before[0]  # the count: the total shrinks where values are negative
        return not self.value_type.signed and now[0] < before[0]

    def zero(self) -> None:
        """Set all entries to nothing."""
        with self._one_reader:
            self._previous = {}
            for key, value in list(each_entry(self.store.lookup_batches())):
                self.store.update_elem(key, bytes(len(value)))

    def _order(self) -> Callable[[tuple[Any, Any]], Any]:
        rank: Callable[[Any], Any] = {
            "hist": lambda histogram: histogram.total,
            "lhist": lambda histogram: histogram.total,
            "avg": lambda stats: stats.average,
            "stats": lambda stats: stats.average,
        }.get(self.value_type.kind, lambda number: number)
        return lambda item: (rank(item[1]), item[0])

    def _lines(self, name: str, value: Any, names: Names, divisor: int) -> Iterator[str]:  # noqa: ARG002 - one signature
        kind, arguments = self.value_type.kind, self.value_type.arguments
        if kind in ("hist", "lhist"):
            yield f"{name}:"
            counts = [bucket.count for bucket in value.buckets]
            yield from (
                log2_lines(counts, arguments[0], divisor)
                if kind == "hist"
                else linear_lines(counts, arguments[0], arguments[2])
            )
            yield ""
        elif kind == "stats":
            average = quotient(value.average, divisor)
            yield f"{name}: {{ .count = {value.count}, .average = {average}, .total = {value.total} }}"
        else:
            yield f"{name}: {quotient(value.average if kind == 'avg' else value, divisor)}"
