"""Scripts in bpftrace's language, by pyebpf and by bpftrace: `python -m benchmarks.peer_scripts`.

Needs root. bpftrace is found behind the prefix in the environment variable PEERS, such as `PEERS="chroot FOLDER"`.
`--rounds NUMBER` says how often each is measured, by default five times, in turns.

The same one-liners for both. Start: from the start of the command until the first event is printed, while one is made
each half millisecond. Printing: a line at each of a million system calls of one process, which come as fast as they
can: lines that are printed, by the seconds from the first call to the last line; the others are dropped. Formatting:
the lines of events that wait in a buffer with room for all, by the seconds from when the tracer, which was stopped
meanwhile, goes on until it has written the last. The cost of an event is that of the program, as the kernel counts it
(BPF_ENABLE_STATS through a descriptor), without the empty program's.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from benchmarks.contestants import PYEBPF, SHELL, contestant, installed, prefix
from benchmarks.measure import median, table
from pyebpf.kernel.bpf import enable_stats

if TYPE_CHECKING:
    from collections.abc import Sequence

ROUNDS = 5
CALLS = 1_000_000
#: Events that wait, and room for them: 256 MiB.
WAITING, ROOM = 500_000, "BPFTRACE_PERF_RB_PAGES=65536"
PROBE = "tracepoint:syscalls:sys_enter_getpgid"
LINE = "line of an event"
PRINTING = f'{PROBE} {{ printf("%d %s {LINE}\\n", pid, comm); }}'
#: The first takes the time of reading the clock, and of nothing else.
BODIES = {
    "{ }": "{ $nothing = 1; }",
    "count()": "{ @ = count(); }",
    "count() by a key": "{ @[comm] = count(); }",
    "hist()": "{ @ = hist(args.pid); }",
    "hist() by a key": "{ @[comm] = hist(args.pid); }",
    "printf()": f'{{ printf("%d %s {LINE}\\n", pid, comm); }}',
}
WORK = """
import os, time
began = time.monotonic()
call = os.getpgid
for _ in range({}):
    call(0)
print(began)
"""


@dataclass(slots=True)
class Results:
    """What the rounds of one command gave."""

    starts: list[float] = field(default_factory=list)
    peaks: list[float] = field(default_factory=list)
    rates: list[float] = field(default_factory=list)
    printed: list[float] = field(default_factory=list)
    formatted: list[float] = field(default_factory=list)
    costs: dict[str, list[float]] = field(default_factory=lambda: {body: [] for body in BODIES})


def event() -> None:
    """A system call that the scripts see."""
    os.getpgid(0)


def start(command: Sequence[str], results: Results) -> None:
    """From the start to the first line of an event; the peak of memory."""
    with contestant([*command, PRINTING]) as script:
        results.starts.append(script.until(lambda: LINE in script.output(), event))
        script.stop()
        results.peaks.append(script.peak_mib)


def printing(command: Sequence[str], results: Results) -> None:
    """A million lines, as many as come."""
    with contestant([*command, PRINTING]) as script:
        script.until(lambda: LINE in script.output(), event)
        before = script.printed(LINE)
        work = subprocess.run([sys.executable, "-c", WORK.format(CALLS)], stdout=subprocess.PIPE, check=True)
        ended = script.quiet()
        printed = script.printed(LINE) - before
        script.stop()
    results.rates.append(printed / (ended - float(work.stdout)))
    results.printed.append(printed)


def formatting(command: Sequence[str], results: Results) -> None:
    """Lines of events that wait."""
    room = [*command[:-2], "env", ROOM, *command[-2:]]
    with contestant([*room, PRINTING]) as script:
        script.until(lambda: LINE in script.output(), event)
        with script.stopped():
            before = script.printed(LINE)
            subprocess.run([sys.executable, "-c", WORK.format(WAITING)], stdout=subprocess.DEVNULL, check=True)
        began = time.monotonic()
        ended = script.quiet()
        printed = script.printed(LINE) - before
        script.stop()
    if printed < WAITING:
        raise RuntimeError(f"{WAITING - printed} of {WAITING} events were dropped")
    results.formatted.append(printed / (ended - began))


def costs(command: Sequence[str], results: Results) -> None:
    """Nanoseconds an event of each body."""
    for body, text in BODIES.items():
        with contestant([*command, f"{PROBE} {text}"]) as script, enable_stats():
            script.attached(event)
            before = script.programs()
            subprocess.run([sys.executable, "-c", WORK.format(CALLS)], stdout=subprocess.DEVNULL, check=True)
            after = script.programs()
            script.stop()
        runs, ns = (sum(after[number][index] - old[index] for number, old in before.items()) for index in (0, 1))
        results.costs[body].append(ns / runs)
    empty = results.costs["{ }"][-1]
    for each in results.costs.values():
        each[-1] -= empty


def main() -> None:
    """Let the two take turns, and print the medians, of costs the best."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    rounds = parser.parse_args().rounds
    commands = {"pyebpf": [*SHELL, *PYEBPF, "-e"]}
    if installed(["bpftrace"]):
        commands["bpftrace"] = [*prefix(), *SHELL, "bpftrace", "-e"]
    results = {who: Results() for who in commands}
    for command in commands.values():
        start(command, Results())  # warms caches
    for _ in range(rounds):
        for measure in (start, printing, formatting, costs):
            for who, command in commands.items():
                measure(command, results[who])
    table(
        ("scripts", "start ms", "peak MiB", "printed a second", f"printed of {CALLS:,}", "formatted a second"),
        [
            (
                who,
                f"{median(each.starts) * 1e3:.0f}",
                f"{median(each.peaks):.0f}",
                f"{median(each.rates):,.0f}",
                f"{median(each.printed):,.0f}",
                f"{median(each.formatted):,.0f}",
            )
            for who, each in results.items()
        ],
    )
    sys.stdout.write("\n")
    bodies = list(BODIES)[1:]
    table(
        ("ns an event", *bodies),
        [(who, *(f"{min(each.costs[body]):.0f}" for body in bodies)) for who, each in results.items()],
    )


if __name__ == "__main__":
    main()
