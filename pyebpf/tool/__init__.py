"""The parts of a tool: its options, its program, its columns. Each file of `programs/` declares one; so can any module.

An event tool, with `dataclass` and all the others from here:

    @dataclass(frozen=True)
    class Options:
        pid: int | None = pid_option()
        failed: bool = flag("-x", "--failed", help="only failed opens")

    def build(options: Options) -> BPF: ...
    def opens(bpf: BPF, options: Options, stop: Stop) -> Iterator[Open]: ...

    TOOL = EventTool(name="opensnoop", doc=__doc__, tracing="open(2)", options=Options, build=build, records=opens,
                     columns=(Column("PID", 7), ...), examples=(Example("opensnoop -x", "..."),))
    open = TOOL.open

A summary tool has `snapshot` in place of `records`: a function that returns what an interval counted, as records for
`columns`, or as `Histogram` objects when there are none; it is called once before anything is attached, so that a tool
whose columns don't fit is refused at its start. It may have `lines`, too: what is printed between summaries,
an `EventLines`, since it does not wait for an interval's end. As libraries, with typed results and no signal handlers:

    with opensnoop.open(pid=42) as opens:               # attached; leaving detaches
        for event in opens: ...
        if opens.dropped: ...                           # exact counts, by reason

    with biolatency.open(by_disk=True) as snapshot:
        time.sleep(1)
        for histogram in snapshot(): ...
        for event in snapshot.events(): ...             # of a tool with `lines`

A stack tool has `collect`: it watches until it is told to stop, then returns `Stack` objects, printed as text,
folded lines, a flame graph or a file for another profiler:

    with profile.open(pid=42) as collect:
        for stack in collect(5.0): ...                  # five seconds
"""

from __future__ import annotations

from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar, overload

from pyebpf.dataclass import dataclass, field, fields
from pyebpf.errors import InvalidValue
from pyebpf.output.columns import Column
from pyebpf.output.histogram import Bucket, Histogram
from pyebpf.output.records import Record
from pyebpf.output.stacks import SLOT, Stack, StackPart
from pyebpf.stop import Stop, events, events_of, monotonic_time
from pyebpf.tool.columns import elapsed_column, ends_columns, lifespan_column, result_column
from pyebpf.tool.modes import OF_ITS_RECORD, EventLines, EventMode, SummaryMode, read_as_declared
from pyebpf.tool.options import (
    ByDeviceOptions,
    CallOptions,
    ConnectionOptions,
    DeviceOptions,
    LatencyOptions,
    NoOptions,
    SocketOptions,
    TaskLatencyOptions,
    TaskOptions,
    VersionOptions,
    argument,
    buffer_size,
    cgroup_option,
    check_value,
    comm_option,
    failures_option,
    flag,
    interface_option,
    milliseconds_option,
    netns_option,
    option,
    pid_option,
    ports_option,
    tid_option,
    time_unit,
    uid_option,
)
from pyebpf.tool.readers import Events, Reader, Snapshot, Stacks
from pyebpf.tool.shape import check_annotation, checked
from pyebpf.tool.signature import check_names, described_open, has_field
from pyebpf.tool.snapshots import KERNEL_STACK, USER_STACK, Counted, CountsOf, counts_of, histograms_of, load_average
from pyebpf.tool.tracer import Tracer, call_before_attaching

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager
    from typing import TypeAlias

    from pyebpf.output.flamegraph import Palette
    from pyebpf.tool.json_objects import JsonObjects
    from pyebpf.tool.modes import Mode
    from pyebpf.tool.options import Kind

    #: A tool whatever its options and records are.
    AnyTool: TypeAlias = "Tool[..., Any, Any]"

__all__ = [
    "KERNEL_STACK",
    "SLOT",
    "USER_STACK",
    "Bucket",
    "ByDeviceOptions",
    "CallOptions",
    "Column",
    "ConnectionOptions",
    "Counted",
    "DeviceOptions",
    "EventLines",
    "EventMode",
    "EventTool",
    "Events",
    "Example",
    "Histogram",
    "LatencyOptions",
    "NoOptions",
    "Reader",
    "Record",
    "Snapshot",
    "SocketOptions",
    "Stack",
    "StackPart",
    "StackTool",
    "Stacks",
    "Stop",
    "SummaryMode",
    "SummaryTool",
    "TaskLatencyOptions",
    "TaskOptions",
    "Tool",
    "Tracer",
    "VersionOptions",
    "argument",
    "buffer_size",
    "cgroup_option",
    "comm_option",
    "counts_of",
    "dataclass",
    "elapsed_column",
    "ends_columns",
    "events",
    "events_of",
    "failures_option",
    "flag",
    "histograms_of",
    "interface_option",
    "lifespan_column",
    "load_average",
    "milliseconds_option",
    "monotonic_time",
    "netns_option",
    "option",
    "pid_option",
    "ports_option",
    "result_column",
    "tid_option",
    "time_unit",
    "uid_option",
]


