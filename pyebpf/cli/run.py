"""The flow of a tool: attach, say so, print, report what was dropped, detach."""

from __future__ import annotations

import gc
import sys
from contextlib import contextmanager, suppress
from itertools import islice
from operator import attrgetter
from time import monotonic, monotonic_ns
from typing import TYPE_CHECKING, Any

from pyebpf.cli.drops import Drops
from pyebpf.cli.parser import parse
from pyebpf.cli.report import UsageError, note
from pyebpf.cli.signals import Signals
from pyebpf.errors import CompileError, NotFound, PyebpfError, VerifierError
from pyebpf.output.columns import TIME, Column, plain
from pyebpf.output.sink import Sink
from pyebpf.output.timestamps import Timestamps
from pyebpf.output.writers import histogram_writer, json_line, table_writer
from pyebpf.tool import EventTool, StackTool, Stop, SummaryTool

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from pyebpf.cli.parser import Common
    from pyebpf.output.writers import Format, Intervals
    from pyebpf.tool import AnyTool, EventLines, Tracer

#: Moves the cursor to the corner and erases the screen (ECMA-48: CUP, ED).
CLEAR = "\x1b[H\x1b[2J"
SLACK = 0.001  # seconds; an interval that ends this close to the run's end is the last


def run_tool(tool: AnyTool, arguments: list[str]) -> int:
    """Run a tool with a command line; the exit status. Raises PyebpfError, UsageError and ReaderGone."""
    options, common = parse(tool, arguments)
    tool = tool.mode(options)
    sink = Sink.of(sys.stdout)
    reader = None
    with suppress(OSError):  # a stream without a descriptor has no reader that could go away
        reader = sys.stdout.fileno()
    with Stop(reader=reader) as stop, Signals() as signals:
        try:
            if common.dump:
                sink.line(tool.build(options).listing().rstrip("\n"))
            else:
                _trace(tool, options, common, sink, stop, signals)
        except PyebpfError as error:
            if common.verbose and isinstance(error, VerifierError) and error.log:
                note(error.log.rstrip("\n"))
            if isinstance(error, CompileError) and not common.verbose:
                # What this kernel lacks matters to who runs a tool, not the line of the tool that asks for it.
                raise CompileError(error.message) from error
            raise
    return 0


def _trace(tool: AnyTool, options: object, common: Common, sink: Sink, stop: Stop, signals: Signals) -> None:
    if common.stack_file is not None:
        from pyebpf.cli.stacks import check_file

        check_file(*common.stack_file)
    tracer: Tracer = tool.build(options)
    try:
        tool.check_exists(tracer, options)
    except NotFound as error:
        raise UsageError(f"pyebpf {tool.name}", str(error)) from None
    tracer.progress = note
    if common.buffer is not None:
        tracer.resize_buffers(common.buffer)
    if isinstance(tool, SummaryTool):
        tool.try_before_attaching(tracer, options)
    with tracer, signals.obey(stop):
        # What is there now stays: no collection needs to look at it, least of all the one at the interpreter's exit.
        gc.freeze()
        gc.enable()
        if common.verbose:
            for line in tracer.attachments:
                note(line)
            for choice in tracer.choices:
                for name, reason in choice.rejected:
                    note(f"{choice.probe}: {choice.candidate}, not {name}: {reason}")
        for line in tracer.warnings:
            note(line)
        tool.forget(tracer, options)
        note(f"Tracing {tool.tracing}... Hit Ctrl-C to end.")
        if common.duration is not None:
            stop.end_after(common.duration)
        drops = Drops(tracer, tool.drop_labels, _losses(sink) if common.form == "json" else None)
        if isinstance(tool, EventTool):
            _events(tool, tracer, options, common, sink, stop, drops)
        elif isinstance(tool, SummaryTool) and (common.stack_file is not None or common.form == "folded"):
            from pyebpf.cli.stacks import print_summary_stacks

            intervals = _intervals(common, stop, stop.wait)
            print_summary_stacks(tool, tracer, options, common, sink, stop, intervals)
        elif isinstance(tool, SummaryTool):
            _Summaries(tool, tracer, options, common, sink, stop, drops).run()
        elif isinstance(tool, StackTool):
            from pyebpf.cli.stacks import print_stacks

            print_stacks(tool, tracer, options, common, sink, stop)
        drops.report()
        if stop.unread:
            note(f"Events not shown, since they were too many to print at the end: {stop.unread}")


def _losses(sink: Sink) -> Callable[[Mapping[str, int]], None]:
    """The function that writes losses as an object of their own: the time, and `dropped`, totals by reason."""
    stamps = Timestamps()

    def write(dropped: Mapping[str, int]) -> None:
        sink.write(json_line({TIME: stamps.iso(stamps.now()), "dropped": plain(dropped)}))

    return write


def _table_form(common: Common) -> Format:
    assert common.form != "folded", "only stack tools have that option"
    return common.form


def _events(
    tool: EventTool[..., Any, Any, Any],
    tracer: Tracer,
    options: object,
    common: Common,
    sink: Sink,
    stop: Stop,
    drops: Drops,
) -> None:
    lines = Lines(tool.columns_for(options), tool, common, sink)
    lines.begin()
    with _holding(sink, stop):
        for record in tool.records(tracer, options, stop):
            lines.record(record)
            if drops.are_due():
                sink.flush()
                drops.report()


