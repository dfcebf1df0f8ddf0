"""`pyebpf show FILE`: a recording, printed as the tool that wrote it would have."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Any

from pyebpf.cli.arguments import Parser
from pyebpf.cli.drops import note_dropped
from pyebpf.cli.files import check_file
from pyebpf.cli.parser import Common, add_stack_files, number, one_stack_file, positive
from pyebpf.cli.printing import Lines, Summaries, write_dropped, write_footer
from pyebpf.cli.recorded_filters import Filter, check_names
from pyebpf.cli.recorded_pictures import check_picture, recorded_picture, write_subsecond
from pyebpf.cli.report import FAILED, UsageError, note
from pyebpf.cli.stacks import check_terminal
from pyebpf.errors import InvalidValue
from pyebpf.output.columns import TIME
from pyebpf.output.escape import visible
from pyebpf.output.sink import Sink
from pyebpf.output.stack_files import Recording
from pyebpf.output.timestamps import Dates
from pyebpf.recording.entries import Dropped, End, Event, Footer, Interval, Stacks, Zone
from pyebpf.recording.filters import Condition
from pyebpf.recording.reader import Reader
from pyebpf.recording.recording import bucket_rows, columns_of, metadata, stack_row

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyebpf.cli.pictures import Picture
    from pyebpf.output.stacks import Stack
    from pyebpf.recording.reader import Header

_SECOND = 1_000_000_000  # nanoseconds
_EPILOG = """\
Without an option for the output it prints as the recorded command did. --where
may be given several times: all of them hold for what is shown. NAME is a field
of --json, == != < <= > >= compare, and ~ looks for text within text.

examples:
  pyebpf opensnoop --record opens.rec         # record, and print as usual
  pyebpf show opens.rec                       # the same text again
  pyebpf show opens.rec --where 'comm == ls'  # some of it
  pyebpf show opens.rec --json --to 60        # for programs, the first minute
