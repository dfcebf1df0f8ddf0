"""funccount 'tcp_*' beside bpftrace: start to attached, and end to exit: `python -m benchmarks.functions [ROUNDS]`.

Needs root, kprobes, and bpftrace for its half. tracefs `enabled_functions` tells how many functions are attached to,
in the same way for both: a tool begins to attach when that number begins to grow, and is attached when it has stopped.
In an emulated machine (`python -m tests.vm --kernel 6.12 -- python -m benchmarks.functions`) only the ratios mean
something.
"""

from __future__ import annotations

import shutil
import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from benchmarks.measure import interrupted, median, table
from pyebpf.kernel.tracefs import Tracefs

if TYPE_CHECKING:
    from collections.abc import Sequence

PATTERN = "tcp_*"
ROUNDS = 3
QUIET = 8.0  # seconds without another function: all are attached; emulated, Linux 6.1 pauses for some
LONGEST = 240.0  # seconds until then


@dataclass(frozen=True, slots=True)
class Contestant:
    """A tool by its name, and the command that counts."""

    name: str
    command: Sequence[str]


def contestants() -> list[Contestant]:
    """The tool as pyebpf ships it and, where bpftrace is installed, the same for that."""
    # bpftrace wants tracefs mounted: in a mount namespace, so that nothing is left; both, so that it costs both alike.
    mounts = "mount -t debugfs none /sys/kernel/debug && mount -t tracefs none /sys/kernel/tracing"
    commands = {"pyebpf": f"{sys.executable} -m pyebpf funccount '{PATTERN}'"}
    if shutil.which("bpftrace"):
        commands["bpftrace"] = f"bpftrace -e 'kprobe:{PATTERN} {{ @[func] = count(); }}'"
    return [
        Contestant(
            name, ["unshare", "--mount", "sh", "-c", f"{mounts}; export BPFTRACE_MAX_PROBES=4096; exec {command}"]
        )
        for name, command in commands.items()
    ]


def enabled(tracefs: Tracefs) -> int:
    """Functions that something is attached to."""
    return tracefs.read_top("enabled_functions").count(b"\n")


@dataclass(frozen=True, slots=True)
class Measured:
    """Functions attached to; seconds from start to the first, from the first to the last, from SIGINT to exit."""

    functions: float
    started: float
    attaching: float
    exited: float


def measure(contestant: Contestant, tracefs: Tracefs) -> Measured:
    """One run."""
    before, began = enabled(tracefs), time.monotonic()
    found, first, last, asked = 0, began, began, began

    def wait() -> None:
        nonlocal found, first, last, asked
        while time.monotonic() < began + LONGEST and (not found or time.monotonic() < last + QUIET):
            previous, asked = asked, time.monotonic()
            now = enabled(tracefs) - before
            if now != found:
                # It began after the look before.
                first, last = (previous, time.monotonic()) if not found else (first, time.monotonic())
                found = now
            # Whoever reads that file holds what attaching needs: most of the time is the tool's.
            time.sleep(5 * (time.monotonic() - asked))

    run = interrupted(contestant.command, wait)
    if not found:
        raise RuntimeError(f"{contestant.name} attached to nothing:\n{run.output}")
    return Measured(found, first - began, last - first, run.to_exit)


def main() -> None:
    """Let the tools take turns, and print the medians."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS
    tools = contestants()
    runs: dict[str, list[Measured]] = {tool.name: [] for tool in tools}
    with Tracefs() as tracefs:
        for _ in range(rounds):
            for tool in tools:
                runs[tool.name].append(measure(tool, tracefs))
    rows = []
    for name, values in runs.items():
        functions, started, attaching, exited = (
            median([getattr(value, column) for value in values]) for column in Measured.__match_args__
        )
        seconds = (started, attaching, exited, attaching + exited)
        rows.append((name, f"{functions:.0f}", *(f"{each:.2f}" for each in seconds)))
    head = ("functions", "started after s", "attaching s", "exit after s", "attaching and exit s")
    table((f"funccount '{PATTERN}'", *head), rows)


if __name__ == "__main__":
    main()
