"""What `import pyebpf` adds to an interpreter's start: `python -m benchmarks.import_time`."""

from __future__ import annotations

import sys

from benchmarks.measure import median, seconds, table

ROUNDS = 21


def main() -> None:
    """Print medians and minima over several rounds, the programs taking turns."""
    programs = {
        "python -c pass": "pass",
        "import pyebpf": "import pyebpf",
        "from pyebpf import BPF": "from pyebpf import BPF",
    }
    for program in programs.values():
        seconds([sys.executable, "-c", program])  # writes bytecode
    times: dict[str, list[float]] = {name: [] for name in programs}
    for _ in range(ROUNDS):
        for name, program in programs.items():
            times[name].append(seconds([sys.executable, "-c", program]))
    table(
        ("program", "median ms", "best ms"),
        [(name, f"{median(taken) * 1e3:.1f}", f"{min(taken) * 1e3:.1f}") for name, taken in times.items()],
    )


if __name__ == "__main__":
    main()
