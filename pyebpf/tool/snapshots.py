"""Snapshots that tools share: counts and histograms of an interval, by the names of their maps."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyebpf.dataclass import dataclass
from pyebpf.output.histogram import Histogram

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

__all__ = ["KERNEL_STACK", "USER_STACK", "Counted", "StackLabel", "counts_of", "histograms_of", "load_average"]


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

    `labels` are what is shown in place of parts of the key.
    """

    key: Any
    count: int
    labels: Mapping[str, object]

    def __getattr__(self, name: str) -> Any:
        return self.labels[name] if name in self.labels else getattr(self.key, name)


def counts_of(name: str, **labels: Callable[[Any], object] | StackLabel) -> Callable[[Any, Any], list[Counted]]:
    """The `snapshot` of a tool that prints the counter of a name: what the interval counted, the most last.

    `labels` are as for `histograms_of`.
    """

    def snapshot(bpf: Any, _options: Any) -> list[Counted]:
        rows = []
        for key, count in bpf[name].interval().items():
            parts = {part: getattr(key, part) for part in (*labels, "pid") if hasattr(key, part)}
            rows.append(Counted(key, count, {part: v for part, v in _shown(bpf, parts, labels) if part in labels}))
        _release(bpf, labels)
        return sorted(rows, key=lambda row: (row.count, str(row.key)))

    return snapshot


def histograms_of(
    name: str, **labels: Callable[[Any], object] | StackLabel
) -> Callable[[Any, Any], Iterator[Histogram]]:
    """The `snapshot` of a tool that prints the histograms of a name: those of the interval, the largest total last.

    `labels` are functions that make what is printed of a part of the key: `disk=disk_name`, of a device's number;
    `KERNEL_STACK` and `USER_STACK` are for stacks. One for a part that the key does not have, as an option may decide,
    is not called.
    """

    def snapshot(bpf: Any, _options: Any) -> Iterator[Histogram]:
        found = bpf[name].interval()
        if isinstance(found, Histogram):
            yield found
            return
        for each in sorted(found.values(), key=lambda each: (each.total, str(each.labels))):
            yield each.with_labels(dict(_shown(bpf, each.labels, labels)))
        _release(bpf, labels)

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


def _release(bpf: Any, labels: Mapping[str, object]) -> None:
    """Give the room of stacks back that an interval has shown: the next one stores them anew."""
    if any(isinstance(label, StackLabel) for label in labels.values()):
        bpf.stacks.release()


def load_average(_bpf: object, _options: object) -> str:
    """The `heading` of screens: load averages of 1, 5 and 15 minutes, and threads running and in all."""
    return f"loadavg: {Path('/proc/loadavg').read_text(encoding='ascii').strip()}"
