"""The flow of a tool: attach, say so, print, report what was dropped, detach."""

from __future__ import annotations

import gc
import sys
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

from pyebpf.cli.drops import Drops
from pyebpf.cli.intervals import intervals
from pyebpf.cli.parser import parse, program
from pyebpf.cli.printing import Lines, Summaries, Unrecorded, write_dropped, write_footer
from pyebpf.cli.report import UsageError, note
from pyebpf.cli.signals import Signals, reader_of
from pyebpf.errors import CompileError, NotFound, PyebpfError, VerifierError
from pyebpf.output.sink import Sink
from pyebpf.tool import EventTool, StackTool, Stop, SummaryTool

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager

    from pyebpf.cli.parser import Common
    from pyebpf.cli.pictures import Picture
    from pyebpf.output.columns import Column
    from pyebpf.tool import AnyTool, EventLines, Tracer

#: Moves the cursor to the corner and erases the screen (ECMA-48: CUP, ED).
CLEAR = "\x1b[H\x1b[2J"


def run_tool(tool: AnyTool, arguments: list[str]) -> int:
    """Run a tool with a command line; the exit status. Raises PyebpfError, UsageError and ReaderGone."""
    options, common = parse(tool, arguments)
    command = [tool.name, *arguments]
    tool = tool.mode(options)
    sink = Sink.of(sys.stdout)
    with Stop(reader=reader_of(sys.stdout)) as stop, Signals() as signals:
        try:
            if common.dump:
                sink.line(tool.build(options).listing().rstrip("\n"))
            else:
                _trace(tool, options, common, command, sink, stop, signals)
        except PyebpfError as error:
            if common.verbose and isinstance(error, VerifierError) and error.log:
                note(error.log.rstrip("\n"))
            raise as_told(error, tool, common) from error
    return 0


def as_told(error: PyebpfError, tool: AnyTool, common: Common) -> PyebpfError:
    """An error as who runs a tool is told of it, without the place in a tool of pyebpf's own.

    There what this kernel lacks matters, not the line that asks for it; the author of another tool wants to see that.
    """
    is_shipped = getattr(tool.build, "__module__", "").startswith("pyebpf.")
    if isinstance(error, CompileError) and is_shipped and not common.verbose:
        return CompileError(error.message)
    return error


def _trace(
    tool: AnyTool,
    options: object,
    common: Common,
    command: Sequence[str],
    sink: Sink,
    stop: Stop,
    signals: Signals,
) -> None:
    if common.file is not None:
        from pyebpf.cli.files import check_file

        check_file(common.file)
    if common.stack_file is not None:
        from pyebpf.cli.stacks import check_terminal

        check_terminal(*common.stack_file)
    if common.record is not None:
        from pyebpf.cli.recorder import check_common

        check_common(common)
    with (
        attached(tool, options, common, stop, signals) as tracer,
        recorder_of(tool, options, common, command, stop) as recorder,
    ):
        note(f"Tracing {tool.tracing}... Hit Ctrl-C to end.")
        if common.duration is not None:
            stop.end_after(common.duration)
        picture = _picture(tool, options, common)
        drops = Drops(tracer, tool.drop_labels, _losses(common, sink, recorder))
        if isinstance(tool, EventTool):
            _events(tool, tracer, options, common, sink, stop, drops, recorder, picture)
        elif isinstance(tool, SummaryTool) and (common.stack_file is not None or common.form == "folded"):
            from pyebpf.cli.stacks import print_summary_stacks

            ends = intervals(common.interval, stop, stop.wait)
            print_summary_stacks(tool, tracer, options, common, sink, stop, drops, recorder, ends)
        elif isinstance(tool, SummaryTool):
            _Run(tool, tracer, options, common, sink, stop, drops, recorder, picture).run()
        elif isinstance(tool, StackTool):
            from pyebpf.cli.stacks import print_stacks

            print_stacks(tool, tracer, options, common, sink, stop, drops, recorder)
        if picture is not None:
            picture.write(sink)
        drops.report()
        if stop.unread:
            note(f"Events not shown, since they were too many to print at the end: {stop.unread}")


@contextmanager
def attached(tool: AnyTool, options: object, common: Common, stop: Stop, signals: Signals) -> Iterator[Tracer]:
    """The tracer of a tool, attached, with notes on how; signals ask for the end of `stop` inside."""
    tracer: Tracer = tool.build(options)
    try:
        tool.check_exists(tracer, options)
    except NotFound as error:
        raise UsageError(program(tool), str(error)) from None
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
        yield tracer