Built = TypeVar("Built", bound=Tracer)
Options = TypeVar("Options")
P = ParamSpec("P")
Yielded = TypeVar("Yielded")


@dataclass(frozen=True, slots=True)
class Example:
    """A command, without the word `pyebpf`, and what it does.

    `target` is the kind of target that its arguments name, such as "tracepoints", if the tool takes several kinds:
    `pyebpf doctor TOOL` asks whether it runs with the first example of each.
    """

    command: str
    meaning: str
    target: str = ""


@dataclass(frozen=True, kw_only=True)
class Tool(Generic[P, Options, Built]):
    """The base of every tool.

    `name` is one word; `doc` the module's docstring, whose first line is the one-line description; `tracing` completes
    "Tracing …" in the line that says that the probes are attached; `options` a frozen dataclass whose fields are
    `option(...)`, `flag(...)` or `argument(...)`; `build` makes the tracer without touching the kernel; `columns` are
    those of its records, none for histograms; `record` is the records' class, which tells the types of what the
    columns print (`pyebpf schema`); `section` is the book's, where there is one. `drop_labels`
    names the entries of each map, for the line that says what was dropped: the maps' own names mean nothing to a user.
    `modes` take this tool's place where an option is given, by the option's field: counts in place of lines, say. A
    `SummaryMode` or an `EventMode` has the rest from this tool, a tool has the same options. `reset` drops what the
    maps hold when all is attached: of what began meanwhile, some probes have seen a part.
    """

    name: str
    doc: str | None
    section: str = ""
    tracing: str
    options: Callable[P, Options]
    build: Callable[[Options], Built]
    columns: Sequence[Column] | Callable[[Options], Sequence[Column]] = ()
    record: type | None = None
    examples: tuple[Example, ...] = ()
    drop_labels: Mapping[str, str] = field(default_factory=dict)
    modes: Mapping[str, Any] = field(default_factory=dict)
    reset: Callable[[Built], object] | None = None

    def __post_init__(self) -> None:
        if hasattr(self.options, "__dataclass_fields__"):
            raise InvalidValue(
                f"tool {self.name}: declare its options by `from pyebpf.tool import dataclass`: the standard library's "
                "does not know option(...)"
            )
        printed = () if callable(self.columns) else [each.printed for each in self.columns]
        check_names(self.name, self.options, {"modes": self.modes, "a column's printed": printed})
        object.__setattr__(self, "modes", {name: self._mode_tool(mode) for name, mode in self.modes.items()})
        method = getattr(self, "open", None)
        if method is not None:
            object.__setattr__(self, "open", described_open(self, method))

    def _mode_tool(self, mode: Mode | AnyTool) -> AnyTool:
        """A mode as the tool that it is: its own parts, and the rest from this one."""
        if isinstance(mode, Tool):
            return mode
        kind: Any = SummaryTool if isinstance(mode, SummaryMode) else EventTool
        shared = {name: getattr(self, name) for name in ("name", "doc", "tracing", "options", "build", "drop_labels")}
        made: AnyTool = kind(**shared, **{item.name: getattr(mode, item.name) for item in fields(mode)})
        return made

    @property
    def summary(self) -> str:
        """The one-line description."""
        return (self.doc or "").strip().partition("\n")[0].rstrip(".")

    def columns_for(self, options: Options) -> Sequence[Column]:
        """The columns with these options."""
        columns = self.columns(options) if callable(self.columns) else self.columns
        return [column.with_options(options) for column in columns]

    def mode(self, options: Options) -> AnyTool:
        """The tool that runs with these options: this one, or the mode that one of them asks for."""
        found: AnyTool = next((tool for name, tool in self.modes.items() if getattr(options, name)), self)
        return found

    def check(self, options: Options, *, command: bool = False) -> None:
        """Raise InvalidValue for an option out of its bounds and for two modes, by flags if given to a `command`."""
        asked = []
        for item in fields(options):
            spec = item.metadata.get("spec")
            value, name = getattr(options, item.name), item.name
            if spec is not None:
                check_value(name, str(item.type), value)
                name = spec.flags[-1] if command and spec.flags else name
                spec.check(name, value)
            if item.name in self.modes and value:
                asked.append(name)
        if len(asked) > 1:
            raise InvalidValue(f"{' and '.join(asked)}: each of them takes the tool's place: give one")

    def prepare(self, *args: P.args, **kwargs: P.kwargs) -> tuple[Options, Built]:
        """The options given as arguments, and the tracer for them, checked. Raises InvalidValue and NotFound."""
        options = self.options(*args, **kwargs)
        self.check(options)
        tracer = self.build(options)
        self.check_exists(tracer, options)
        return options, tracer

    @property
    def prints_events(self) -> bool:
        """Whether it prints events, itself or in one of its modes, which wait for that in a buffer."""
        tools = [self, *self.modes.values()]
        return any(isinstance(each, EventTool) or getattr(each, "lines", None) is not None for each in tools)

    def reader(self, tracer: Built, options: Options) -> Reader:
        """The object that `open` gives, of an attached tracer."""
        raise NotImplementedError

    def json_objects(self, options: Options, time: str = "") -> JsonObjects:
        """Makes of records, whose attribute `time` has their time, what `--json` prints with these options."""
        from pyebpf.tool.json_objects import JsonObjects

        lines: EventLines[Built, Options, Any] | None = getattr(self, "lines", None)
        if lines is None:
            return JsonObjects(self.columns_for(options), time)
        return JsonObjects(self.columns_for(options), time, lines.record, JsonObjects(lines.columns, lines.time))

    def try_before_attaching(self, tracer: Built, options: Options) -> None:
        """Let the tracer try what it can as long as nothing is attached; entering it may then raise."""

    @contextmanager
    def attached(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Iterator[Any]:
        """The `reader` of this tool, or of the mode that the options given as arguments ask for, while attached.

        `buffer`, the size of the buffer for events in bytes, is no option, unless the tool has one of that name.
        """
        buffer = None
        if "buffer" in kwargs and not has_field(self.options, "buffer"):
            kwargs = dict(kwargs)
            buffer = kwargs.pop("buffer")
        tool = self.mode(self.options(*args, **kwargs))
        options, tracer = tool.prepare(*args, **kwargs)
        if buffer is not None:
            if not self.prints_events:
                raise InvalidValue(f"tool {self.name} prints no events: it has no buffer= for them")
            tracer.resize_buffers(buffer_size("buffer", buffer))
        tool.try_before_attaching(tracer, options)
        with tracer:
            tool.forget(tracer, options)
            reader = tool.reader(tracer, options)
            try:
                yield reader
            finally:
                reader.close()

    def forget(self, tracer: Built, options: Options) -> None:  # noqa: ARG002 - for tools that need them
        """Drop what was seen so far: while probes are attached one by one, and by those that attach them."""
        if self.reset is not None:
            self.reset(tracer)

    def check_exists(self, tracer: Built, options: Options) -> None:
        """Raise NotFound for an option that names what this machine does not have: it would wait for ever."""
        named: list[tuple[str, Kind, Any]] = []
        for item in fields(options):
            spec, value = item.metadata.get("spec"), getattr(options, item.name)
            if spec is not None and spec.names and value is not None:
                numbers = value if isinstance(value, tuple | list) else (value,)
                named += [(spec.flags[-1], spec.names, number) for number in numbers]
        if named:
            tracer.check_exists(named)


def _read_away(records: Callable[[Stop], Iterable[object]]) -> None:
    """Read what is there, and nothing that comes later."""
    with Stop() as stop, stop.within(0):
        for _ in records(stop):
            pass


@dataclass(frozen=True, kw_only=True)
class EventTool(Tool[P, Options, Built], Generic[P, Options, Built, Yielded]):
    """A tool that prints a line an event: `records` yields them, typed, from the attached tracer, until the stop.

    Without `records` they are those of the ring buffer of the class `record`, `events_of(record)`. `time` is the
    attribute of a record that has the event's time, nanoseconds of time.monotonic_ns() (`monotonic_time` makes it of
    what a probe's now() gave), by default the last one that `events_of` was given; without it the time is
    that of reading. A column TIME shows it, and CSV and JSON have it in any case. With `sentence` the text of a line is
    what it returns, below no heading and behind the column TIME if there is one; CSV and JSON have the columns.
    """

    record: type[Yielded] | None = None
    records: Callable[[Built, Options, Stop], Iterator[Yielded]] = OF_ITS_RECORD
    time: str = ""
    sentence: Callable[[Yielded], str] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        read_as_declared(self)

    def forget(self, tracer: Built, options: Options) -> None:
        super().forget(tracer, options)
        _read_away(lambda stop: self.records(tracer, options, stop))

    def reader(self, tracer: Built, options: Options) -> Events[Yielded]:
        return Events(
            self.name,
            lambda stop: self.records(tracer, options, stop),
            lambda: tracer.dropped,
            self.drop_labels,
            lambda: self.json_objects(options, self.time),
        )

    @overload
    def open(self, *args: P.args, **kwargs: P.kwargs) -> AbstractContextManager[Events[Yielded]]: ...
    @overload
    def open(self, *args: object, buffer: int | None, **kwargs: object) -> AbstractContextManager[Events[Yielded]]: ...
    def open(self, *args: object, **kwargs: object) -> AbstractContextManager[Events[Yielded]]:
        """Attach with the options given as arguments; the events end when the context is left.

        With an option that asks for another mode it gives what that mode's `open` does.
        """
        return self.attached(args, kwargs)


@dataclass(frozen=True, kw_only=True)
class SummaryTool(Tool[P, Options, Built], Generic[P, Options, Built, Yielded]):
    """A tool that prints what each interval counted: `snapshot` returns it, and begins the next interval.

    A `screen` is redrawn each interval, every second by default, on a terminal; elsewhere it is one block after the
    other. `heading` gives the line above a summary, None for none, `footer` lines below the last one; both
    are of text alone. `stacks` gives what the tool has found by stack, in `unit`: for folded lines, a flame graph or a
    file for another profiler, in place of summaries, at the end. A recording has them behind all summaries: they are
    those of the whole run, also where `snapshot` was called before.
    """

    snapshot: Callable[[Built, Options], Iterable[Yielded]]
    lines: EventLines[Built, Options, Any] | None = None
    screen: bool = False
    heading: Callable[[Built, Options], str | None] | None = None
    footer: Callable[[Built, Options], Iterable[str]] | None = None
    stacks: Callable[[Built, Options], Iterable[Stack]] | None = None
    unit: str = "samples"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not callable(self.columns):
            check_annotation(self.name, self.snapshot, columns=bool(self.columns))

    def counted(self, tracer: Built, options: Options) -> Iterable[Yielded]:
        """The counts of the interval. Raises InvalidValue for what can't be printed as the tool is declared."""
        found: Any = self.snapshot(tracer, options)
        if self.screen and isinstance(self.snapshot, CountsOf):
            found = self.snapshot.on_screen(found)
        return checked(self.name, found, columns=bool(self.columns_for(options)))

    def forget(self, tracer: Built, options: Options) -> None:
        super().forget(tracer, options)
        with suppress(Exception):  # as in `try_before_attaching`: it is told at the first summary
            list(self.counted(tracer, options))
        lines = self.lines
        if lines is not None:
            _read_away(lambda stop: lines.records(tracer, options, stop))

    def try_before_attaching(self, tracer: Built, options: Options) -> None:
        """Let the tracer find out what the snapshot gives as long as nothing is counted."""

        def attempt() -> None:
            # What else goes wrong may be for want of an attachment: it is told at the first summary.
            try:
                list(self.counted(tracer, options))
            except InvalidValue:
                raise
            except Exception:  # noqa: BLE001, S110 - as above
                pass

        call_before_attaching(tracer, attempt)

    def reader(self, tracer: Built, options: Options) -> Snapshot[Yielded]:
        lines = self.lines
        return Snapshot(
            self.name,
            lambda: self.counted(tracer, options),
            lambda stop: () if lines is None else lines.records(tracer, options, stop),
            lambda: tracer.dropped,
            self.drop_labels,
            lambda: self.json_objects(options),
        )

    @overload
    def open(self, *args: P.args, **kwargs: P.kwargs) -> AbstractContextManager[Snapshot[Yielded]]: ...
    @overload
    def open(
        self, *args: object, buffer: int | None, **kwargs: object
    ) -> AbstractContextManager[Snapshot[Yielded]]: ...
    def open(self, *args: object, **kwargs: object) -> AbstractContextManager[Snapshot[Yielded]]:
        """Attach with the options given as arguments; each call gives what was counted since the one before.

        With an option that asks for another mode it gives what that mode's `open` does.
        """
        return self.attached(args, kwargs)


@dataclass(frozen=True, kw_only=True)
class StackTool(Tool[P, Options, Built], Generic[P, Options, Built]):
    """A tool that prints stacks when it ends: `collect` watches until the stop, then gives what was counted.

    `unit` is what counts are of: "samples", "us", "bytes". `period` gives the nanoseconds from one sample to the next,
    for tools that sample. `palette` has the colours of flame graphs: of what runs, "samples"; of what is blocked,
    "off-cpu"; of who wakes, "wakeups". `recorded` are options that `--record` sets, such as to keep times. `unseen`
    says what is not counted, where no stack was.
    """

    collect: Callable[[Built, Options, Stop], Iterable[Stack]]
    unit: str = "samples"
    palette: Palette = "samples"
    recorded: Mapping[str, object] = field(default_factory=dict)
    period: Callable[[Options], int] | None = None
    unseen: str = ""

    def reader(self, tracer: Built, options: Options) -> Stacks:
        return Stacks(
            self.name,
            lambda stop: self.collect(tracer, options, stop),
            lambda: tracer.dropped,
            self.drop_labels,
            lambda: self.json_objects(options),
        )

    def open(self, *args: P.args, **kwargs: P.kwargs) -> AbstractContextManager[Stacks]:
        """Attach with the options given as arguments; each call watches for so many seconds more."""
        return self.attached(args, kwargs)
