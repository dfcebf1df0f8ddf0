"""A day of `pyebpf profile` at 49 Hz on two processors, by simulation: `python -m benchmarks.day_of_profile`.

Made-up samples of 20,000 different stacks, a few of which most samples have, go through the tool's own functions in
place of the kernel's; then the stacks are drawn. Without times the kernel counts, and the command has what is counted
when it ends. With them (`--times`, `--record`) each sample comes to the command. Needs no root.
"""

from __future__ import annotations

import os
import random
import resource
import sys
import time
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from benchmarks.measure import ENVIRONMENT, ROOT, table
from pyebpf.output.flamegraph import flame_graph
from pyebpf.output.stacks import fold
from pyebpf.programs import profile
from pyebpf.programs._thread_stacks import ThreadStacks
from pyebpf.symbols.frame import Frame
from pyebpf.tool import Stop

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

SECONDS, FREQUENCY, PROCESSORS = 86_400, 49, 2
SAMPLES = SECONDS * FREQUENCY * PROCESSORS
STACKS, DEPTH, BATCH = 20_000, 25, 4_096
OPTIONS = {"": {}, "--times": {"times": True}}


class Tracer:
    """Stands for the kernel: it has made-up stacks, counts and samples."""

    def __init__(self, stop: Stop) -> None:
        self.stop = stop
        self.stacks = self
        self.chance = random.Random(7)  # noqa: S311 - the same each time
        self.threads = [
            ThreadStacks(pid=number % 200, user=number, kernel=number, comm=f"thread-{number % 200}")
            for number in range(STACKS)
        ]
        self.weights = [self.chance.paretovariate(1.1) for _ in range(STACKS)]
        self.frames = [Frame(f"function_{number}", 0, "program", number) for number in range(5_000)]
        self.samples = [SimpleNamespace(time=0, thread=None) for _ in range(BATCH)]
        self.told = 0
        self.descriptor = os.eventfd(0)

    def __getitem__(self, name: str) -> Any:
        return self

    def interval(self) -> Mapping[ThreadStacks, int]:
        """As many as the map has room for, with all samples."""
        room = profile.Options().stack_storage_size
        unit = SAMPLES / sum(self.weights[:room])
        counts = (max(round(weight * unit), 1) for weight in self.weights)
        return dict(zip(self.threads[:room], counts, strict=False))

    def poll(self, _timeout: float) -> list[Any]:
        """The next samples; the stop, once a day has passed."""
        count = min(BATCH, SAMPLES - self.told)
        if not count:
            self.stop.set()
        start = time.monotonic_ns()
        for sample, thread in zip(self.samples, self.chance.choices(self.threads, self.weights, k=count), strict=False):
            sample.time = start + self.told * 10**9 // (FREQUENCY * PROCESSORS)
            sample.thread = thread
            self.told += 1
        return self.samples[:count]

    def fileno(self) -> int:
        """A descriptor on which nothing comes."""
        return self.descriptor

    def kernel(self, number: int) -> tuple[Frame, ...]:
        """A made-up stack."""
        chance = random.Random(number)  # noqa: S311 - the same each time
        return tuple(chance.choices(self.frames, k=DEPTH))

    def user(self, number: int, _process: int) -> tuple[Frame, ...]:
        """Another."""
        return self.kernel(number + STACKS)

    def release(self) -> None:
        """There is nothing to release."""


def collected(name: str) -> Iterator[Any]:
    """The stacks of the day."""
    with Stop() as stop:
        if not name:
            stop.set()
        yield from profile.collect(Tracer(stop), profile.Options(**OPTIONS[name]), stop)


def measure(name: str) -> None:
    """Print processor seconds, MiB by which the peak grows, stacks and the picture's size, for `main`."""
    before, start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
    stacks = list(collected(name))
    took = time.process_time() - start
    size = len(flame_graph(fold(stacks), title="", unit="samples"))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    print(f"{took:.1f}", peak // 1024, len(stacks), f"{size / 1e6:.1f}")


def main() -> None:
    """Print the table, each row from a process of its own."""
    import subprocess

    rows = []
    for name in OPTIONS:
        command = [sys.executable, "-m", "benchmarks.day_of_profile", name]
        run = subprocess.run(command, cwd=ROOT, env=ENVIRONMENT, capture_output=True, text=True, check=True)
        took, peak, stacks, size = run.stdout.split()
        rows.append([f"profile {name}".strip(), took, peak, f"{int(stacks):,}", size])
    table([f"{SAMPLES:,} samples", "processor seconds", "peak grows by MiB", "stacks", "picture MB"], rows)


if __name__ == "__main__":
    measure(sys.argv[1]) if len(sys.argv) > 1 else main()
