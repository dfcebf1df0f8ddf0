"""A recording that is read: its header, then its entries, up to its end or to the first damage."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING, Any, BinaryIO, Literal

from pyebpf.dataclass import dataclass
from pyebpf.errors import MalformedData
from pyebpf.output.columns import Row
from pyebpf.recording.blocks import ENTRIES, HEADER, Damage, read_blocks
from pyebpf.recording.entries import MAX_GROUP, Decoder, Interval, Stacks
from pyebpf.recording.tables import Table
from pyebpf.recording.writer import older

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyebpf.recording.entries import Dropped, End, Event, Footer, Zone

_KINDS = ("events", "summary", "stacks")
_PALETTES = ("samples", "off-cpu", "wakeups")
_FORMS = ("text", "csv", "json", "folded")
#: What a garbled entry or header may raise where its parts are taken apart.
_GARBLED = (ValueError, TypeError, KeyError, IndexError, AttributeError)


@dataclass(frozen=True, slots=True)
class Header:
    """The header of a recording.

    `kind` is the kind of tool. `events` are the columns of events, `summary` those of summaries; a summary tool without
    them has histograms. `start` is nanoseconds since 1970, `zone` seconds east of UTC. The rest is how the command
    printed. `interval` is nanoseconds from one summary to the next, 0 if there was one at the end. `part` is the number
    of the file, from 0, of the recording whose random number is `id`. `period` is nanoseconds from one sample to the
    next, 0 if nothing was sampled. A tool that `has_stacks` records them when it ends, a summary tool
    behind its summaries.
    """

    id: str
    part: int
    version: str
    tool: str
    kind: Literal["events", "summary", "stacks"]
    arguments: tuple[str, ...]
    kernel: str
    machine: str
    start: int
    zone: int
    tracing: str
    unit: str
    events: Table | None
    summary: Table | None
    form: Literal["text", "csv", "json", "folded"]
    timestamps: bool
    screen: bool
    rows: int
    delimited: bool
    annotated: bool
    interval: int = 0
    period: int = 0
    has_stacks: bool = False
    palette: Literal["samples", "off-cpu", "wakeups"] = "samples"


def _header(data: Any) -> Header:
    """The header of a file, checked. Raises one of `_GARBLED`."""
    events, summary = (None if data[name] is None else Table(data[name]) for name in ("events", "summary"))
    for table in (events, summary):
        if table is not None:
            Row(table.columns)  # two columns of one field
    texts = ("id", "version", "tool", "kernel", "machine", "tracing", "unit", "kind", "form", "palette")
    numbers = ("part", "start", "zone", "rows", "interval", "period")
    data = {"interval": 0, "period": 0, "palette": "samples", "has_stacks": data["kind"] == "stacks", **data}
    switches = ("has_stacks", "timestamps", "screen", "delimited", "annotated")
    found: dict[str, Any] = {name: data[name] for name in (*texts, *numbers, *switches)}
    wrong = [name for name in texts if not (isinstance(found[name], str) and found[name].isprintable())]
    wrong += [name for name in numbers if type(found[name]) is not int or abs(found[name]) >= 1 << 63]
    wrong += [name for name in switches if not isinstance(found[name], bool)]
    if (
        wrong
        or min(found["interval"], found["period"]) < 0
        or abs(found["zone"]) >= 86_400
        or found["kind"] not in _KINDS
        or found["form"] not in _FORMS
        or found["palette"] not in _PALETTES
    ):
        raise ValueError(wrong)
    if found["kind"] == "events" and events is None:
        raise ValueError("events without columns")
    if summary is not None and not summary.columns:
        raise ValueError("rows without columns")
    return Header(**found, events=events, summary=summary, arguments=tuple(map(str, data["arguments"])))


def _open(path: str) -> BinaryIO:
    """Open a regular file, which can be read again. Raises MalformedData for another: a FIFO would wait."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise MalformedData("this is not a regular file: a recording is read more than once; copy it to one first")
    return os.fdopen(descriptor, "rb")


def read_header(path: str) -> Header:
    """The header of a file. Raises Damage and OSError."""
    with _open(path) as file:
        for offset, kind, _, data in read_blocks(file):
            if kind == HEADER:
                try:
                    return _header(data)
                except _GARBLED as error:
                    raise Damage(offset, f"the header is garbled ({type(error).__name__}: {error})") from None
            break
    raise Damage(0, "there is no header: the file was cut short at its beginning")


class Reader:
    """Reads a recording: FILE, behind FILE.1 where that is its older half.

    `header` is that of the first file. After `entries` has ended, `damage` says what is wrong with the recording and
    where, "" if nothing is. Raises MalformedData for what is no recording, and OSError.
    """

    def __init__(self, path: str) -> None:
        try:
            self.header = read_header(path)
        except MalformedData as error:
            raise MalformedData(f"{path}: {error}") from None
        self.paths = [path]
        if self.header.part:
            self._find_older(path)
        self.damage = ""

    def _find_older(self, path: str) -> None:
        try:
            header = read_header(older(path))
        except (OSError, MalformedData):
            return
        if (header.id, header.part + 1) == (self.header.id, self.header.part):
            self.header = header
            self.paths.insert(0, older(path))

    def entries(self) -> Iterator[Event | Interval | Stacks | Dropped | Zone | Footer | End]:
        """The entries; intervals and stacks are whole."""
        self.damage = ""
        for path in self.paths:
            try:
                yield from self._of_file(path)
            except (Damage, OSError) as error:
                self.damage = f"{path}: {error}"
                return

    def _of_file(self, path: str) -> Iterator[Event | Interval | Stacks | Dropped | Zone | Footer | End]:
        decoder = Decoder(self.header.events, self.header.summary)
        owner: Interval | Stacks | None = None
        offset = missing = begun = 0
        for offset, read, entry in self._of_blocks(path):
            try:
                if owner is None:
                    begun = read
                    found = decoder.decode(entry)
                    missing = decoder.count_of(entry)
                    if missing:
                        assert isinstance(found, Interval | Stacks)
                        owner = found
                elif read - begun > MAX_GROUP:
                    raise ValueError("an interval is larger than any may be")
                else:
                    item, found = decoder.item(owner, entry), owner
                    if item is not None:
                        owner.items.append(item)
                        missing -= 1
            except _GARBLED as error:
                raise Damage(offset, f"a block is garbled ({error})") from None
            if not missing:
                yield found
                owner = None
        if missing:
            raise Damage(offset, "the file ends within an interval")

    def _of_blocks(self, path: str) -> Iterator[tuple[int, int, list[Any]]]:
        """Entries, each with the offset of its block, and the sizes of the blocks until then, decompressed."""
        read = 0
        with _open(path) as file:
            for offset, kind, size, entries in read_blocks(file):
                if kind != ENTRIES:
                    continue
                if not isinstance(entries, list) or not all(isinstance(each, list) and each for each in entries):
                    raise Damage(offset, "a block has no entries")
                for entry in entries:
                    yield offset, read, entry
                read += size
