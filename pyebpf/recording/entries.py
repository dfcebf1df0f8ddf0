"""The entries of a recording: JSON arrays whose first element says what they are.

    ["event", time, value…]                               an event: the values of the table `events`
    ["interval", time, heading, count]                    the end of an interval; as many of the next two kinds follow
    ["row", value…]                                       the values of the table `summary`
    ["histogram", unit, kind, sum, labels, buckets]       labels: [name, value] each; buckets: [low, high, count] each
    ["stacks", time, count]                               as many of the kind after the next follow
    ["frame", name, module]                               the next function; they are numbered from 0
    ["stack", count, comm, pid, user, kernel, parts]      frames by numbers; parts: [name, comm, pid, user, kernel] each
                                                          and, if they are known, the slots of the samples behind them
    ["dropped", time, totals]                             what was dropped so far, by reason
    ["zone", seconds]                                     times from here on are shown so far east of UTC
    ["footer", lines]                                     text below the last summary
    ["end", time, reason, message, unread]                how it ended

Times are nanoseconds since 1970, UTC.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyebpf.dataclass import dataclass, field
from pyebpf.output.histogram import Bucket, Histogram
from pyebpf.output.records import Record
from pyebpf.output.stacks import LONGEST_NAME, SLOT, Stack, StackPart, cut_name
from pyebpf.recording.values import PLAIN, decoded, encoded

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyebpf.recording.tables import Table

#: Rows, histograms, stacks of one interval; decompressed bytes that these may take; functions of its stacks.
MAX_ITEMS, MAX_GROUP, MAX_FRAMES = 1 << 18, 64 << 20, 1 << 20
#: Characters that the names of all functions of all stacks take where each stack has them written out.
MAX_WRITTEN = 1 << 29
_MAX_TIME, _MAX_COUNT, _MAX_SUM = 1 << 63, 1 << 64, 1 << 127
#: Times of one stack.
MAX_SLOTS = 1 << 22
_MAX_BUCKETS, _MAX_DEPTH, _MAX_PARTS = 1 << 16, 1 << 10, 64
_DAY = 86_400


@dataclass(frozen=True, slots=True)
class Frame(Record):
    """A function of a recorded stack: its name, and the file or kernel module that has it."""

    label: str
    module: str


@dataclass(frozen=True, slots=True)
class Event:
    """An event: its time, and a value for each of the table's."""

    time: int
    values: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Interval:
    """The end of an interval: its rows, tuples of values, or histograms, and the line above them if there was one."""

    time: int
    heading: str | None
    items: list[Any] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Stacks:
    """The stacks that a stack tool counted, and when that ended."""

    time: int
    items: list[Any] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Dropped:
    """Totals of what was dropped so far, by reason."""

    time: int
    totals: dict[str, int]


@dataclass(frozen=True, slots=True)
class Zone:
    """The zone of the times that follow, in seconds east of UTC."""

    seconds: int


@dataclass(frozen=True, slots=True)
class Footer:
    """Lines of text below the last summary."""

    lines: list[str]


@dataclass(frozen=True, slots=True)
class End:
    """The end: "signal", "time", "count", "reader" (nobody read the output any more) or "error", with its message.

    `unread` counts events that were there at the end and not read.
    """

    time: int
    reason: str
    message: str
    unread: int


def histogram_entry(histogram: Histogram) -> list[object]:
    """A histogram, with the buckets that are shown: from the first that counted to the last."""
    labels = [[name, encoded(value)] for name, value in histogram.labels.items()]
    buckets = [[each.low, each.high, each.count] for each in histogram.rows()]
    return ["histogram", histogram.unit, histogram.kind, histogram.sum, labels, buckets]