"""


def parser() -> Parser:
    """Declare the options."""
    made = Parser(
        prog="pyebpf show",
        usage="pyebpf show FILE [options]",
        description="Prints what a tool wrote with --record: on any machine, without root.",
        epilog=_EPILOG,
        formatter_class=lambda prog: argparse.RawDescriptionHelpFormatter(prog, width=78),
        allow_abbrev=False,
    )
    made.add_argument("file", metavar="FILE", help="the recording; its older half, FILE.1, is found by itself")
    form = made.add_mutually_exclusive_group()
    for name, what in (("text", "text"), ("json", "one JSON object per line"), ("csv", "CSV, with a heading line")):
        form.add_argument(f"--{name}", dest="form", action="store_const", const=name, help=f"print {what}")
    form.add_argument("-f", "--folded", dest="form", action="store_const", const="folded", help="print folded stacks")
    add_stack_files(made)
    form.add_argument("--heatmap", metavar="FILE", help="write a heat map over time (SVG); - as above")
    form.add_argument("--scatter", metavar="FILE", help="write a scatter plot of the events (SVG); - as above")
    form.add_argument("--bars", metavar="FILE", help="write histograms side by side (SVG); - as above")
    form.add_argument("--parquet", metavar="FILE", help="write a Parquet file, by pyarrow; - as above")
    form.add_argument("--subsecond", metavar="FILE", help="write samples by second and offset in it (.svg, .html)")
    made.add_argument("--scale", choices=("log", "linear"), default="log", help="the scale of these (default: log)")
    form.add_argument("--info", action="store_true", help="print what the file says of itself, and how much it holds")
    add = made.add_argument
    add("--where", metavar="'NAME == VALUE'", action="append", default=[], help="only records for which this holds")
    add(
        "--from",
        dest="first",
        type=number,
        metavar="SECONDS",
        help="only what happened so long after the start, or later",
    )
    add("--to", dest="last", type=number, metavar="SECONDS", help="only what happened until so long after the start")
    add("-T", "--timestamps", action="store_const", const=True, help="print the time of day (HH:MM:SS)")
    add("-r", "--rows", type=positive, metavar="ROWS", help="rows of a screen's text at most")
    add("-d", "--delimited", action="store_const", const=True, help="a line between user and kernel frames")
    add("-a", "--annotated", action="store_const", const=True, help="mark the kernel's functions with _[k]")
    return made


def run_show(arguments: list[str]) -> int:
    """Print a recording. Raises UsageError, MalformedData and OSError."""
    given = parser().parse_args(arguments)
    try:
        conditions = tuple(map(Condition.of, given.where))
    except InvalidValue as error:
        raise UsageError("pyebpf show", f"--where: {error}") from None
    if given.first is not None and given.last is not None and given.first > given.last:
        raise UsageError("pyebpf show", f"--from {given.first:g} is later than --to {given.last:g}: nothing is between")
    reader, sink = Reader(given.file), Sink.of(sys.stdout)
    header = reader.header
    of_stacks = header.kind == "stacks" or given.form == "folded" or bool(given.stack_files)
    check_names(header, conditions, of_stacks=of_stacks)
    start = header.start
    shown = Filter(
        float("-inf") if given.first is None else start + given.first * _SECOND,
        float("inf") if given.last is None else start + given.last * _SECOND,
        conditions,
    )
    if header.part:
        note(f"{given.file} begins with part {header.part + 1} of the recording: the parts before it were not kept")
    if given.info:
        _print_info(reader, sink)
    elif given.parquet is not None:
        check_file(given.parquet, given.file)
        _write_parquet(given.parquet, reader, _Show(given.file, header, _common(header, given), sink, shown), sink)
    else:
        _Show(given.file, header, _common(header, given), sink, shown).print(reader)
    shown.tell_others()
    if reader.damage:
        note(f"pyebpf show: {visible(reader.damage)}; what stands before it was read")
        return FAILED
    return 0


def _common(header: Header, given: argparse.Namespace) -> Common:
    """The options of the output: those given, else those of the recorded command."""
    other = given.form or next(
        (name for name in ("info", "heatmap", "scatter", "bars", "subsecond", "parquet") if getattr(given, name)), None
    )
    stack_file = one_stack_file("pyebpf show", given.stack_files, other)
    form = given.form or ("text" if stack_file is not None else header.form)
    if (form == "folded" or stack_file is not None) and not header.has_stacks:
        flag = "folded" if stack_file is None else stack_file[0]
        raise UsageError("pyebpf show", f"--{flag} is for stacks, and {header.tool} recorded none")
    common = Common(
        form=form,
        timestamps=header.timestamps if given.timestamps is None else given.timestamps,
        rows=max(header.rows, 1) if given.rows is None else given.rows,
        delimited=header.delimited if given.delimited is None else given.delimited,
        annotated=header.annotated if given.annotated is None else given.annotated,
        stack_file=stack_file,
        heatmap=given.heatmap,
        scatter=given.scatter,
        bars=given.bars,
        subsecond=given.subsecond,
        scale=given.scale,
    )
    check_picture(header, common)
    if common.file is not None:
        check_file(common.file, given.file)
    if stack_file is not None:
        check_terminal(*stack_file)
    return common


class _Show:
    """Prints entries by the code that prints a tool's records."""

    def __init__(self, file: str, header: Header, common: Common, sink: Sink, shown: Filter) -> None:
        self._file = file
        self._header, self._common, self._sink, self.filter = header, common, sink, shown
        self._dates, self._time = Dates(header.zone), 0
        #: Whether stacks are shown: all that a stack tool has; a summary tool's stand at the end of its recording.
        self._of_stacks = header.kind == "stacks" or common.form == "folded" or common.stack_file is not None
        self._has_stacks = False
        self._picture = recorded_picture(header, common, self._dates, lambda: self._time)
        self._lines: Lines | Picture | None = None
        if header.kind == "events":
            self._lines = self._picture or self._new_lines()
        self._summaries: Summaries | None = None
        if header.kind == "summary" and not self._of_stacks:
            columns = () if header.summary is None else header.summary.columns
            self._summaries = Summaries(
                columns, self._dates, common, sink, screen=header.screen, new_lines=self._new_lines
            )

    def print(self, reader: Reader) -> None:
        """Print all entries that are to be shown."""
        self._sink.holds = True
        ended = False
        try:
            if self._lines is not None:
                self._lines.begin()
            for entry in reader.entries():
                ended = ended or isinstance(entry, End)
                self._print(entry)
        finally:
            self._sink.holds = False
            self._sink.flush()
        self.filter.check_labels(self._header)
        if self._picture is not None:
            self._picture.write(self._sink)
        if self._of_stacks and not self._has_stacks and not reader.damage and not self._prints_text:
            raise InvalidValue(
                f"{self._file} has no stacks: they are recorded when the tool ends, and it was killed, runs still, or "
                "had no room on its disk"
            )
        if not ended and not reader.damage:
            note("The recording has no end: the tool was killed, runs still, or had no room on its disk")

    @property
    def _prints_text(self) -> bool:
        common = self._common
        return common.form == "text" and common.stack_file is None and common.subsecond is None

    def rows(self, reader: Reader) -> Iterator[dict[str, Any]]:
        """The entries that are to be shown, as dictionaries of one level."""
        for entry in reader.entries():
            match entry:
                case Event(time, values) if self._header.kind == "events":
                    table = self._header.events
                    if table is not None and self.filter.has_time(time) and self.filter.wants(table, values):
                        yield {TIME: time, **{name: values[slot] for name, slot in table.fields.items()}}
                case Interval(time, _, items) if self.filter.has_time(time):
                    for item in self.filter.wanted_items(self._header.summary, items):
                        yield from self._rows_of(time, item)
                case Stacks(time, items) if self._header.kind == "stacks":
                    for stack in self.filter.wanted_stacks(items, self._header.start):
                        yield stack_row(time, stack)

    def _rows_of(self, time: int, item: Any) -> Iterator[dict[str, Any]]:
        table = self._header.summary
        if table is None:
            yield from bucket_rows(time, item)
        else:
            yield {TIME: time, **{name: item[slot] for name, slot in table.fields.items()}}

    def _new_lines(self) -> Lines:
        table = self._header.events
        if table is None:
            raise InvalidValue("the recording has events, and no columns for them")
        return Lines(table.columns, table.sentence, lambda _: self._time, self._dates, self._common, self._sink)

    def _print(self, entry: object) -> None:
        shown = self.filter
        match entry:
            case Zone(seconds):
                self._dates.set_zone(seconds)
            case Event(time, values):
                if shown.has_time(time) and shown.wants(self._header.events, values):
                    self._event(time, values)
            case Interval(time, heading, items):
                if shown.has_time(time) and self._summaries is not None:
                    self._interval(time, heading, shown.wanted_items(self._header.summary, items))
            case Stacks(time, items) if self._of_stacks:
                self._has_stacks = True
                self._stacks(time, shown.wanted_stacks(items, self._header.start))
            case Dropped(time, totals):
                if shown.has_time(time):
                    if self._common.form == "json":
                        write_dropped(self._sink, self._dates.iso(time), totals)
                    self._sink.flush()
                    note_dropped(totals)
            case Footer(lines):
                if shown.is_all and self._common.form == "text" and self._picture is None and not self._of_stacks:
                    write_footer(self._sink, lines)
            case End(unread=unread, reason=reason, message=message):
                if unread:
                    note(f"Events not shown, since they were too many to print at the end: {unread}")
                if reason == "error":
                    note(f"The recorded command ended with an error: {visible(message)}")

    def _event(self, time: int, values: tuple[Any, ...]) -> None:
        self._time = time
        if self._lines is not None:
            self._lines.record(values)
        elif self._summaries is not None and self._picture is None:
            self._summaries.event(values)

    def _interval(self, time: int, heading: str | None, items: list[Any]) -> None:
        self._time = time
        if self._picture is not None:
            self._picture.interval(items)
        elif self._summaries is not None:
            self._summaries.interval(items, time, heading)

    def _stacks(self, time: int, stacks: list[Stack]) -> None:
        from pyebpf.cli.stacks import output_stacks

        self._sink.flush()
        header, common = self._header, self._common
        if common.subsecond is not None:
            write_subsecond(common.subsecond, self._file, stacks, header, self._dates, self._sink)
            return
        recording = Recording(
            name=f"pyebpf {header.tool}",
            title=f"pyebpf {header.tool}: {header.tracing}",
            unit=header.unit,
            period=header.period or None,
            start=header.start,
            duration=max(time - header.start, 0),
            delimited=common.delimited,
            annotated=common.annotated,
            palette=header.palette,
        )
        output_stacks(stacks, common, self._sink, time=self._dates.iso(time), recording=recording)