def recorder_of(
    tool: AnyTool, options: object, common: Common, command: Sequence[str], stop: Stop
) -> AbstractContextManager[Unrecorded]:
    """The recorder that --record asks for, or none."""
    if common.record is None:
        return nullcontext(Unrecorded())
    from pyebpf.cli.recorder import Recorder

    return Recorder(tool, options, common, command, stop)


def _picture(tool: AnyTool, options: object, common: Common) -> Picture | None:
    """The picture that the options ask for in place of lines, or none."""
    if common.file is None:
        return None
    from pyebpf.cli.pictures import picture_of

    return picture_of(tool, options, common)


def _losses(common: Common, sink: Sink, recorder: Unrecorded) -> Callable[[Mapping[str, int]], None] | None:
    """The function that takes note of losses, and writes them as an object to a program that reads JSON."""
    is_json = common.form == "json"
    if not is_json and not recorder.is_recording:
        return None

    def take(dropped: Mapping[str, int]) -> None:
        time = recorder.dropped(dropped)
        if is_json:
            write_dropped(sink, recorder.stamps.iso(time), dropped)

    return take


def _events(
    tool: EventTool[..., Any, Any, Any],
    tracer: Tracer,
    options: object,
    common: Common,
    sink: Sink,
    stop: Stop,
    drops: Drops,
    recorder: Unrecorded,
    picture: Picture | None,
) -> None:
    lines = picture or _lines(tool.columns_for(options), tool, common, sink, recorder)
    lines.begin()
    with _holding(sink, stop):
        for record in recorder.events(tool.records(tracer, options, stop), tool.time):
            lines.record(record)
            if drops.are_due():
                sink.flush()
                drops.report()


def _lines(
    columns: Sequence[Column],
    events: EventTool[..., Any, Any, Any] | EventLines[Any, Any, Any],
    common: Common,
    sink: Sink,
    recorder: Unrecorded,
) -> Lines:
    return Lines(columns, events.sentence, recorder.time_of(events.time), recorder.stamps, common, sink)


@contextmanager
def _holding(sink: Sink, stop: Stop) -> Iterator[None]:
    """Keep lines together while there are events to print; before each wait for more they are written."""
    sink.holds, stop.before_waiting = True, sink.flush
    try:
        yield
    finally:
        sink.holds, stop.before_waiting = False, None
        sink.flush()


class _Run:
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
        recorder: Unrecorded,
        picture: Picture | None,
    ) -> None:
        self._picture = picture
        self._tool, self._tracer, self._options = tool, tracer, options
        self._common, self._sink, self._stop, self._drops = common, sink, stop, drops
        self._recorder, self._is_text = recorder, common.form == "text" and picture is None
        events = tool.lines
        self._summaries = Summaries(
            tool.columns_for(options),
            recorder.stamps,
            common,
            sink,
            screen=tool.screen,
            clear=CLEAR if tool.screen and common.clear and sys.stdout.isatty() else "",
            new_lines=None if events is None else lambda: _lines(events.columns, events, common, sink, recorder),
        )

    def run(self) -> None:
        """Print summaries until the stop, or as many as were asked for; then the tool's last lines."""
        tool, recorder = self._tool, self._recorder
        for done, last in intervals(self._common.interval, self._stop, self._wait):
            self._print()
            self._drops.report()
            if last or done == self._common.count:
                break
        if tool.stacks is not None and recorder.is_recording:
            recorder.stacks(recorder.stamps.now(), list(tool.stacks(self._tracer, self._options)))
        if tool.footer is not None and (self._is_text or recorder.is_recording):
            lines = recorder.footer(tool.footer(self._tracer, self._options))
            if self._is_text:
                write_footer(self._sink, lines)

    def _print(self) -> None:
        """One summary."""
        tool, end = self._tool, self._recorder.stamps.now()
        items = tool.counted(self._tracer, self._options)
        heading = None
        if tool.heading is not None and (self._is_text or self._recorder.is_recording):
            heading = tool.heading(self._tracer, self._options)
        items = self._recorder.interval(end, heading, items)
        if self._picture is not None:
            self._picture.interval(items)
        else:
            self._summaries.interval(items, end, heading)

    def _wait(self, seconds: float | None) -> None:
        """Wait for the end of an interval, and print the events until then."""
        events = self._tool.lines
        if events is None:
            self._stop.wait(seconds)
            return
        with self._stop.within(seconds), _holding(self._sink, self._stop):
            records = events.records(self._tracer, self._options, self._stop)
            for record in self._recorder.events(records, events.time):
                if self._picture is None:
                    self._summaries.event(record)
                if self._drops.are_due():
                    self._sink.flush()
                    self._drops.report()
