"""Event tools under load: `python -m benchmarks.tool_load [--connections N] [--datagrams N] [TOOL...]`.

Needs root and gcc. Each tool runs while a C program opens 50,000 short TCP connections over loopback, or sends a
million marked datagrams through a veth pair, in network namespaces of its own. The table has the workload's seconds
without a tool and with it, the events that were printed and those that the tool says it dropped, those of which nothing
was said (none may be), and the tool's peak memory. Beside it runs bpftrace's tool of that name where `NAME.bt` is
installed. What does not start here is left out, with the reason.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.measure import ENVIRONMENT, ROOT, table
from tests.support.namespaces import namespace

if TYPE_CHECKING:
    from collections.abc import Sequence

SOURCES = Path(__file__).parent / "c"
PORT = "8099"
RECEIVE = f"import socket, time; end = socket.socket(2, 2); end.bind(('', {PORT})); time.sleep(9999)"


@dataclass(frozen=True)
class Load:
    """A tool's options, its workload, and how many events each connection or datagram is."""

    options: tuple[str, ...]
    workload: str
    events: int = 1


LOADS = {
    "soconnect": Load(("--comm", "connections"), "connections"),
    "soaccept": Load(("--comm", "connections"), "connections"),
    "solife": Load(("--comm", "connections"), "connections", 2),
    "tcpconnect": Load(("-D", PORT), "connections"),
    "tcpaccept": Load(("-L", PORT), "connections"),
    "tcplife": Load(("-L", PORT), "connections"),
    "ipecn": Load(("-i", "veth0"), "datagrams", 2),
}


@dataclass
class Result:
    """What one run of a tool left."""

    seconds: float
    printed: int
    dropped: int
    peak_mib: float


def traced(tool: Sequence[str], workload: Sequence[str], ready: str) -> tuple[float, str, str, float]:
    """Seconds of the workload while a tool runs, the tool's output and errors, and its peak memory in MiB."""
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(
            tool, cwd=ROOT, env=ENVIRONMENT, stdin=subprocess.DEVNULL, stdout=out, stderr=errors, text=True
        )
        until = time.monotonic() + 60
        while ready not in Path(f"/proc/self/fd/{errors.fileno()}").read_text() + Path(
            f"/proc/self/fd/{out.fileno()}"
        ).read_text(encoding="utf-8"):
            if process.poll() is not None or time.monotonic() > until:
                process.kill()
                errors.seek(0)
                raise RuntimeError(f"{' '.join(tool)} did not start: {errors.read().strip()}")
            time.sleep(0.05)
        seconds = float(subprocess.run(workload, check=True, stdout=subprocess.PIPE, text=True).stdout)
        time.sleep(0.5)
        process.send_signal(signal.SIGINT)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        errors.seek(0)
        return seconds, out.read(), errors.read(), usage.ru_maxrss / 1024


def ours(name: str, load: Load, workload: Sequence[str]) -> Result:
    """A run of a tool of this package."""
    command = [sys.executable, "-m", "pyebpf", name, *load.options, "--json"]
    seconds, output, _, peak = traced(command, workload, "Tracing")
    lines = output.splitlines()
    losses = [json.loads(line)["dropped"] for line in lines if '"dropped": {' in line]
    return Result(seconds, len(lines) - len(losses), sum(losses[-1].values()) if losses else 0, peak)


def bpftraces(name: str, workload: Sequence[str]) -> Result | None:
    """A run of bpftrace's tool of that name, which prints its losses among its lines; None where it is not there."""
    script = shutil.which(f"{name}.bt")
    if script is None:
        return None
    seconds, output, errors, peak = traced([script], workload, "PID")
    told = [line.split() for line in (output + errors).splitlines() if "Lost" in line]
    lost = [int(word) for line in told for word in line if word.isdigit()]
    return Result(seconds, sum(f" {PORT}" in line for line in output.splitlines()), sum(lost), peak)


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--connections", type=int, default=50_000)
    parser.add_argument("--datagrams", type=int, default=1_000_000)
    parser.add_argument("tools", nargs="*", metavar="TOOL", help=", ".join(LOADS))
    wanted = parser.parse_args()
    tools = wanted.tools or [*LOADS]
    rows = []
    with ExitStack() as stack:
        built = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        for name in ("connections", "datagrams"):
            command = ["gcc", "-O2", "-o", str(built / name), str(SOURCES / f"{name}.c")]
            subprocess.run(command, check=True)
        here, there = stack.enter_context(namespace()), stack.enter_context(namespace())
        here.connect(there)
        # A receiver that reads nothing: its buffer fills, and the rest is dropped without an answer.
        receiver = subprocess.Popen(there.inside(sys.executable, "-c", RECEIVE))
        stack.callback(receiver.wait)
        stack.callback(receiver.kill)
        counts = {"connections": wanted.connections, "datagrams": wanted.datagrams}
        commands = {
            "connections": here.inside(str(built / "connections"), str(wanted.connections), PORT),
            "datagrams": here.inside(str(built / "datagrams"), str(wanted.datagrams), "10.251.0.2", PORT),
        }
        alone = {
            name: float(subprocess.run(commands[name], check=True, stdout=subprocess.PIPE, text=True).stdout)
            for name in {LOADS[tool].workload for tool in tools}
        }
        for tool in tools:
            load = LOADS[tool]
            expected = counts[load.workload] * load.events
            found = {}
            try:
                found[f"pyebpf {tool}"] = ours(tool, load, commands[load.workload])
                if other := bpftraces(tool, commands[load.workload]):
                    found[f"{tool}.bt"] = other
            except RuntimeError as error:
                sys.stderr.write(f"{error}\n")
            for label, each in found.items():
                rows.append(
                    [
                        label,
                        f"{expected:,}",
                        f"{each.printed:,}",
                        f"{each.dropped:,}",
                        f"{expected - each.printed - each.dropped:,}",
                        f"{alone[load.workload]:.2f}",
                        f"{each.seconds:.2f}",
                        f"{each.peak_mib:.0f}",
                    ]
                )
    headings = ["tool", "events", "printed", "said to be dropped", "missing", "s without", "s with it", "MiB"]
    table(headings, rows)


if __name__ == "__main__":
    main()
