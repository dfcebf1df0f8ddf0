"""Tools beside those of the same name of libbpf-tools, bpftrace and bcc: `python -m benchmarks.peers [TOOL...]`.

Needs root. The peers are found by Debian's names (`opensnoop-libbpf`, `opensnoop.bt`, `opensnoop-bpfcc`), behind the
prefix in the environment variable PEERS, such as `PEERS="chroot FOLDER"`; what does not run here is left out, with
the reason. `--rounds NUMBER` says how often each is started, by default five times, in turns.

Start, for all alike: from the start of the command until the last of its busy programs ran for the first time, while an
event is made each half millisecond. Memory is the peak of the process. The cost of an event is that of all programs
together, as the kernel counts it (BPF_ENABLE_STATS through a descriptor), less the reading of the clock; `added` is
what the workload takes longer, with all that the kernel does around the programs. Both are the best of the rounds.
"""

from __future__ import annotations

import argparse
import mmap
import os
import socket
import sys
import tempfile
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.contestants import PYEBPF, SHELL, contestant, installed, prefix
from benchmarks.measure import median, table
from benchmarks.tool_costs import measured, nothing, system_calls
from pyebpf.kernel.bpf import enable_stats
from tests.support.loop import loop_device

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from contextlib import AbstractContextManager

    Event = Callable[[], object]
    Workload = Callable[[], AbstractContextManager[Event]]

ROUNDS = 5
EVENTS = 997  # a round
PEERS = {"libbpf-tools": "{}-libbpf", "bpftrace": "{}.bt", "bcc": "{}-bpfcc"}


def simple(event: Event) -> Workload:
    """A workload whose event needs nothing."""

    @contextmanager
    def workload() -> Iterator[Event]:
        yield event

    return workload


def execution() -> None:
    """Of a program that ends at once."""
    os.waitpid(os.posix_spawn("/bin/true", ["true"], {}), 0)


def new_thread() -> None:
    """That ends at once."""
    thread = threading.Thread(target=str)
    thread.start()
    thread.join()


@contextmanager
def connections() -> Iterator[Event]:
    """Over loopback, accepted and closed."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def event() -> None:
            with socket.create_connection(server.getsockname()):
                server.accept()[0].close()

        yield event


@contextmanager
def datagrams() -> Iterator[Event]:
    """Over loopback, each through the softirq of received packets."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.bind(("127.0.0.1", 0))

        def event() -> None:
            server.sendto(b"x", server.getsockname())
            server.recv(1)

        yield event


