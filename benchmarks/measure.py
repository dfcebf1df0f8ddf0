"""Running commands and timing what they do: shared by the benchmarks."""

from __future__ import annotations

import os
import signal
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

ROOT = Path(__file__).resolve().parents[1]

# As for an installed package: bytecode is cached.
ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


@dataclass(frozen=True, slots=True)
class Run:
    """One command's life: seconds from the signal to its last output and to its exit, and its peak memory."""

    output: str
    signalled: float  # time.monotonic()
    to_output: float
    to_exit: float
    peak_kib: int


def interrupted(command: Sequence[str], meanwhile: Callable[[], object]) -> Run:
    """Start `command`, do `meanwhile`, send SIGINT and follow the command to its end.

    Raises RuntimeError with what the command said if it fails.
    """
    with subprocess.Popen(
        command, cwd=ROOT, env=ENVIRONMENT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        meanwhile()
        signalled = time.monotonic()
        process.send_signal(signal.SIGINT)
        pieces, last = [], signalled
        while piece := os.read(process.stdout.fileno(), 65536):
            pieces.append(piece)
            last = time.monotonic()
        errors = process.stderr.read().decode(errors="replace")
        _, status, usage = os.wait4(process.pid, 0)
        ended = time.monotonic()
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"{' '.join(command)}: exit status {process.returncode}: {errors.strip()}")
    output = b"".join(pieces).decode(errors="replace")
    return Run(output, signalled, last - signalled, ended - signalled, usage.ru_maxrss)


def seconds(command: Sequence[str], *, cwd: Path = ROOT) -> float:
    """Wall-clock seconds of a command that succeeds."""
    began = time.perf_counter()
    subprocess.run(command, cwd=cwd, env=ENVIRONMENT, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - began


def iterated(events: Iterable[object], count: int) -> int:
    """Records that a plain loop saw, `count` at the most."""
    seen = 0
    for _record in events:
        seen += 1
        if seen == count:
            break
    return seen


def median(values: Sequence[float]) -> float:
    """The middle value, which a single disturbed run does not move."""
    return statistics.median(values)


def table(heading: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a Markdown table, its first column left-aligned and the others right."""
    cells = [list(heading), *[list(row) for row in rows]]
    widths = [max(len(row[column]) for row in cells) for column in range(len(heading))]
    rule = ["-" * widths[0], *["-" * (width - 1) + ":" for width in widths[1:]]]
    for row in [cells[0], rule, *cells[1:]]:
        first, *rest = (
            cell.ljust(width) if column == 0 else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        sys.stdout.write(f"| {' | '.join([first, *rest])} |\n")
    sys.stdout.flush()
