"""Events a CPU second that a recording takes and gives, and bytes of each: `python -m benchmarks.recordings`.

Records of some tools, made up, go through the recorder as a tool's do, without being printed; then they are read, and
printed by `pyebpf show`.
"""

from __future__ import annotations

import contextlib
import os
import random
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.measure import median, table
from pyebpf.cli.parser import Common
from pyebpf.cli.recorder import Recorder
from pyebpf.cli.show import run_show
from pyebpf.errors import PyebpfError
from pyebpf.recording.recording import open_recording
from pyebpf.tool import Column, EventTool, Record, Stop, Tracer, dataclass

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

EVENTS, ROUNDS = 100_003, 5


@dataclass(frozen=True)
class Options:
    """None."""


@dataclass(frozen=True, slots=True)
class Open(Record):
    """A call of open(2), as opensnoop has it."""

    time: int
    pid: int
    comm: str
    fd: int | None
    error: str | None
    path: str


@dataclass(frozen=True, slots=True)
class Request(Record):
    """A request to a disk, as biosnoop has it."""

    time: int
    comm: str
    pid: int
    disk: str
    kind: str
    sector: int
    size: int
    queued_ns: int
    latency_ns: int


def opens(chance: random.Random) -> Iterator[Open]:
    """Opens of 31 processes and 1,009 paths, microseconds apart."""
    paths = [f"/usr/lib/python3/dist-packages/package{n % 37}/module{n}.py" for n in range(1009)]
    at = time.monotonic_ns()
    for n in range(EVENTS):
        at += chance.randrange(20_000)
        pid = 1000 + chance.randrange(31)
        failed = n % 7 == 0
        yield Open(
            at, pid, f"worker{pid % 5}", None if failed else 3, "ENOENT" if failed else None, chance.choice(paths)
        )


def requests(chance: random.Random) -> Iterator[Request]:
    """Requests to two disks, with sectors and times that nothing foretells."""
    at = time.monotonic_ns()
    for _ in range(EVENTS):
        at += chance.randrange(200_000)
        pid = 1000 + chance.randrange(31)
        sector, size = chance.randrange(1 << 31), 4096 << chance.randrange(6)
        queued, latency = chance.randrange(50_000), chance.randrange(90_000, 5_000_000)
        yield Request(at, f"kworker{pid % 5}", pid, "nvme0n1", chance.choice("RW"), sector, size, queued, latency)


def tool_of(record: type, *names: str) -> EventTool[..., Any, Any, Any]:
    """A tool that prints these fields."""
    return EventTool(
        name="sample",
        doc="A sample.",
        tracing="samples",
        options=Options,
        build=lambda _: Tracer(),
        records=lambda _bpf, _options, _stop: iter(()),
        record=record,
        time="time",
        columns=[Column(name.upper(), key=name, field=name) for name in names],
    )


SAMPLES: dict[str, tuple[EventTool[..., Any, Any, Any], Callable[[random.Random], Iterable[object]]]] = {
    "opens, 5 fields": (tool_of(Open, "pid", "comm", "fd", "error", "path"), opens),
    "disk requests, 8 fields": (
        tool_of(Request, "comm", "pid", "disk", "kind", "sector", "size", "queued_ns", "latency_ns"),
        requests,
    ),
}


def written(tool: EventTool[..., Any, Any, Any], records: list[Any], path: Path) -> float:
    """CPU seconds to record the events."""
    with Stop() as stop:
        start = time.process_time()
        with Recorder(tool, Options(), Common(record=str(path)), ["sample"], stop) as recorder:
            for _ in recorder.events(iter(records), tool.time):
                pass
        return time.process_time() - start


def read(path: Path) -> float:
    """CPU seconds to read them in Python."""
    start = time.process_time()
    count = sum(1 for _ in open_recording(str(path)))
    if count != EVENTS:
        raise PyebpfError(f"{count} of {EVENTS} events were read")
    return time.process_time() - start


def shown(path: Path) -> float:
    """CPU seconds to print them."""
    start = time.process_time()
    with Path(os.devnull).open("w", encoding="utf-8") as null, contextlib.redirect_stdout(null):
        run_show([str(path)])
    return time.process_time() - start


def main() -> None:
    """Print rates and sizes."""
    rows = []
    for name, (tool, make) in SAMPLES.items():
        records = list(make(random.Random(7)))  # noqa: S311 - made-up events, the same each time
        with tempfile.TemporaryDirectory() as folder:
            times: list[list[float]] = [[], [], []]
            for number in range(ROUNDS):
                path = Path(folder) / str(number)
                times[0].append(written(tool, records, path))
                times[1].append(read(path))
                times[2].append(shown(path))
            size = path.stat().st_size / EVENTS
        rows.append((name, f"{size:.1f}", *(f"{EVENTS / median(each) / 1000:,.0f}" for each in times)))
    table(("thousands of events a CPU second", "bytes an event", "recorded", "read in Python", "shown as text"), rows)


if __name__ == "__main__":
    main()
