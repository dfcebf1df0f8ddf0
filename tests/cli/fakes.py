"""Tools over a tracer that needs no kernel; as a script, the command line of either: `fakes.py events --json`."""

from __future__ import annotations

import os
import sys
from collections import deque

import pyebpf.tool
from pyebpf.cli.report import guarded, note
from pyebpf.cli.run import run_tool
from pyebpf.errors import CompileError, Location, NotPermitted, VerifierError
from pyebpf.output.histogram import log2
from pyebpf.tool import (
    Column,
    EventLines,
    EventTool,
    Example,
    SummaryTool,
    argument,
    dataclass,
    events,
    failures_option,
    flag,
    option,
    pid_option,
)


class Ring:
    """A ring buffer: a pipe for its descriptor, a queue for its records."""

    def __init__(self):
        self.queue = deque()
        self.readable, self.writable = os.pipe()

    def push(self, *records):
        self.queue.extend(records)
        os.write(self.writable, b"\0")

    def fileno(self):
        return self.readable

    def poll(self, timeout):
        assert timeout == 0
        records = list(self.queue)
        if records:
            os.read(self.readable, 4096)
        self.queue.clear()
        return records

    def close(self):
        os.close(self.readable)
        os.close(self.writable)


class Tracer(pyebpf.tool.Tracer):
    """What `BPF` promises to the command."""

    __module__ = "pyebpf.programs.fake"  # as of a tool of pyebpf's own

    def __init__(self, options):
        self.options = options
        self.attached = False
        self.loaded = 0

    def __enter__(self):
        if self.options.fail == "permission":
            raise NotPermitted("needs CAP_BPF and CAP_PERFMON: run it as root")
        if self.options.fail == "verifier":
            raise VerifierError("R1 may be None", 13, log="0: (95) exit\nR0 !read_ok\n")
        if self.options.fail == "bug":
            raise ZeroDivisionError("a bug")
        if self.options.fail == "memory":
            raise MemoryError
        if self.options.fail == "stuck":
            note("attaching")
            while True:
                pass
        self.ring = Ring()
        self.attached = True
        self.loaded += 1
        return self

    def __exit__(self, *_):
        self.attached = False
        self.ring.close()
        note("detached")

    @property
    def dropped(self):
        assert self.attached
        return {"ring buffer full": 23 if self.options.lose else 0, "map full": 0}

    @property
    def attachments(self):
        return ["on_open: tracepoint syscalls:sys_enter_openat"]

    def listing(self):
        assert not self.loaded
        if self.options.fail == "compile":
            raise CompileError("no tracepoint open", Location("tool.py", 2, 4, 6, "def on_open():\n"))
        return "r0 = 1\nexit\n"


@dataclass(frozen=True)
class Open:
    pid: int
    comm: str
    ns: int
    path: str


@dataclass(frozen=True)
class EventOptions:
    pid: int | None = pid_option()
    failed: bool = failures_option()
    ports: tuple[int, ...] = option("-L", "--localport", default=(), help="local ports", minimum=1, maximum=65535)
    kind: str = option("--kind", default="a", choices=("a", "b"), help="100% of a kind")
    records: int = option("--records", default=3, help="how many")
    fail: str = option("--fail", default="", help="where")
    lose: bool = flag("--lose", help="lose events")
    endless: bool = flag("--endless", help="never pause")


def opens(tracer, options, stop):
    names = {2: "ca\x1bt"}
    made = [Open(n, names.get(n, "cat"), 1500 * n, f"/tmp/{n}") for n in range(1, 1 + options.records)]
    tracer.ring.push(*made)
    if options.endless:
        while not stop.is_set():
            yield from made
    yield from events(tracer.ring, stop)


EVENTS = EventTool(
    name="events",
    doc="Trace opens.\n\nOverhead: little.\n",
    section="8.6.10",
    tracing="open(2)",
    options=EventOptions,
    build=Tracer,
    records=opens,
    record=Open,
    columns=(
        Column("PID", 7),
        Column("COMM", 16),
        Column("LAT(us)", 8, ">", key="ns", scale=1000, decimals=2, field="latency_ns"),
        Column("PATH"),
    ),
    examples=(Example("events -p 42 -L 80,443", "the web server's"), Example("events --json -d 10", "for ten seconds")),
)


@dataclass(frozen=True)
class SummaryOptions:
    name: str = argument("NAME", help="of what", default="vda")
    by_disk: bool = flag("-D", "--disks", help="by disk")
    nothing: bool = flag("--nothing", help="count nothing")
    daytime: bool = flag("-d", help="the tool's own meaning of a common letter")
    fail: str = option("--fail", default="", help="where")
    lose: bool = flag("--lose", help="lose events")


def latencies(_tracer, options):
    if not options.nothing:
        yield log2([0, 1, 5], unit="usecs", labels={"disk": options.name} if options.by_disk else {})


SUMMARY = SummaryTool(
    name="summary",
    doc="Summarise latency.",
    section="9.3.1",
    tracing="block I/O",
    options=SummaryOptions,
    build=Tracer,
    snapshot=latencies,
    examples=(Example("summary sda 1 10", "ten times a second"),),
)


@dataclass(frozen=True)
class Count:
    name: str
    count: int


COUNTS = SummaryTool(
    name="counts",
    doc="Count system calls.",
    section="6.3",
    tracing="system calls",
    options=SummaryOptions,
    build=Tracer,
    snapshot=lambda _tracer, options: [] if options.nothing else [Count("read", 17), Count("openat", 5)],
    record=Count,
    columns=(Column("SYSCALL", 20, key="name", field="syscall"), Column("COUNT", 8, ">")),
)


def drops(tracer, options, stop):
    """One in each interval but the second, and one before the first, while it was attached."""
    tracer.intervals = getattr(tracer, "intervals", -1) + 1
    if tracer.intervals != 2 and not options.nothing:
        tracer.ring.push(Open(tracer.intervals, "cat", 0, "/tmp"))
    yield from events(tracer.ring, stop)


MIXED = SummaryTool(
    name="mixed",
    doc="Summarise latency, and print drops.",
    tracing="drops",
    options=SummaryOptions,
    build=Tracer,
    snapshot=latencies,
    lines=EventLines(
        records=drops,
        columns=(Column("PID", 7), Column("PATH")),
        record=Open,
        sentence=lambda each: f"dropped {each.path} of {each.pid}",
    ),
)

if __name__ == "__main__":
    TOOL = {"events": EVENTS, "summary": SUMMARY, "counts": COUNTS, "mixed": MIXED}[sys.argv[1]]
    sys.exit(guarded(lambda arguments: run_tool(TOOL, arguments[1:]), sys.argv[1:]))