def stack_entries(stack: Stack, frames: dict[tuple[str, str], int]) -> Iterator[list[object]]:
    """A stack behind those of its functions that are new; `frames` has the number of each, and grows.

    Names that are too long for a reader are cut.
    """

    def numbers(found: Sequence[Any] | None) -> Iterator[list[object]]:
        for each in found or ():
            key = _names_of(each)
            if key not in frames:
                frames[key] = len(frames)
                yield ["frame", *key]

    def described(one: Stack | StackPart) -> list[object]:
        sides = [
            None if side is None else [frames[_names_of(each)] for each in side] for side in (one.user, one.kernel)
        ]
        return [encoded(one.comm), one.pid, *sides]

    own: tuple[Stack | StackPart, ...] = (stack, *stack.parts)
    for one in own:
        yield from numbers(one.user)
        yield from numbers(one.kernel)
    parts = [[part.name, *described(part)] for part in stack.parts]
    times = [_slots(stack.times)] if stack.times else []
    yield ["stack", stack.count, *described(stack), parts, *times]


def _names_of(frame: Any) -> tuple[str, str]:
    return cut_name(frame.label), cut_name(frame.module)


def written_length(stack: Stack) -> int:
    """Characters of the names of a stack's functions, of which `MAX_WRITTEN` is the limit for all stacks."""
    own: tuple[Stack | StackPart, ...] = (stack, *stack.parts)
    return sum(len(cut_name(frame.label)) for one in own for side in (one.user, one.kernel) for frame in side or ())


