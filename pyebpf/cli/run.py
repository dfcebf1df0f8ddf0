"""The flow of a tool: attach, say so, print, report what was dropped, detach."""

from __future__ import annotations

import gc
import sys
from contextlib import suppress
from time import monotonic, strftime
from typing import TYPE_CHECKING, Any

from pyebpf.cli.drops import Drops
from pyebpf.cli.parser import parse
from pyebpf.cli.report import UsageError, note
from pyebpf.cli.signals import Signals
from pyebpf.errors import CompileError, NotFound, PyebpfError
from pyebpf.output.columns import Column
from pyebpf.output.sink import Sink
from pyebpf.output.writers import TIME, histogram_writer, table_writer
from pyebpf.tool import EventTool, StackTool, Stop, SummaryTool

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from pyebpf.cli.parser import Common
    from pyebpf.output.writers import Format, Intervals
    from pyebpf.tool import Tool, Tracer

__all__ = ["run_tool"]

CLOCK = "%H:%M:%S"
SLACK = 0.001  # seconds; an interval that ends this close to the run's end is the last


def run_tool(tool: Tool[..., Any, Any], arguments: list[str]) -> int:
    """Run a tool with a command line; the exit status. Raises PyebpfError, UsageError and ReaderGone."""
    options, common = parse(tool, arguments)
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
            log = getattr(error, "log", "")
            if common.verbose and log:
                note(log.rstrip("\n"))
            if isinstance(error, CompileError) and not common.verbose:
                # What this kernel lacks matters to who runs a tool, not the line of the tool that asks for it.
                raise CompileError(error.message) from error
            raise
    return 0


def _trace(tool: Tool[..., Any, Any], options: Any, common: Common, sink: Sink, stop: Stop, signals: Signals) -> None:
    path = common.speedscope if common.svg is None else common.svg
    if path is not None:
        from pyebpf.cli.stacks import check_file

        check_file(path)
    tracer: Tracer = tool.build(options)
    try:
        tool.check_exists(tracer, options)
    except NotFound as error:
        raise UsageError(f"pyebpf {tool.name}", str(error)) from None
    tracer.progress = note
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
        note(f"Tracing {tool.tracing}... Hit Ctrl-C to end.")
        if common.duration is not None:
            stop.end_after(common.duration)
        drops = Drops(tracer, tool.drop_labels)
        if isinstance(tool, EventTool):
            _events(tool, tracer, options, common, sink, stop, drops)
        elif isinstance(tool, SummaryTool):
            _summaries(tool, tracer, options, common, sink, stop, drops)
        elif isinstance(tool, StackTool):
            from pyebpf.cli.stacks import print_stacks

            print_stacks(tool, tracer, options, common, sink, stop)
        drops.report()
        if stop.unread:
            note(f"Events not shown, since they were too many to print at the end: {stop.unread}")


def _table_form(common: Common) -> Format:
    assert common.form != "folded", "only stack tools have that option"
    return common.form


def _events(
    tool: EventTool[..., Any, Any, Any],
    tracer: Tracer,
    options: Any,
    common: Common,
    sink: Sink,
    stop: Stop,
    drops: Drops,
) -> None:
    lines = Lines(tool.columns_for(options), tool.sentence, common, sink)
    lines.begin()
    for record in tool.records(tracer, options, stop):
        lines.record(record)
        drops.report_sometimes()


class Lines:
    """Writes events as they happen: by columns, below a heading, or as sentences."""

    def __init__(
        self, columns: Sequence[Column], sentence: Callable[[Any], str] | None, common: Common, sink: Sink
    ) -> None:
        columns = list(columns)
        if common.timestamps and all(column.name != TIME for column in columns):
            columns.insert(0, Column(TIME, 8, key=lambda _: strftime(CLOCK)))
        form = _table_form(common)
        self._heading = sentence is None or form != "text"
        if sentence is not None and form == "text":
            columns = [*(column for column in columns if column.name == TIME), Column("", key=sentence)]
        self._writer = table_writer(form, columns, sink)
        self.record = self._writer.record

    def begin(self) -> None:
        """Write what stands before the first event."""
        if self._heading:
            self._writer.begin()


def _summaries(
    tool: SummaryTool[..., Any, Any, Any],
    tracer: Tracer,
    options: Any,
    common: Common,
    sink: Sink,
    stop: Stop,
    drops: Drops,
) -> None:
    columns, form, events = tool.columns_for(options), _table_form(common), tool.lines

    def summaries() -> Intervals[Any]:
        return table_writer(form, columns, sink) if columns else histogram_writer(form, sink)

    def separate() -> None:
        if form == "csv":  # where events and summaries meet, each begins a table of its own, with its heading
            sink.line("")

    writer, printed = summaries(), False

    def wait(seconds: float | None) -> None:
        nonlocal writer
        if events is None:
            stop.wait(seconds)
            return
        lines = None
        with stop.within(seconds):
            for record in events.records(tracer, options, stop):
                if lines is None:
                    if printed:
                        separate()
                    lines = Lines(events.columns, events.sentence, common, sink)
                    lines.begin()
                lines.record(record)
                drops.report_sometimes()
        if lines is not None:
            separate()
            writer = summaries()

    for done, last in _intervals(common, stop, wait):
        writer.interval(tool.counted(tracer, options), strftime(CLOCK) if common.timestamps else None)
        printed = True
        drops.report()
        if last or done == common.count:
            return


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
