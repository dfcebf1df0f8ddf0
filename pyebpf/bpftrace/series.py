"""`tseries()`: a map of values by intervals of time, read in Python and drawn as bpftrace draws it.

An entry is a bucket of a key, which a later interval takes over: each processor keeps there the value, a word that
goes with it, and the number of its interval since 1970, in TAI.
"""

from __future__ import annotations

import time
from struct import Struct
from typing import TYPE_CHECKING, Any

from pyebpf.bpftrace.tables import Shown
from pyebpf.bpftrace.value_types import Number
from pyebpf.errors import InvalidValue
from pyebpf.maps.keyed import KeyedMap
from pyebpf.maps.snapshot import SnapshotMapping
from pyebpf.types import S64, U64, ArrayType, TupleType
from pyebpf.uapi.bpf import MapType

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from typing import TypeAlias

    from pyebpf.bpftrace.value_types import Aggregate, Names, ValueType

    #: The begin of an interval in nanoseconds since 1970, and its value, None if there is none.
    Point: TypeAlias = tuple[int, int | None]
    #: A processor's part of an entry.
    Part: TypeAlias = tuple[int, int, int]

#: What becomes of several values in one interval, by the number that the map's type has for it: the last one is kept,
#: or what this function makes of them.
FUNCTIONS = ("", "avg", "max", "min", "sum")
#: Words of an entry: the value; when it came, or how many there were; the interval.
VALUE, META, EPOCH, WORDS = 0, 8, 16, 3

_WIDTH, _COLUMN = 53, 21
#: Nanoseconds of units of time, the digits behind the second that show them, and their names.
_UNITS = ((10**9, 0, ""), (10**6, 3, ".ms"), (10**3, 6, ".μs"), (1, 9, ".ns"))
_FLOAT = Struct("f")


class SeriesTable(Shown, KeyedMap[Any, Any]):
    """A map that tseries() fills: the bucket's number is the last part of its keys."""

    value_type: Aggregate

    def __init__(self, name: str, key_type: ValueType | None, value_type: Aggregate, size: int) -> None:
        self.key_type, self.value_type = key_type, value_type
        self.step, self.count, self.function = value_type.arguments
        key = TupleType([(key_type or Number(signed=False)).storage, U64])
        super().__init__(name, MapType.PERCPU_HASH, key, ArrayType(U64, WORDS), max(size, self.count))

    def snapshot(self) -> dict[Any, list[Point]]:
        """The points of each key now, in the order of the keys' bytes: up to the last interval of any of them.

        The key of a series without keys is 0.
        """
        assert self.key is not None
        read, decode = Struct(f"<{'qQQ' if self.value_type.signed else 'QQQ'}").iter_unpack, self.key.decode
        found: dict[Any, dict[int, int]] = {}
        for raw, value in sorted(self.raw_items()):
            epoch, number = _reduced(read(value), FUNCTIONS[self.function])
            found.setdefault(decode(raw)[0], {})[epoch] = number
        last = max((max(each) for each in found.values()), default=0)
        first = last - self.count + 1
        return {key: self._points(values, first, last) for key, values in found.items()}

    def _entries(self) -> dict[Any, list[Point]]:
        return self.snapshot()

    def _now(self) -> SnapshotMapping[Any, list[Point]]:
        return SnapshotMapping.of(self.snapshot().items())

    def _keys_now(self) -> list[Any]:
        return list(self.snapshot())

    def _count_now(self) -> int:
        return len(self.snapshot())

    def _read_value(self, key: Any) -> list[Point]:
        return self.snapshot()[key]

    def __contains__(self, key: object) -> bool:
        return key in self.snapshot()

    def interval(self) -> dict[Any, Any]:
        """Raise InvalidValue: each point has its own interval."""
        raise InvalidValue(f"{self.name} is a series of intervals by itself: snapshot() has the points of each")

    def _points(self, values: Mapping[int, int], first: int, last: int) -> list[Point]:
        begin = min((epoch for epoch in values if epoch >= first), default=last)
        if first < 0:  # bpftrace's numbers are unsigned: none lies between
            return []
        return [(epoch * self.step, values.get(epoch)) for epoch in range(begin, last + 1)]

    def shown_items(self, top: int = 0, *, entries: Mapping[Any, Any] | None = None) -> list[tuple[Any, Any]]:  # noqa: ARG002 - all are shown
        return list((self._entries() if entries is None else entries).items())

    def zero(self) -> None:
        """Set all values to nothing."""
        for key, value in list(self.raw_items()):
            self.store.update_elem(key, bytes(len(value)))

    def _lines(self, name: str, value: Any, names: Names, divisor: int) -> Iterator[str]:  # noqa: ARG002 - one signature
        yield f"{name}:"
        yield from series_lines(value, signed=self.value_type.signed)