@contextmanager
def refusals() -> Iterator[Event]:
    """Of connections to a port where nobody listens."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))

        def event() -> None:
            with socket.socket() as end:
                end.connect_ex(bound.getsockname())

        yield event


@contextmanager
def reads() -> Iterator[Event]:
    """Direct ones of a loop device, of a page each."""
    with tempfile.TemporaryDirectory() as scratch, loop_device(Path(scratch) / "disk") as device:
        disk = os.open(device.path, os.O_RDONLY | os.O_DIRECT)
        with mmap.mmap(-1, 4096) as page, memoryview(page) as view:
            yield lambda: os.preadv(disk, [view], 0)
        os.close(disk)


@contextmanager
def switches() -> Iterator[Event]:
    """Of two threads that wake each other by pipes, on one processor."""
    allowed = os.sched_getaffinity(0)
    (one, tell_one), (other, tell_other) = os.pipe(), os.pipe()

    def answer() -> None:
        while os.read(other, 1):
            os.write(tell_one, b"!")

    def event() -> None:
        os.write(tell_other, b"!")
        os.read(one, 1)

    os.sched_setaffinity(0, {max(allowed)})
    thread = threading.Thread(target=answer)
    thread.start()
    os.sched_setaffinity(0, allowed)
    try:
        yield event
    finally:
        os.close(tell_other)
        thread.join()
        for end in (one, tell_one, other):
            os.close(end)


opens = simple(lambda: os.close(os.open("/dev/null", os.O_RDONLY)))
executions = simple(execution)

#: Tools that have a peer of the same name, and what makes their events.
WORKLOADS: dict[str, Workload] = {
    "opensnoop": opens,
    "statsnoop": simple(Path("/dev/null").stat),
    "execsnoop": executions,
    "exitsnoop": executions,
    "threadsnoop": simple(new_thread),
    "killsnoop": simple(lambda: os.kill(os.getpid(), 0)),
    "syscount": simple(lambda: os.getpgid(0)),
    "biolatency": reads,
    "biosnoop": reads,
    "biostacks": reads,
    "biotop": reads,
    "biopattern": reads,
    "bitesize": reads,
    "hardirqs": reads,
    "softirqs": datagrams,
    "runqlat": switches,
    "runqslower": switches,
    "runqlen": switches,
    "cpudist": switches,
    "offcputime": switches,
    "wakeuptime": switches,
    "profile": switches,
    "tcpconnect": connections,
    "tcpaccept": connections,
    "tcplife": connections,
    "tcpstates": connections,
    "tcprtt": connections,
    "tcpsynbl": connections,
    "tcptop": connections,
    "solisten": simple(lambda: socket.create_server(("127.0.0.1", 0)).close()),
    "tcpdrop": refusals,
}


#: Tools of what happens beside the events: samples, interrupts.
BESIDE = frozenset({"profile", "runqlen", "hardirqs"})


@dataclass(slots=True)
class Results:
    """What the rounds of one command gave."""

    starts: list[float] = field(default_factory=list)
    exits: list[float] = field(default_factory=list)
    peaks: list[float] = field(default_factory=list)
    costs: list[float] = field(default_factory=list)  # nanoseconds an event, of its programs
    workloads: list[float] = field(default_factory=list)  # nanoseconds an event, of the workload


def timed(event: Event) -> float:
    """Nanoseconds an event."""
    began = time.perf_counter_ns()
    for _ in range(EVENTS):
        event()
    return (time.perf_counter_ns() - began) / EVENTS


def run(command: Sequence[str], event: Event, clock: float, results: Results, least: int) -> None:
    """Start the command, count, stop it. Raises RuntimeError if its busiest program runs less often than `least`."""
    with contestant(command) as tool:
        with enable_stats():
            started = tool.attached(event)
            before = tool.programs()
            timed(event)
            after = tool.programs()
        workload = timed(event)
        results.exits.append(tool.stop())
    pairs = [(after[number], old) for number, old in before.items()]
    if max(runs - old for (runs, _), (old, _) in pairs) < least:
        raise RuntimeError("does not see these events")
    results.costs.append(sum(ns - old_ns - clock * (runs - old) for (runs, ns), (old, old_ns) in pairs) / EVENTS)
    results.starts.append(started)
    results.peaks.append(tool.peak_mib)
    results.workloads.append(workload)


def rows_of(name: str, commands: dict[str, list[str]], clock: float, rounds: int) -> Iterator[tuple[str, ...]]:
    """A row for each command that runs here, of the tool of this name."""
    results = {who: Results() for who in commands}
    least = 0 if name in BESIDE else EVENTS // 2
    with WORKLOADS[name]() as event:
        alone = min(timed(event) for _ in range(rounds))
        for round_ in range(rounds + 1):
            for who in list(results):
                try:
                    kept = results[who] if round_ else Results()  # the first round warms caches
                    run(commands[who], event, clock, kept, least)
                except RuntimeError as error:
                    sys.stderr.write(f"{name} of {who}: {error}\n")
                    del results[who]
            if results.keys() <= {"pyebpf"} or "pyebpf" not in results:
                return
    for who, found in results.items():
        yield (
            name,
            who,
            f"{median(found.starts) * 1e3:.0f}",
            f"{median(found.exits) * 1e3:.0f}",
            f"{median(found.peaks):.0f}",
            f"{min(found.costs):.0f}",
            f"{min(found.workloads) - alone:.0f}",
        )


def main() -> None:
    """Measure tools, by default all that have a peer here, and print a row for each and for each peer."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("tools", nargs="*", metavar="TOOL", help=", ".join(WORKLOADS))
    options = parser.parse_args()
    names = options.tools or list(WORKLOADS)
    found = installed([spelling.format(name) for name in names for spelling in PEERS.values()])
    ((_, _, clock),) = measured(nothing(), system_calls)
    rows: list[tuple[str, ...]] = []
    for name in names:
        commands = {"pyebpf": [*SHELL, *PYEBPF, name]}
        for who, spelling in PEERS.items():
            if (command := spelling.format(name)) in found:
                commands[who] = [*prefix(), *SHELL, command]
        if len(commands) > 1:
            rows += rows_of(name, commands, clock, options.rounds)
    table(("tool", "of", "start ms", "exit ms", "peak MiB", "ns an event", "added ns"), rows)


if __name__ == "__main__":
    main()
