"""What a tool is: its options, its program, its columns. Each file of `programs/` declares one; so can any module.

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

    with biolatency.open(by_disk=True) as snapshot:
        time.sleep(1)
        for histogram in snapshot(): ...
        for event in snapshot.events(): ...             # of a tool with `lines`

A stack tool has `collect`: it watches until it is told to stop, then returns `Stack` objects, printed as text,
folded lines, a flame graph or a speedscope file:

    with profile.open(pid=42) as collect:
        for stack in collect(5.0): ...                  # five seconds
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, Protocol, TypeVar

from pyebpf.dataclass import MISSING, dataclass, field, fields
from pyebpf.errors import InvalidValue, NotFound
from pyebpf.output.columns import Column
from pyebpf.output.histogram import Bucket, Histogram
from pyebpf.output.stacks import Stack
from pyebpf.tool.clock import monotonic_time
from pyebpf.tool.shape import check_annotation, checked
from pyebpf.tool.stop import Stop, events

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from types import TracebackType

    from pyebpf.tool.present import Kind

__all__ = [
    "Bucket",
    "Column",
    "EventLines",
    "EventTool",
    "Example",
    "Histogram",
    "Snapshot",
    "Stack",
    "StackTool",
    "Stop",
    "SummaryTool",
    "Tool",
    "Tracer",
    "argument",
    "dataclass",
    "events",
    "failures_option",
    "flag",
    "milliseconds_option",
    "monotonic_time",
    "option",
    "pid_option",
    "tid_option",
    "uid_option",
]

PID_MAX = 1 << 22  # PID_MAX_LIMIT of include/linux/threads.h, on 64 bits
U32_MAX = (1 << 32) - 1


class Tracer(Protocol):
    """What a tool's `build` returns: `BPF` is one. Entering it compiles, loads and attaches; leaving detaches."""

    def __enter__(self) -> object: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> object: ...

    @property
    def lost(self) -> Mapping[str, int]:
        """How many events were lost so far, by reason."""

    @property
    def attachments(self) -> Iterable[str]:
        """A line for each attachment: which was chosen and why."""

    def listing(self) -> str:
        """The compiled programs as text, without loading them."""


Built = TypeVar("Built", bound=Tracer)
Options = TypeVar("Options")
P = ParamSpec("P")
Record = TypeVar("Record")


@dataclass(frozen=True, slots=True)
class Spelling:
    """How an option of a tool is written on the command line; `flags` is empty for a positional argument."""

    flags: tuple[str, ...]
    help: str
    metavar: str
    choices: tuple[str, ...]
    minimum: int | None
    maximum: int | None
    names: Kind = ""

    def check(self, name: str, value: object) -> None:
        """Raise InvalidValue for a value that the declaration excludes."""
        what = self.flags[-1] if self.flags else name
        for item in value if isinstance(value, tuple) else (value,):
            if self.choices and item is not None and item not in self.choices:
                raise InvalidValue(f"{what}: {item!r} is none of {', '.join(self.choices)}")
            if isinstance(item, int) and not isinstance(item, bool):
                if self.minimum is not None and item < self.minimum:
                    raise InvalidValue(f"{what}: {item} is below {self.minimum}")
                if self.maximum is not None and item > self.maximum:
                    raise InvalidValue(f"{what}: {item} is above {self.maximum}")


def option(
    *flags: str,
    default: object = None,
    help: str,  # noqa: A002 - argparse's word for it, which is what it is for
    metavar: str = "",
    choices: Sequence[str] = (),
    minimum: int | None = None,
    maximum: int | None = None,
    names: Kind = "",
) -> Any:
    """A field of an options dataclass that takes a value on the command line: `option("-c", "--cgroup", help=...)`.

    The field's annotation decides what is read: `int`, `float` or `str`, perhaps `| None`; `tuple[int, ...]` and the
    like read a list with commas. Bounds and choices hold for values given in Python, too. A number that `names` a
    process, thread or processor is refused when the tool starts on a machine that has none of that number.
    """
    return _field(default, Spelling(flags, help, metavar, tuple(choices), minimum, maximum, names))


def flag(*flags: str, help: str) -> Any:  # noqa: A002 - as above
    """A field of type `bool`, False unless the flag is there: `flag("-Q", "--queued", help=...)`."""
    return _field(False, Spelling(flags, help, "", (), None, None))  # noqa: FBT003 - a default, not a switch