def _reduced(parts: Iterable[Part], function: str) -> tuple[int, int]:
    """The last interval of an entry, and the value that all processors' parts of it make."""
    used = [each for each in parts if each[2]]
    last = max((epoch for _, _, epoch in used), default=0)
    parts = [each for each in used if each[2] == last]
    return (last, _COMBINE[function](parts)) if last else (0, 0)


def _average(parts: Sequence[Part]) -> int:
    total, count = sum(value for value, _, _ in parts), sum(meta for _, meta, _ in parts)
    return total // count if total >= 0 else -(-total // count)


_COMBINE: dict[str, Callable[[Sequence[Part]], int]] = {
    "": lambda parts: max(parts, key=lambda part: part[1])[0],
    "avg": _average,
    "max": lambda parts: max(value for value, _, _ in parts),
    "min": lambda parts: min(value for value, _, _ in parts),
    "sum": lambda parts: sum(value for value, _, _ in parts),
}


def _single(number: float) -> float:
    """A number in C's single precision, by which bpftrace places its points."""
    found: float = _FLOAT.unpack(_FLOAT.pack(number))[0]
    return found


def _place(width: int, distance: int, whole: int) -> int:
    """The part of a width."""
    return int(_single(_single(width * _single(distance)) / _single(whole)))


def series_lines(points: Sequence[Point], *, signed: bool) -> Iterator[str]:
    """The lines of a time series: a scale, a line an interval, the scale again."""
    numbers = [value for _, value in points if value is not None]
    if not numbers:
        yield "<no data>"
        return
    least, greatest = min(numbers), max(numbers)
    if least == greatest:
        type_ = S64 if signed else U64
        least, greatest = max(least - 1, type_.minimum), min(greatest + 1, type_.maximum)
    between = (points[-1][0] - points[0][0]) // max(len(points) - 1, 1)
    unit, digits, suffix = next((each for each in _UNITS if between >= each[0]), _UNITS[-1])
    heading = f"hh:mm:ss{suffix}"
    margin = 8 + (1 + digits if digits else 0)
    scale = f"{' ' * (margin + 1)}{least:<{_COLUMN}}{greatest:>{_WIDTH - _COLUMN}}"
    yield scale
    yield f"{heading}{' ' * (margin + 1 - len(heading.encode()))}|{'_' * (_WIDTH - 2)}|"
    middle = _place(_WIDTH, least, least - greatest) if least < 0 < greatest else 0
    for begin, value in points:
        line = ["|", *" " * (_WIDTH - 2), "|"]
        if middle:
            line[middle] = "."
        if value is not None:
            place = _place(_WIDTH - 1, value - least, greatest - least)
            line[min(max(place, 0), _WIDTH - 1)] = "*"
        clock = time.strftime("%H:%M:%S", time.localtime(begin // 10**9))
        fraction = f".{begin % 10**9 // unit:0{digits}}" if digits else ""
        yield f"{clock}{fraction} {''.join(line)} {'-' if value is None else value}"
    yield f"{' ' * (margin + 1)}v{'_' * (_WIDTH - 2)}v"
    yield scale
    yield ""


def series_json(points: Sequence[Point], number: Callable[[int], str]) -> str:
    """A time series as JSON; intervals without a value are left out."""
    shown = [
        f'{{"interval_start": "{_date(begin)}", "value": {number(value)}}}'
        for begin, value in points
        if value is not None
    ]
    return f"[{','.join(shown)}]"


def _date(nanoseconds: int) -> str:
    seconds, rest = divmod(nanoseconds, 10**9)
    return f"{time.strftime('%Y-%m-%d %H:%M:%S', time.gmtime(seconds))}.{rest:09}"
