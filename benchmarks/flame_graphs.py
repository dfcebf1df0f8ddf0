"""Flame graphs of a million different stacks: `python -m benchmarks.flame_graphs`.

Made-up stacks of up to 30 functions out of 5,000, which share their outer parts as those of programs do. They are
written as folded lines, and `pyebpf flamegraph` draws them, and the difference of two such files; peak memory is that
of the command. No root.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.measure import ENVIRONMENT, ROOT, table

STACKS = 1_000_000
FUNCTIONS = 5_000


def write_stacks(path: Path, count: int, seed: int) -> None:
    """Folded lines, each stack once. Each goes on from some depth of the one before, as in a walk through a program."""
    chance = random.Random(seed)  # noqa: S311 - no secrets, and the same each time
    names = [f"function_of_module_{chance.randrange(100):02}_{number}" for number in range(FUNCTIONS)]
    seen: set[tuple[str, ...]] = set()
    stack: list[str] = []
    with path.open("w") as file:
        while len(seen) < count:
            stack = stack[: chance.randrange(len(stack) + 1)]
            stack += chance.choices(names[: 20 + 200 * len(stack)], k=chance.randrange(12, 31) - min(len(stack), 12))
            stack = stack[:30]
            key = tuple(stack)
            if key not in seen:
                seen.add(key)
                file.write(f"program;{';'.join(stack)} {1 + int(chance.paretovariate(1.2))}\n")


def drawn(*arguments: str) -> tuple[float, int]:
    """Seconds of the processor that the command takes, and its peak memory in MiB."""
    with subprocess.Popen([sys.executable, "-m", "pyebpf", "flamegraph", *arguments], cwd=ROOT, env=ENVIRONMENT) as run:
        _, status, usage = os.wait4(run.pid, 0)
        run.returncode = os.waitstatus_to_exitcode(status)
    if run.returncode:
        raise RuntimeError(f"pyebpf flamegraph: exit status {run.returncode}")
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss // 1024


def main() -> None:
    """Print the table of what each size takes."""
    rows = []
    with TemporaryDirectory() as folder:
        before, after, out = Path(folder, "before"), Path(folder, "after"), Path(folder, "out.svg")
        for count in (STACKS // 10, STACKS):
            write_stacks(before, count, 1)
            write_stacks(after, count, 2)
            for name, files in (("flame graph", [before]), ("difference", [before, after])):
                seconds, peak = drawn(*map(str, files), "-o", str(out))
                size = out.stat().st_size
                rows.append([f"{name} of {count:,} stacks", f"{seconds:.1f}", str(peak), f"{size / 1e6:.1f}"])
    table(["pyebpf flamegraph", "processor seconds", "peak MiB", "picture MB"], rows)


if __name__ == "__main__":
    main()
