"""What a hit of each kind of probe in user space costs the program that comes by: `python -m benchmarks.uprobes`.

A program calls one function many times, with and without a probe; the difference is the cost of a hit. `empty` is a
probe that does nothing, `keyed` counts by process in a hash. Needs root, and gcc.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from benchmarks.measure import table
from pyebpf import BPF, pid, s64, u32, u64
from pyebpf.features import Features
from tests.support.traced import Traced, binary

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyebpf.attach.decorators import TracingDecorator

ROUNDS = 23  # other work on the machine only ever adds time: the least is the measure
CALLS = 5_003


def seconds(traced: Traced, what: str) -> float:
    """How long `CALLS` calls take."""
    start = time.perf_counter()
    traced.tell(f"{what} {CALLS}")
    return time.perf_counter() - start


def modules(decorate: Callable[[BPF], TracingDecorator], *, argument: bool = False) -> dict[str, BPF]:
    """An empty probe, one that counts by key, and perhaps one that takes an argument."""
    empty, keyed = BPF(), BPF()
    counts = keyed.hash(key=u32, value=u64)

    @decorate(empty)
    def nothing() -> None:
        pass

    @decorate(keyed)
    def count() -> None:
        counts[pid()] += 1

    found = {"empty": empty, "keyed": keyed}
    if argument:
        last = BPF()
        values = last.array(value=u64)

        @decorate(last)
        def take(n: s64) -> None:
            values[0] += u64(n)

        found["argument"] = last
    return found


def main() -> None:
    """Print the costs in nanoseconds a hit."""
    path = binary("static")
    kinds: dict[str, tuple[str, dict[str, BPF]]] = {
        "uprobe": ("stepping", modules(lambda bpf: bpf.uprobe(path, "stepping"), argument=True)),
        # `stepping` begins with an instruction that the kernel emulates (nop, push, call, jumps), `forms` with another.
        "uprobe, stepped": ("forms", modules(lambda bpf: bpf.uprobe(path, "forms"))),
        "uretprobe": ("stepping", modules(lambda bpf: bpf.uretprobe(path, "stepping"))),
        "usdt": ("twice", modules(lambda bpf: bpf.usdt(path, "traced:twice"), argument=True)),
    }
    rows = []
    with Traced(path) as traced:
        for kind, (what, made) in kinds.items():
            hits = 2 if kind == "usdt" else 1  # `twice` has two places
            bare = min(seconds(traced, what) for _ in range(ROUNDS))
            for job, bpf in made.items():
                with bpf:
                    cost = min(seconds(traced, what) for _ in range(ROUNDS)) - bare
                rows.append((kind, job, f"{cost / CALLS / hits * 1e9:,.0f}"))
    way = "uprobe.multi" if Features().has("attach:uprobe_multi") else "perf events"
    table((f"probe, by {way}", "program", "ns a hit"), rows)


if __name__ == "__main__":
    main()
