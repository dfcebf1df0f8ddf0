"""Stacks without frame pointers, by `.eh_frame` and by the kernel's walk: `python -m benchmarks.unwinding`.

A Python program sorts; its interpreter and C library have no frame pointers. The cost of a sample is that of the whole
probe, as the kernel counts it (BPF_ENABLE_STATS). Needs root.
"""

from __future__ import annotations

import subprocess
import sys
import time
from typing import TYPE_CHECKING

from benchmarks.measure import table
from pyebpf import BPF, s32, u64, ustack
from pyebpf.elf.call_frame_program import ROW
from pyebpf.elf.call_frames import call_frames
from pyebpf.kernel.bpf import enable_stats
from pyebpf.symbols.files import ElfFile
from pyebpf.symbols.mappings import read_mappings
from pyebpf.unwinding import Unwinder

if TYPE_CHECKING:
    from collections.abc import Iterator

SORTING = "while True: sorted(range(1000), key=lambda number: -number)"
FREQUENCY, SECONDS = 999, 5.0


def sampled(process: int, *, unwound: bool) -> tuple[str, str, str, str]:
    """Frames a stack, nanoseconds a sample, and what share of the stacks reaches the start of the program."""
    bpf = BPF()
    unwinder = Unwinder(bpf, [process]) if unwound else None
    counts = bpf.hash(key=s32, value=u64)

    @bpf.sample(frequency=FREQUENCY, pid=process)
    def on_sample() -> None:
        counts[ustack() if unwinder is None else unwinder.ustack()] += 1

    began = time.monotonic()
    with bpf, enable_stats():
        loaded = time.monotonic() - began
        time.sleep(SECONDS)
        info = next(iter(bpf.programs.values())).info()
        found = dict(counts)  # it goes on counting
        total = sum(found.values())
        frames = sum(len(bpf.stacks.frames(number)) * count for number, count in found.items())
        whole = sum(count for number, count in found.items() if bpf.stacks.user(number, process)[-1].name == "_start")
    cost = info.run_time_ns // max(info.run_count, 1)
    return f"{frames / total:.1f}", f"{cost:,}", f"{100 * whole / total:.0f}%", f"{loaded:.2f}"


def files(process: int) -> Iterator[tuple[str, str, str]]:
    """Rows of each file that the process has mapped, and seconds of the processor that they take."""
    for path in dict.fromkeys(mapping.path for mapping in read_mappings(process) if mapping.is_file):
        began = time.process_time()
        size = sum(len(piece) for piece in call_frames(ElfFile(path)))
        yield path.rpartition("/")[2], f"{size // ROW.size:,}", f"{time.process_time() - began:.2f}"


def main() -> int:
    """Print both tables."""
    with subprocess.Popen([sys.executable, "-c", SORTING]) as process:
        try:
            time.sleep(1)
            rows = [
                (name, *sampled(process.pid, unwound=unwound))
                for name, unwound in (("ustack()", False), ("Unwinder.ustack()", True))
            ]
            table(("a sample", "frames", "ns", "whole", "seconds to load"), rows)
            print()
            table((".eh_frame", "rows", "processor seconds"), list(files(process.pid)))
        finally:
            process.kill()
    return 0


if __name__ == "__main__":
    sys.exit(main())