@contextmanager
def _holding(sink: Sink, stop: Stop) -> Iterator[None]:
    """Keep lines together while there are events to print; before each wait for more they are written."""
    sink.holds, stop.before_waiting = True, sink.flush
    try:
        yield
    finally:
        sink.holds, stop.before_waiting = False, None
        sink.flush()


def _time_of(attribute: str) -> Callable[[object], int]:
    """The function that gives a record's time, nanoseconds of the monotonic clock; without an attribute it is now."""
    return attrgetter(attribute) if attribute else lambda _: monotonic_ns()


class Lines:
    """Writes events as they happen: by columns, below a heading, or as sentences."""

    def __init__(
        self,
        columns: Sequence[Column],
        events: EventTool[..., Any, Any, Any] | EventLines[Any, Any, Any],
        common: Common,
        sink: Sink,
    ) -> None:
        form, sentence, time, stamps = _table_form(common), events.sentence, _time_of(events.time), Timestamps()
        self._heading = sentence is None or form != "text"
        if form != "text":
            self._writer = table_writer(form, columns, sink)
            write = self._writer.record
            self.record: Callable[[object], None] = lambda record: write(record, stamps.iso(time(record)))
            return
        clock = Column("TIME", 8, key=lambda record: stamps.clock(time(record)))
        shown = [clock if column.field_name() == TIME else column for column in columns]
        if common.timestamps and clock not in shown:
            shown.insert(0, clock)
        if sentence is not None:
            shown = [*(column for column in shown if column is clock), Column("", key=sentence, field="text")]
        self._writer = table_writer(form, shown, sink)
        self.record = self._writer.record

    def begin(self) -> None:
        """Write what stands before the first event."""
        if self._heading:
            self._writer.begin()


class _Summaries:
    """A run of a summary tool: a summary at the end of each interval, and lines of events between, if it has any."""

    def __init__(
        self,
        tool: SummaryTool[..., Any, Any, Any],
        tracer: Tracer,
        options: object,
        common: Common,
        sink: Sink,
        stop: Stop,
        drops: Drops,
    ) -> None:
        self._tool, self._tracer, self._options = tool, tracer, options
        self._common, self._sink, self._stop, self._drops = common, sink, stop, drops
        self._columns, self._form, self._stamps = tool.columns_for(options), _table_form(common), Timestamps()
        self._clear = CLEAR if tool.screen and common.clear and sys.stdout.isatty() else ""
        self._writer, self._printed = self._new_writer(), False

    def run(self) -> None:
        """Print summaries until the stop, or as many as were asked for; then the tool's last lines."""
        for done, last in _intervals(self._common, self._stop, self._wait):
            self._print()
            self._drops.report()
            if last or done == self._common.count:
                break
        if self._form == "text" and self._tool.footer is not None:
            for line in self._tool.footer(self._tracer, self._options):
                self._sink.line(line)

    def _new_writer(self) -> Intervals[Any]:
        form, sink = self._form, self._sink
        return table_writer(form, self._columns, sink) if self._columns else histogram_writer(form, sink)

    def _print(self) -> None:
        """One summary."""
        tool, end = self._tool, self._stamps.now()
        items = tool.counted(self._tracer, self._options)
        if self._form != "text":
            self._writer.interval(items, self._stamps.iso(end))
        else:
            heading = [self._stamps.clock(end)] if self._common.timestamps or tool.screen else []
            if tool.heading is not None:
                heading.append(tool.heading(self._tracer, self._options))
            if tool.screen:
                self._sink.write(self._clear)
                items = islice(items, self._common.rows)
            self._writer.interval(items, " ".join(heading) if heading else None)
        self._printed = True

    def _wait(self, seconds: float | None) -> None:
        """Wait for the end of an interval, and print the events until then."""
        events = self._tool.lines
        if events is None:
            self._stop.wait(seconds)
            return
        lines = None
        with self._stop.within(seconds), _holding(self._sink, self._stop):
            for record in events.records(self._tracer, self._options, self._stop):
                if lines is None:
                    if self._printed:
                        self._separate()
                    lines = Lines(events.columns, events, self._common, self._sink)
                    lines.begin()
                lines.record(record)
                if self._drops.are_due():
                    self._sink.flush()
                    self._drops.report()
        if lines is not None:
            self._separate()
            self._writer = self._new_writer()

    def _separate(self) -> None:
        """End a table: of CSV, events and summaries each begin one of their own where they meet, with its heading."""
        if self._form == "csv":
            self._sink.line("")


def _intervals(common: Common, stop: Stop, wait: Callable[[float | None], object]) -> Iterator[tuple[int, bool]]:
    """Wait for the end of each interval, then yield its number from 1 and whether it is the last.

    Ends are multiples of the interval from the start, however long printing takes; those it missed are left out.
    """
    start, number, tick = monotonic(), 0, 0
    while True:
        if common.interval is None:
            wait(None)
        else:
            tick = max(tick + 1, int((monotonic() - start) / common.interval))
            wait(start + tick * common.interval - monotonic())
        number += 1
        remaining = stop.remaining()
        yield number, remaining is not None and remaining <= SLACK
