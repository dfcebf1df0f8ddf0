"""`pyebpf live TOOL`: a page on loopback with what a tool sees, as it grows (docs/live.md)."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from time import monotonic_ns
from typing import TYPE_CHECKING, Any

from pyebpf.cli.catalogue import find, spelt_out
from pyebpf.cli.drops import Drops
from pyebpf.cli.intervals import intervals
from pyebpf.cli.parser import integer, parse
from pyebpf.cli.report import UsageError, describe, note
from pyebpf.cli.run import as_told, attached, recorder_of
from pyebpf.cli.signals import Signals, reader_of
from pyebpf.cli.stacks import say_why_names_are_missing
from pyebpf.dataclass import fields, replace
from pyebpf.errors import PyebpfError
from pyebpf.live.feed import Events, Intervals
from pyebpf.live.hub import Hub
from pyebpf.live.page import page, picture_page
from pyebpf.live.pictures import EventHeat, Flames, IntervalHeat
from pyebpf.live.server import Server
from pyebpf.output.escape import json_text
from pyebpf.output.sink import Sink
from pyebpf.output.timestamps import Dates, Timestamps
from pyebpf.tool import EventTool, StackTool, Stop, SummaryTool

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyebpf.cli.parser import Common
    from pyebpf.cli.printing import Unrecorded
    from pyebpf.live.requests import Request
    from pyebpf.live.server import Page
    from pyebpf.tool import AnyTool, Tracer

HELP = """\
usage: pyebpf live [--port N] TOOL [options]
       pyebpf live [--port N] FILE.py [options]

Runs a tool, and serves a page on this machine's loopback interface that shows
what the tool sees as it grows: a table, histograms, a heat map or a flame
graph. The address is printed; it has a secret word, and nobody without it sees
anything. TOOL and its options are as in `pyebpf TOOL`; an interval is a second
if none is given. A file that ends with .py is one that defines TOOL. Ctrl-C
ends the tool; pages that are open keep what they have.

options:
  --port N  the port; any that is free without it

examples:
  pyebpf live opensnoop              # open the address that it prints
  pyebpf live --port 8000 biolatency 2
  pyebpf live profile -F 99