def _field(default: object, spelling: Spelling) -> Any:
    if not spelling.flags or not all(flag.startswith("-") for flag in spelling.flags):
        raise InvalidValue("an option has at least one flag, such as '-m' or '--milliseconds'")
    return field(default=default, metadata={"spelling": spelling})


def argument(metavar: str, *, help: str, choices: Sequence[str] = (), default: object = MISSING) -> Any:  # noqa: A002 - as above
    """A positional argument of an options dataclass; one without default must be given."""
    declaration = {"spelling": Spelling((), help, metavar, tuple(choices), None, None)}
    return field(metadata=declaration) if default is MISSING else field(default=default, metadata=declaration)


def pid_option(help: str = "only this process") -> Any:  # noqa: A002 - as above
    """`-p PID`, None by default."""
    return option("-p", "--pid", metavar="PID", help=help, minimum=1, maximum=PID_MAX, names="process")


def tid_option(letter: str = "-t", help: str = "only this thread") -> Any:  # noqa: A002 - as above
    """`-t TID`, None by default; `letter` where the book's tool has another."""
    return option(letter, "--tid", metavar="TID", help=help, minimum=1, maximum=PID_MAX, names="thread")


def uid_option(help: str = "only this user") -> Any:  # noqa: A002 - as above
    """`-u UID`, None by default."""
    return option("-u", "--uid", metavar="UID", help=help, minimum=0, maximum=U32_MAX)


def milliseconds_option(help: str = "milliseconds instead of microseconds") -> Any:  # noqa: A002 - as above
    """`-m`, off by default."""
    return flag("-m", "--milliseconds", help=help)


def failures_option(help: str = "only failures") -> Any:  # noqa: A002 - as above
    """`-x`, off by default."""
    return flag("-x", "--failed", help=help)


@dataclass(frozen=True, slots=True)
class Example:
    """A command, without the word `pyebpf`, and what it does."""

    command: str
    meaning: str


@dataclass(frozen=True, kw_only=True)
class Tool(Generic[P, Options, Built]):
    """What every tool declares.

    `name` is one word; `doc` the module's docstring, whose first line is the one-line description; `tracing` completes
    "Tracing …" in the line that says that the probes are attached; `options` a frozen dataclass whose fields are
    `option(...)`, `flag(...)` or `argument(...)`; `build` makes the tracer without touching the kernel; `columns` are
    those of its records, none for histograms; `section` is the book's, where there is one. `holds` tells what the
    entries of each map are, for the line that says what was lost: the maps' own names mean nothing to a user.
    """

    name: str
    doc: str | None
    section: str = ""
    tracing: str
    options: Callable[P, Options]
    build: Callable[[Options], Built]
    columns: Sequence[Column] | Callable[[Options], Sequence[Column]] = ()
    examples: tuple[Example, ...] = ()
    holds: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if hasattr(self.options, "__dataclass_fields__"):
            raise InvalidValue(
                f"tool {self.name}: declare its options by `from pyebpf.tool import dataclass`: the standard library's "
                "does not know option(...)"
            )

    @property
    def summary(self) -> str:
        """The one-line description."""
        return (self.doc or "").strip().partition("\n")[0].rstrip(".")

    def columns_for(self, options: Options) -> Sequence[Column]:
        """The columns that are printed with these options."""
        return self.columns(options) if callable(self.columns) else self.columns

    def check(self, options: Options) -> None:
        """Raise InvalidValue for an option out of its bounds."""
        for item in fields(options):
            spelling = item.metadata.get("spelling")
            if spelling is not None:
                spelling.check(item.name, getattr(options, item.name))

    def _checked(self, *args: P.args, **kwargs: P.kwargs) -> Options:
        """The options given as arguments. Raises InvalidValue and NotFound."""
        options = self.options(*args, **kwargs)
        self.check(options)
        self.check_present(options)
        return options

    def check_present(self, options: Options) -> None:
        """Raise NotFound for an option that names what this machine does not have: it would wait for ever."""
        given: dict[Kind, int] = {}
        for item in fields(options):
            spelling, value = item.metadata.get("spelling"), getattr(options, item.name)
            if spelling is None or not spelling.names or value is None:
                continue
            from pyebpf.tool.present import not_of_process, why_absent

            given[spelling.names] = value
            reason = why_absent(spelling.names, value)
            if not reason and len(given.keys() & {"process", "thread"}) == 2:
                reason = not_of_process(given["thread"], given["process"])
            if reason:
                raise NotFound(f"{spelling.flags[-1]}: {reason}")


