"""What each phase of biolatency's start costs: for `python -m benchmarks.start_stop --phases`.

Modules are imported lazily, in the middle of everything; so that they count as one phase, a first run finds out which
they are, and the measured ones import them at once.
"""

from __future__ import annotations

import ast
import subprocess
import sys
import time

from benchmarks.measure import ENVIRONMENT, ROOT, median, table

ROUNDS = 11
AFTER = ("detach and close", "peak MiB")


def one_start(modules: list[str]) -> tuple[dict[str, float], list[str]]:
    """One measured start that imports `modules` at once, and the modules that it needed."""
    command = [sys.executable, "-m", "benchmarks.one_start", str(time.monotonic()), *modules]
    done = subprocess.run(command, cwd=ROOT, env=ENVIRONMENT, check=True, capture_output=True, text=True)
    phases, needed = ast.literal_eval(done.stdout)
    return phases, needed


def main() -> None:
    """Print median and least of each phase."""
    _, modules = one_start([])
    one_start(modules)
    runs = [one_start(modules)[0] for _ in range(ROUNDS)]
    for run in runs:
        for phase, value in run.items():
            run[phase] = value if phase == "peak MiB" else value * 1e3
        run["start to attached"] = sum(value for phase, value in run.items() if phase not in AFTER)
    order = [phase for phase in runs[0] if phase not in AFTER]
    rows = []
    for phase in [*order, *AFTER]:
        values = [run[phase] for run in runs]
        rows.append((phase, f"{median(values):.1f}", f"{min(values):.1f}"))
    table(("biolatency, phase", "median ms", "best ms"), rows)
