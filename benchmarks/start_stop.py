"""biolatency beside bpftrace: start to attached, end to exit, peak memory: `python -m benchmarks.start_stop`.

Needs root, a loop device, and bpftrace for its half. A reader makes a direct read of a loop device every half
millisecond from the moment that the command is started, and notes the time of each. How many of them the tool counted
tells when it was attached, in the same way for every tool and whatever it prints about itself.

`--phases` says instead what each phase of pyebpf's start costs.
"""

from __future__ import annotations

import json
import mmap
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.measure import interrupted, median, table
from tests.support.loop import LoopDevice, loop_device

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

ROUNDS = 7
PERIOD = 0.0005  # seconds between reads
LONG_ENOUGH = 1.5  # seconds of reads, longer than any tool takes to attach

# The block tracepoints carry no request pointer, which bpftrace 0.17's could not reach: the pair is (device, sector).
BPFTRACE = """
BEGIN { printf("Tracing block device I/O... Hit Ctrl-C to end.\\n"); }
tracepoint:block:block_rq_issue { @start[args->dev, args->sector] = nsecs; }
tracepoint:block:block_rq_complete /@start[args->dev, args->sector]/ {
    @usecs[args->dev] = hist((nsecs - @start[args->dev, args->sector]) / 1000);
    delete(@start[args->dev, args->sector]);
}
END { clear(@start); }
"""


@dataclass(frozen=True, slots=True)
class Contestant:
    """A tool, and how to read the number of I/Os of one disk from what it prints."""

    name: str
    command: Sequence[str]
    counted: Callable[[str, LoopDevice], int]


class Reader(threading.Thread):
    """Reads the device once a period and keeps the time of each read."""

    def __init__(self, device: LoopDevice) -> None:
        super().__init__(daemon=True)
        self.times: list[float] = []
        self.stopping = threading.Event()
        self._path = device.path

    def run(self) -> None:
        """Read until told to stop."""
        descriptor = os.open(self._path, os.O_RDONLY | os.O_DIRECT)
        with mmap.mmap(-1, 4096) as page, memoryview(page) as view:
            while not self.stopping.is_set():
                self.times.append(time.monotonic())
                os.preadv(descriptor, [view], 0)
                time.sleep(PERIOD)
        os.close(descriptor)


def objects(value: Any) -> Iterator[dict[str, Any]]:
    """Every JSON object inside `value`, itself included."""
    if isinstance(value, dict):
        yield value
        value = list(value.values())
    if isinstance(value, list):
        for item in value:
            yield from objects(item)


def _bpftrace_count(output: str, device: LoopDevice) -> int:
    major, minor = device.numbers
    key = str(major << 20 | minor)  # the kernel's own dev_t
    for line in filter(None, output.splitlines()):
        record = json.loads(line)
        if record["type"] == "hist":
            return sum(bucket["count"] for bucket in record["data"]["@usecs"].get(key, []))
    return 0


def _pyebpf_count(output: str, device: LoopDevice) -> int:
    count = 0
    for line in filter(None, output.splitlines()):
        record = json.loads(line)
        if device.name in record.values():
            count += sum(found["count"] for found in objects(record) if "low" in found)
    return count


def contestants(folder: Path) -> list[Contestant]:
    """The tool as pyebpf ships it and, where bpftrace is installed, the same program for that."""
    # The command that installing puts beside the interpreter: `python -m` loads runpy first, 3 ms.
    commands = {"pyebpf": (f"{Path(sys.executable).with_name('pyebpf')} biolatency -D --json", _pyebpf_count)}
    if shutil.which("bpftrace"):
        script = folder / "biolatency.bt"
        script.write_text(BPFTRACE)
        commands["bpftrace"] = (f"bpftrace -f json {script}", _bpftrace_count)
    return [Contestant(name, shlex.split(command), counted) for name, (command, counted) in commands.items()]


def with_tracefs() -> None:
    """Go on where debugfs and tracefs are mounted, which bpftrace wants: in a mount namespace of our own."""
    if not Path("/sys/kernel/tracing/events").exists():
        mounts = "mount -t debugfs none /sys/kernel/debug && mount -t tracefs none /sys/kernel/tracing"
        again = f'{mounts} && exec "$0" -m benchmarks.start_stop'
        command = ["unshare", "--mount", "sh", "-c", again, sys.executable]
        sys.exit(subprocess.run(command, check=False).returncode)


def measure(contestant: Contestant, device: LoopDevice) -> tuple[float, float, float, float]:
    """Seconds to attached, from the signal to the results, from the signal to exit; peak memory in MiB."""
    reader = Reader(device)

    def read_for_a_while() -> None:
        reader.start()
        time.sleep(LONG_ENOUGH)
        reader.stopping.set()
        reader.join()

    began = time.monotonic()
    run = interrupted(contestant.command, read_for_a_while)
    count = contestant.counted(run.output, device)
    if not 0 < count <= len(reader.times):
        raise RuntimeError(f"{contestant.name} counted {count} of {len(reader.times)} reads:\n{run.output}")
    return reader.times[-count] - began, run.to_output, run.to_exit, run.peak_kib / 1024


def main() -> None:
    """Let the tools take turns, and print the medians."""
    with_tracefs()
    with tempfile.TemporaryDirectory() as scratch, loop_device(Path(scratch) / "disk") as device:
        tools = contestants(Path(scratch))
        runs: dict[str, list[tuple[float, float, float, float]]] = {tool.name: [] for tool in tools}
        for round_ in range(ROUNDS + 1):
            for tool in tools:
                measured = measure(tool, device)
                if round_:  # the first warms caches
                    runs[tool.name].append(measured)
    rows = []
    for name, values in runs.items():
        attached, output, ended, memory = (median(column) for column in zip(*values, strict=True))
        rows.append((name, f"{attached * 1e3:.0f}", f"{output * 1e3:.0f}", f"{ended * 1e3:.0f}", f"{memory:.0f}"))
    table(("biolatency", "attached after ms", "results after ms", "exit after ms", "peak MiB"), rows)


if __name__ == "__main__":
    if "--phases" in sys.argv[1:]:
        from benchmarks import phases

        phases.main()
    else:
        main()