@dataclass(frozen=True, kw_only=True)
class EventTool(Tool[P, Options, Built], Generic[P, Options, Built, Record]):
    """A tool that prints a line an event: `records` yields them, typed, from the attached tracer, until the stop.

    With `sentence` the text of a line is what it returns, below no heading and behind the column TIME if there is one;
    CSV and JSON have the columns.
    """

    records: Callable[[Built, Options, Stop], Iterator[Record]]
    sentence: Callable[[Record], str] | None = None

    @contextmanager
    def open(self, *args: P.args, **kwargs: P.kwargs) -> Iterator[Iterator[Record]]:
        """Attach with the options given as arguments; the iterator ends when the context is left."""
        options = self._checked(*args, **kwargs)
        tracer = self.build(options)
        with Stop() as stop, tracer:
            records = self.records(tracer, options, stop)
            try:
                yield records
            finally:
                close = getattr(records, "close", None)  # generators have one, other iterators need none
                if close is not None:
                    close()


@dataclass(frozen=True, kw_only=True)
class EventLines(Generic[Built, Options, Record]):
    """Lines that a summary tool prints as events happen, declared as an `EventTool`'s."""

    records: Callable[[Built, Options, Stop], Iterator[Record]]
    columns: Sequence[Column]
    sentence: Callable[[Record], str] | None = None


class Snapshot(Generic[Record]):
    """What a summary tool's `open` gives: a call returns what was counted since the one before."""

    def __init__(self, count: Callable[[], Iterable[Record]], records: Callable[[Stop], Iterable[Any]]) -> None:
        self._count = count
        self._records = records

    def __call__(self) -> list[Record]:
        """What was counted since the call before."""
        return list(self._count())

    def events(self) -> list[Any]:
        """Events since the call before; none of a tool without `lines`."""
        with Stop() as stop:
            stop.set()
            return list(self._records(stop))


@dataclass(frozen=True, kw_only=True)
class SummaryTool(Tool[P, Options, Built], Generic[P, Options, Built, Record]):
    """A tool that prints what each interval counted: `snapshot` returns it, and begins the next interval."""

    snapshot: Callable[[Built, Options], Iterable[Record]]
    lines: EventLines[Built, Options, Any] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if not callable(self.columns):
            check_annotation(self.name, self.snapshot, columns=bool(self.columns))

    def counted(self, tracer: Built, options: Options) -> Iterable[Record]:
        """The counts of the interval. Raises InvalidValue for what can't be printed as the tool is declared."""
        return checked(self.name, self.snapshot(tracer, options), columns=bool(self.columns_for(options)))

    def try_before_attaching(self, tracer: Built, options: Options) -> None:
        """Let the tracer find out what the snapshot gives as long as nothing is counted; entering it may then raise."""

        def attempt() -> None:
            # What else goes wrong may be for want of an attachment: it is told at the first summary.
            try:
                list(self.counted(tracer, options))
            except InvalidValue:
                raise
            except Exception:  # noqa: BLE001, S110 - as above
                pass

        if hasattr(tracer, "before_attaching"):
            tracer.before_attaching = attempt

    @contextmanager
    def open(self, *args: P.args, **kwargs: P.kwargs) -> Iterator[Snapshot[Record]]:
        """Attach with the options given as arguments; each call gives what was counted since the one before."""
        options = self._checked(*args, **kwargs)
        tracer, lines = self.build(options), self.lines
        self.try_before_attaching(tracer, options)
        with tracer:
            yield Snapshot(
                lambda: self.counted(tracer, options),
                lambda stop: () if lines is None else lines.records(tracer, options, stop),
            )


@dataclass(frozen=True, kw_only=True)
class StackTool(Tool[P, Options, Built], Generic[P, Options, Built]):
    """A tool that prints stacks when it ends: `collect` watches until the stop, then gives what was counted.

    `unit` is what counts are of: "samples", "microseconds".
    """

    collect: Callable[[Built, Options, Stop], Iterable[Stack]]
    unit: str = "samples"

    @contextmanager
    def open(self, *args: P.args, **kwargs: P.kwargs) -> Iterator[Callable[[float], list[Stack]]]:
        """Attach with the options given as arguments; each call watches for so many seconds more."""
        options = self._checked(*args, **kwargs)
        tracer = self.build(options)

        def collect(seconds: float) -> list[Stack]:
            with Stop() as stop:
                stop.end_after(seconds)
                return list(self.collect(tracer, options, stop))

        with tracer:
            yield collect
