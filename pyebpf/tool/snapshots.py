"""Snapshots that tools share: counts and histograms of an interval, by the names of their maps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyebpf.dataclass import dataclass
from pyebpf.errors import InvalidValue, NotFound
from pyebpf.output.histogram import Histogram
from pyebpf.output.records import as_plain

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping


@dataclass(frozen=True, slots=True)
class StackLabel:
    """A part of a key that `kstack()` or `ustack()` gave: it is shown as the functions, the innermost first.

    The processes of `ustack()` are those of the key's part `pid`.
    """

    user: bool

    def frames(self, bpf: Any, number: int, parts: Mapping[str, Any]) -> tuple[str, ...]:
        """The names of a stack's functions; `parts` are those of the key."""
        found = bpf.stacks.user(number, parts["pid"]) if self.user else bpf.stacks.kernel(number)
        return tuple(frame.label for frame in found)


KERNEL_STACK = StackLabel(user=False)
USER_STACK = StackLabel(user=True)


@dataclass(frozen=True, slots=True)
class Counted:
    """A key and its count. The key's attributes are this record's, too: `row.comm` is `row.key.comm`.

    `total` is the sum of the values, of `bpf.stats(...)`. `labels` are what is shown in place of parts of the key. Keys
    whose stacks differ in offsets alone, which are not shown, are one row; `key` is one of them.
    """

    key: object
    count: int
    labels: Mapping[str, object]
    total: int | None = None

    def __getattr__(self, name: str) -> Any:
        return self.labels[name] if name in self.labels else getattr(self.key, name)

    def as_dict(self) -> dict[str, Any]:
        """The key's fields by name, what is shown in place of some, and `count`."""
        key = as_plain(self.key)
        parts = key if isinstance(key, dict) else {"key": key}
        total = {} if self.total is None else {"total": self.total}
        return {**parts, **as_plain(self.labels), "count": self.count, **total}


@dataclass(frozen=True)
class CountsOf:
    """The `snapshot` that `counts_of` makes."""

    name: str
    by_key: bool
    labels: Mapping[str, Callable[[Any], object] | StackLabel]

    def __call__(self, bpf: Any, _options: Any) -> list[Counted]:
        """The rows of the interval."""
        labels = self.labels
        rows: dict[object, Counted] = {}
        for key, found in _called(bpf, "counts_of", self.name).interval().items():
            if isinstance(key, int | str | bytes):
                parts = dict.fromkeys(labels, key)
            else:
                parts = {part: getattr(key, part) for part in (*labels, "pid") if hasattr(key, part)}
            shown = {part: v for part, v in _shown(bpf, parts, labels) if part in labels}
            same = key if not _has_stacks(labels) else str({**_parts(key), **shown})
            before = rows.get(same)
            rows[same] = _added(Counted(key, 0, shown) if before is None else before, key, found)
        _release(bpf, labels)
        if self.by_key:
            return [rows[key] for key in sorted(rows, key=_order)]
        return sorted(rows.values(), key=lambda row: (row.total or 0, row.count, str(row.key)))

    def on_screen(self, rows: list[Counted]) -> list[Counted]:
        """The rows in the order of a screen, which has room for the first ones."""
        return rows if self.by_key else rows[::-1]


def counts_of(name: str, *, by_key: bool = False, **labels: Callable[[Any], object] | StackLabel) -> CountsOf:
    """The `snapshot` of a tool that prints the counter of a name: what the interval counted.

    The most is last, where a terminal's cursor is; on a `screen` it is first. Of `bpf.stats(...)` rows have count and
    total, and are ordered by the total. `labels` and `by_key` are as for `histograms_of`. A key that is no record has
    one label, which is made of it.
    """
    return CountsOf(name, by_key, labels)


def _added(row: Counted, key: object, found: Any) -> Counted:
    """A row with what was counted for one more key: a number, or statistics."""
    if isinstance(found, int):
        return Counted(key, row.count + found, row.labels)
    return Counted(key, row.count + found.count, row.labels, (row.total or 0) + found.total)


def histograms_of(
    name: str, *, by_key: bool = False, **labels: Callable[[Any], object] | StackLabel
) -> Callable[[Any, Any], Iterator[Histogram]]:
    """The `snapshot` of a tool that prints the histograms of a name: those of the interval, the largest total last.

    `labels` are functions that make what is printed of a part of the key: `disk=disk_name`, of a device's number;
    `KERNEL_STACK` and `USER_STACK` are for stacks. One for a part that the key does not have, as an option may decide,
    is not called; a part of which it makes None is not shown. Histograms of stacks that differ in offsets alone, which
    are not shown, are one. `by_key` orders by the parts of the key, the first one first.
    """

    def snapshot(bpf: Any, _options: Any) -> Iterator[Histogram]:
        found = _called(bpf, "histograms_of", name).interval()
        if isinstance(found, Histogram):
            yield found
            return
        ordered = sorted(found.values(), key=_by_parts if by_key else _by_total)
        if not _has_stacks(labels):
            yield from (_labelled(bpf, each, labels) for each in ordered)
            return
        merged: dict[str, Histogram] = {}
        for each in ordered:
            shown = _labelled(bpf, each, labels)
            same = str(shown.labels)
            merged[same] = merged[same].plus(shown) if same in merged else shown
        _release(bpf, labels)
        yield from sorted(merged.values(), key=_by_total)

    return snapshot


def _shown(
    bpf: object, parts: Mapping[str, Any], labels: Mapping[str, Callable[[Any], object] | StackLabel]
) -> Iterator[tuple[str, object]]:
    """The parts of a key as they are shown."""
    for part, value in parts.items():
        label = labels.get(part)
        if isinstance(label, StackLabel):
            yield part, label.frames(bpf, value, parts)
        else:
            yield part, value if label is None else label(value)


def _labelled(bpf: object, each: Histogram, labels: Mapping[str, Callable[[Any], object] | StackLabel]) -> Histogram:
    """A histogram with its labels as they are shown."""
    return each.with_labels({part: value for part, value in _shown(bpf, each.labels, labels) if value is not None})


def _called(bpf: Any, function: str, name: str) -> Any:
    """The map of a name. Raises InvalidValue for none, which is told before anything is attached."""
    try:
        return bpf[name]
    except NotFound as error:
        raise InvalidValue(f"{function}({name!r}): {error}") from None


def _by_total(each: Histogram) -> tuple[int, str]:
    return each.total, str(each.labels)


def _by_parts(each: Histogram) -> tuple[Any, ...]:
    return tuple(each.labels.values())


def _order(key: Any) -> Any:
    """A key, by whose parts rows are sorted."""
    return key if isinstance(key, int | str | tuple) else tuple(_parts(key).values())


def _parts(key: Any) -> Mapping[str, object]:
    """The parts of a key, a record or a named tuple, by name."""
    found: Mapping[str, object] = key.as_dict() if hasattr(key, "as_dict") else key._asdict()
    return found


def _has_stacks(labels: Mapping[str, object]) -> bool:
    return any(isinstance(label, StackLabel) for label in labels.values())


def _release(bpf: Any, labels: Mapping[str, object]) -> None:
    """Give the room of stacks back that an interval has shown: the next one stores them anew."""
    if _has_stacks(labels):
        bpf.stacks.release()


def load_average(_bpf: object, _options: object) -> str:
    """The `heading` of screens: load averages of 1, 5 and 15 minutes, and threads running and in all."""
    from pathlib import Path  # as in `pyebpf.stop`

    return f"loadavg: {Path('/proc/loadavg').read_text(encoding='ascii').strip()}"