def _slots(times: Sequence[tuple[int, int]]) -> list[int]:
    """Times as the numbers of their slots, each less that before, and each with its count."""
    found, before = [], 0
    for time, count in sorted(times):
        found += [time // SLOT - before, count]
        before = time // SLOT
    return found


class Decoder:
    """Makes entries of what blocks hold. Raises ValueError for what is none; nothing of it is trusted."""

    def __init__(self, events: Table | None, rows: Table | None) -> None:
        self._events, self._rows = events, rows
        self._frames: list[Frame] = []
        self._written = 0

    def decode(self, entry: list[Any]) -> Event | Interval | Stacks | Dropped | Zone | Footer | End:
        """An entry that stands for itself, or that items follow: how many, `count_of` tells."""
        kind, *rest = entry
        match kind:
            case "event":
                return Event(_integer(rest[0], _MAX_TIME), self._values(rest[1:], self._events))
            case "interval":
                time, heading, _ = rest
                return Interval(_integer(time, _MAX_TIME), None if heading is None else _text(heading))
            case "stacks":
                time, _ = rest
                self._frames, self._written = [], 0
                return Stacks(_integer(time, _MAX_TIME))
            case "dropped":
                time, totals = rest
                counts = {reason: _integer(count, _MAX_COUNT) for reason, count in totals.items()}
                return Dropped(_integer(time, _MAX_TIME), counts)
            case "zone":
                [seconds] = rest
                return Zone(_integer(seconds, _DAY - 1, 1 - _DAY))
            case "footer":
                [lines] = rest
                return Footer([_text(line) for line in _list(lines, MAX_ITEMS)])
            case "end":
                time, reason, message, unread = rest
                return End(_integer(time, _MAX_TIME), _text(reason), _text(message), _integer(unread, _MAX_COUNT))
            case _:
                raise ValueError("an entry of no known kind")

    def count_of(self, entry: list[Any]) -> int:
        """Number of items that follow an entry, and belong to it."""
        return _integer(entry[-1], MAX_ITEMS) if entry[0] in {"interval", "stacks"} else 0

    def item(self, owner: Interval | Stacks, entry: list[Any]) -> object:
        """An item: a row's values, a histogram, a stack; None for a function."""
        kind, *rest = entry
        if isinstance(owner, Stacks):
            if kind == "frame":
                label, module = rest
                if len(self._frames) >= MAX_FRAMES:
                    raise ValueError("functions")
                if max(len(_text(label)), len(_text(module))) > LONGEST_NAME:
                    raise ValueError(f"the name of a function has more than {LONGEST_NAME} characters")
                self._frames.append(Frame(label, module))
                return None
            if kind != "stack":
                raise ValueError(kind)
            return self._stack(rest)
        if kind == "row" and self._rows is not None:
            return self._values(rest, self._rows)
        if kind == "histogram" and self._rows is None:
            return _histogram(rest)
        raise ValueError(kind)

    def _values(self, values: list[Any], table: Table | None) -> tuple[Any, ...]:
        if table is None or len(values) != table.values:
            raise ValueError("values")
        found = tuple([value if type(value) in PLAIN else decoded(value) for value in values])
        table.value_types.check(found)
        return found

    def _stack(self, rest: list[Any]) -> Stack:
        count, comm, pid, user, kernel, parts, *times = rest
        made = []
        for part in _list(parts, _MAX_PARTS):
            name, other, number, *sides = part
            made.append(StackPart(_name(name), _text(other), _pid(number), *map(self._side, _list(sides, 2, 2))))
        return Stack(
            _integer(count, _MAX_COUNT),
            _text(comm),
            _pid(pid),
            self._side(user),
            self._side(kernel),
            tuple(made),
            _times(*times) if times else (),
        )

    def _side(self, numbers: Any) -> tuple[Frame, ...] | None:
        if numbers is None:
            return None
        frames = self._frames
        found = tuple([frames[_integer(number, len(frames) - 1)] for number in _list(numbers, _MAX_DEPTH)])
        self._written += sum([len(frame.label) for frame in found])
        if self._written > MAX_WRITTEN:
            raise ValueError(f"the names of all functions of all stacks have more than {MAX_WRITTEN} characters")
        return found


def _times(slots: Any) -> tuple[tuple[int, int], ...]:
    """The times of samples, of what `_slots` made."""
    found, slot = [], 0
    numbers = _list(slots, 2 * MAX_SLOTS)
    for after, count in zip(numbers[::2], numbers[1::2], strict=True):
        slot += _integer(after, _MAX_TIME // SLOT)
        found.append((_integer(slot * SLOT, _MAX_TIME), _integer(count, _MAX_COUNT, 1)))
    return tuple(found)


def _histogram(rest: list[Any]) -> Histogram:
    unit, kind, total, labels, buckets = rest
    if kind not in {"log2", "linear", "log-linear"}:
        raise ValueError("a histogram of no known kind")
    made: list[Bucket] = []
    for low, high, count in _list(buckets, _MAX_BUCKETS):
        bucket = Bucket(_bound(low), _bound(high), _integer(count, _MAX_COUNT))
        if made and (low is None or made[-1].high is None or low <= made[-1].high):
            raise ValueError("the buckets of a histogram are not in rising order")
        if (low is None and high is None) or (None not in (low, high) and low > high):
            raise ValueError("a bucket of a histogram has no values that it may count")
        made.append(bucket)
    named = {_name(name): decoded(value) for name, value in _list(labels, _MAX_PARTS)}
    return Histogram(
        tuple(made), _text(unit), kind, named, None if total is None else _integer(total, _MAX_SUM, -_MAX_SUM)
    )


def _integer(value: Any, most: int, least: int = 0) -> int:
    if type(value) is not int or not least <= value <= most:
        raise ValueError("a number out of its bounds")
    return value


def _bound(value: Any) -> int | None:
    return None if value is None else _integer(value, _MAX_COUNT, -_MAX_TIME)


def _pid(value: Any) -> int | None:
    return None if value is None else _integer(value, 1 << 32)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError("no text")  # noqa: TRY004 - whatever is wrong with a file is one kind of error
    return value


def _name(value: Any) -> str:
    """Return text that is printed as it is."""
    if not _text(value).isprintable():
        raise ValueError("a name is not printable")
    return str(value)


def _list(value: Any, most: int, least: int = 0) -> list[Any]:
    if not isinstance(value, list) or not least <= len(value) <= most:
        raise ValueError("no list, or one of another length")
    return value