"""
_INTERVAL, _STACK_INTERVAL = 1.0, 2.0  # seconds
_SECOND = 10**9


def parser() -> Any:
    """Declare the option, for completion."""
    from pyebpf.cli.arguments import Parser

    made = Parser(prog="pyebpf live")
    made.add_argument("--port", type=_port, metavar="N", help="the port; any that is free without it")
    return made


def _port(text: str) -> int:
    from argparse import ArgumentTypeError

    number = integer(text)
    if not 1 <= number <= 65535:
        raise ArgumentTypeError(f"{text!r} is no port: give a number from 1 to 65535")
    return number


def run_live(arguments: list[str]) -> int:
    """Run a tool with a page; the exit status. Raises PyebpfError, UsageError and OSError."""
    port, rest = _taken_port(arguments, slice(1))
    if rest[:1] in (["-h"], ["--help"]):
        Sink.of(sys.stdout).write(HELP)
        return 0
    if not rest:
        raise UsageError("pyebpf live", "name a tool")
    name = rest[0]
    if name.startswith("-"):
        raise UsageError("pyebpf live", f"unknown option {name}; options of a tool come after its name")
    if name.endswith(".bt"):
        raise UsageError("pyebpf live", f"{name}: scripts of bpftrace's language print text, and have no page")
    if name.endswith(".py"):
        from pyebpf.cli.script import run_script

        return run_script(rest, lambda tool, options: run_tool(tool, options, port))
    name, rest = spelt_out(name, rest[1:])
    return run_tool(find(name), rest, port)


def _taken_port(arguments: Sequence[str], among: slice) -> tuple[int, list[str]]:
    """The port that is given among those arguments, 0 for any, and all the others."""
    from argparse import ArgumentTypeError

    rest = list(arguments)
    place = next((i for i, each in enumerate(rest[among]) if each.partition("=")[0] == "--port"), None)
    if place is None:
        return 0, rest
    _, is_joined, text = rest.pop(place).partition("=")
    if not is_joined:
        if place >= len(rest):
            raise UsageError("pyebpf live", "argument --port: give a number")
        text = rest.pop(place)
    try:
        return _port(text), rest
    except ArgumentTypeError as error:
        raise UsageError("pyebpf live", f"argument --port: {error}") from None


def run_tool(tool: AnyTool, arguments: list[str], port: int = 0) -> int:
    """Run a tool with a command line and a page; the exit status."""
    if not port and not _has_port(tool):
        port, arguments = _taken_port(arguments, slice(None))
    options, common = parse(tool, arguments)
    prog, command = f"pyebpf live {tool.name}", [tool.name, *arguments]
    mode = tool.mode(options)
    if common.file is not None or common.form != "text" or common.dump:
        raise UsageError(prog, "leave out options for what is printed: the page saves tables and pictures")
    if common.record is not None:
        if isinstance(mode, StackTool):
            raise UsageError(prog, "--record is of stacks at the end, and the page has them by interval")
        from pyebpf.cli.recorder import check_common

        check_common(common)
    if common.interval is None and not isinstance(mode, EventTool):
        common = replace(common, interval=_STACK_INTERVAL if isinstance(mode, StackTool) else _INTERVAL)
    sink = Sink.of(sys.stdout)
    run = _Run(mode, options, common)
    with (
        Stop(reader=reader_of(sys.stdout)) as stop,
        Signals() as signals,
        Server(run.hub, run.page, port=port) as server,
        run.telling_the_end(stop),
    ):
        try:
            with (
                attached(mode, options, common, stop, signals) as tracer,
                recorder_of(mode, options, common, command, stop) as recorder,
            ):
                note(f"Tracing {mode.tracing}... Hit Ctrl-C to end.")
                sink.line(server.address)
                if common.duration is not None:
                    stop.end_after(common.duration)
                run.trace(tracer, stop, recorder)
        except PyebpfError as error:
            raise as_told(error, tool, common) from error
    return 0


def _has_port(tool: AnyTool) -> bool:
    """Whether the tool has an option of that name for itself."""
    return any("--port" in item.metadata["spec"].flags for item in fields(tool.options) if "spec" in item.metadata)


class _Run:
    """A run of a tool: what it sees goes to the hub, and into a picture if there is one of it."""

    def __init__(self, tool: AnyTool, options: Any, common: Common) -> None:
        self._tool, self._options, self._common = tool, options, common
        self._columns = tool.columns_for(options)
        self._picture = self._new_picture()
        lines = tool.lines if isinstance(tool, SummaryTool) else None
        self._event_columns = self._columns if isinstance(tool, EventTool) else None if lines is None else lines.columns
        self._intervals: Intervals | None = None
        self.hub = Hub({"tool": tool.name, "tracing": tool.tracing})
        if isinstance(tool, SummaryTool):
            self._intervals = Intervals(self.hub, self._columns)

    def _new_picture(self) -> EventHeat | IntervalHeat | Flames | None:
        tool, common = self._tool, self._common
        title = f"pyebpf {tool.name}: {tool.tracing}"
        if isinstance(tool, EventTool):
            drawn = next((column for column in self._columns if column.drawn), None)
            date = _date if common.record is None else _date_since_1970
            return None if drawn is None else EventHeat(title, date, drawn.field_name().removesuffix("_ns"))
        assert common.interval is not None, "`run_tool` sets one"
        if isinstance(tool, StackTool):
            return Flames(title, _date, tool.unit, tool.palette)
        if isinstance(tool, SummaryTool) and not self._columns:
            return IntervalHeat(title, _date, round(common.interval * _SECOND), monotonic_ns())
        return None

    def page(self, request: Request) -> Page | None:
        """The answer of the server to a request."""
        if request.name == "":
            return page()
        if request.name == "picture.svg" and self._picture is not None:
            return picture_page(self._picture.svg(request.last))
        return None

    @contextmanager
    def telling_the_end(self, stop: Stop) -> Iterator[None]:
        """Inside the tool runs; then pages are told that it has ended, and how."""
        try:
            yield
        except BaseException as error:
            words = describe(error) if isinstance(error, Exception) else type(error).__name__
            self.hub.tell("end", reason="error", message=json_text(words))
            raise
        self.hub.tell("end", reason=stop.reason or "count", message="")

    def trace(self, tracer: Tracer, stop: Stop, recorder: Unrecorded) -> None:
        """Watch until the stop."""
        tool = self._tool
        stamps = recorder.stamps
        drops = Drops(tracer, tool.drop_labels, lambda dropped: self._dropped(dropped, recorder))
        events = None
        if self._event_columns is not None:
            source: Any = tool if isinstance(tool, EventTool) else tool.lines  # type: ignore[attr-defined]  # a summary tool's
            picture = self._picture if isinstance(self._picture, EventHeat) else None
            events = Events(self.hub, self._event_columns, recorder.time_of(source.time), stamps.iso, picture)
        self.hub.tell(
            "layout",
            events=None if events is None else events.fields,
            rows=None if self._intervals is None else self._intervals.fields,
            picture="" if self._picture is None else "flames" if isinstance(self._picture, Flames) else "heat",
            interval=self._common.interval,
            screen=isinstance(tool, SummaryTool) and tool.screen,
            began=stamps.iso(stamps.now()),
        )
        if isinstance(tool, EventTool):
            assert events is not None, "columns are those of events"
            self._watch(tool.records(tracer, self._options, stop), tool.time, events, stop, recorder, drops)
        else:
            self._count(tracer, stop, recorder, drops, events)
        drops.report()

    def _count(self, tracer: Any, stop: Stop, recorder: Unrecorded, drops: Drops, events: Events | None) -> None:
        """Tell what each interval counted."""
        tool, options, common = self._tool, self._options, self._common
        if isinstance(tool, StackTool):
            tracer.stacks.hurry(stop.patience)
            tracer.stacks.prepare()
        collected: list[Any] = []

        def wait(seconds: float | None) -> None:
            if isinstance(tool, StackTool):
                with stop.within(seconds):
                    collected[:] = tool.collect(tracer, options, stop)
            elif isinstance(tool, SummaryTool) and tool.lines is not None:
                assert events is not None, "it has columns of events"
                with stop.within(seconds):
                    records = tool.lines.records(tracer, options, stop)
                    self._watch(records, tool.lines.time, events, stop, recorder, drops)
            else:
                stop.wait(seconds)

        for done, last in intervals(common.interval, stop, wait):
            end = recorder.stamps.now()
            if isinstance(tool, StackTool):
                assert isinstance(self._picture, Flames), "what stacks are shown as"
                if done == 1:
                    say_why_names_are_missing(tracer, collected)
                self._picture.add(monotonic_ns(), collected)
                self._redrawn()
            elif isinstance(tool, SummaryTool):
                heading = None if tool.heading is None else tool.heading(tracer, options)
                items = list(recorder.interval(end, heading, tool.counted(tracer, options)))
                assert self._intervals is not None, "what summaries are shown as"
                self._intervals.add(recorder.stamps.iso(end), heading, items)
                if isinstance(self._picture, IntervalHeat):
                    self._picture.add(monotonic_ns(), items)
                    self._redrawn()
            drops.report()
            if last or done == common.count:
                break
        if isinstance(tool, SummaryTool) and tool.footer is not None:
            self.hub.tell("footer", lines=[json_text(line) for line in recorder.footer(tool.footer(tracer, options))])

    def _watch(
        self,
        records: Iterator[Any],
        time: str,
        events: Events,
        stop: Stop,
        recorder: Unrecorded,
        drops: Drops,
    ) -> None:
        """Tell of events until the stop."""
        recording = stop.while_waiting
        stop.while_waiting = events.tick if recording is None else lambda: min(events.tick(), recording())
        try:
            for record in recorder.events(records, time):
                events.add(record)
                if drops.are_due():
                    drops.report()
        finally:
            stop.while_waiting = recording
            events.flush()

    def _redrawn(self) -> None:
        assert self._picture is not None, "it was changed"
        self.hub.tell("picture", version=self._picture.version)

    def _dropped(self, totals: Any, recorder: Unrecorded) -> None:
        recorder.dropped(totals)
        self.hub.tell("dropped", totals={json_text(reason): count for reason, count in totals.items()})


def _date(time: int) -> str:
    """The date of a time of the monotonic clock, to the second."""
    return Timestamps().iso(time)[:19].replace("T", " ")


def _date_since_1970(time: int) -> str:
    """The date of a time as recordings have them."""
    return Dates().iso(time)[:19].replace("T", " ")