def _write_parquet(path: str, reader: Reader, shown: _Show, sink: Sink) -> None:
    """Write the records that are to be shown. Raises InvalidValue without pyarrow."""
    from io import BytesIO

    from pyebpf.cli.files import write_whole
    from pyebpf.recording.frames import write_parquet

    made = BytesIO()
    try:
        count = write_parquet(lambda: shown.rows(reader), columns_of(reader.header), made, metadata(reader.header))
    except ImportError as error:
        raise InvalidValue(f"--parquet: {error}") from None
    shown.filter.check_labels(reader.header)
    write_whole(path, made.getvalue(), f"{count} rows", sink)


def _print_info(reader: Reader, sink: Sink) -> None:
    """Print what was recorded, and how much the files hold."""
    from shlex import join

    header, dates = reader.header, Dates(reader.header.zone)
    counts = {"events": 0, "intervals": 0, "stacks": 0}
    last, ended, dropped = header.start, "no: it was killed, runs still, or had no room on its disk", 0
    for entry in reader.entries():
        match entry:
            case Event(time):
                counts["events"] += 1
                last = max(last, time)
            case Interval(time):
                counts["intervals"] += 1
                last = max(last, time)
            case Stacks(time, items):
                counts["stacks"] += len(items)
                last = max(last, time)
            case Dropped(time, totals):
                dropped, last = sum(totals.values()), max(last, time)
            case End(time, reason):
                ended, last = reason, max(last, time)
    rows = {
        "command": f"pyebpf {join([header.tool, *header.arguments])}",
        "version": f"pyebpf {header.version}",
        "kernel": f"{header.kernel} {header.machine}",
        "start": dates.iso(header.start),
        "seconds": f"{(last - header.start) / _SECOND:.3f}",
        **{name: str(count) for name, count in counts.items() if count},
        "dropped": str(dropped),
        "ended": ended,
    }
    for name, value in rows.items():
        sink.line(f"{name:<10} {visible(value)}")
