"""Compile time against program size, beside clang's: `python -m benchmarks.compile_time`.

Probes that grow in one thing each, for a made-up kernel: no root. pyebpf compiles as a user of the library does, with
Python's garbage collector on; clang -O2 compiles C that does the same, to an object without debugging information.
Times are of the processor, least of a few rounds, and clang's have its start in them. Linear compilation shows as a
constant number of microseconds for each instruction of the program.
"""

from __future__ import annotations

import gc
import resource
import shutil
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, NamedTuple

from benchmarks.measure import table
from pyebpf.dsl.module import Module
from tests.dsl.fake_target import FakeTarget
from tests.dsl.harness import probe

if TYPE_CHECKING:
    from collections.abc import Callable

ROUNDS = 3
#: Longer than this a round need not take to be repeated.
LONG = 2.0

C_HEAD = """
typedef unsigned long long u64; typedef unsigned u32; typedef long long s64;
#define SEC(name) __attribute__((section(name), used))
static void *(*lookup)(void *, const void *) = (void *)1;
static long (*update)(void *, const void *, const void *, u64) = (void *)2;
struct { int (*type)[1]; u32 *key; u64 *value; int (*max_entries)[10240]; } counts SEC(".maps");
struct { int (*type)[2]; u32 *key; s64 *value; int (*max_entries)[16]; } results SEC(".maps");
struct args { u64 common; s64 id; u64 count; };
static inline __attribute__((always_inline)) void add_one(u32 key) {
    u64 *value = lookup(&counts, &key), zero = 0;
    if (!value) { update(&counts, &key, &zero, 1); value = lookup(&counts, &key); if (!value) return; }
    __sync_fetch_and_add(value, 1);
}
static inline __attribute__((always_inline)) void set(u32 key, s64 number) {
    s64 *value = lookup(&results, &key);
    if (value) *value = number;
}
SEC("tracepoint/x") int probe(struct args *ctx) {
    u64 count = ctx->count, total = 0, mixed = count;
"""
C_TAIL = "set(0, total); return 1; }\n"


class Part(NamedTuple):
    """One statement of a kind, in both languages, by its number; `sizes` are how many of them are measured."""

    python: Callable[[int], str]
    c: Callable[[int], str]
    sizes: tuple[int, ...]


def _mixed(number: int) -> str:
    shift, mask, slot = 1 + number % 13, (1 << number % 11) - 1, number % 16
    return (
        f"mixed = (mixed * 31 + count) ^ (mixed >> {shift})\n"
        f"if mixed & {mask} == 0:\n    results[{slot}] = mixed\n"
        f"elif count > {shift}:\n    counts[{slot}] += 1\n"
        f"for i in range(3):\n    total += mixed // (i + {shift})\n"
    )


def _mixed_c(number: int) -> str:
    shift, mask, slot = 1 + number % 13, (1 << number % 11) - 1, number % 16
    return (
        f"mixed = (mixed * 31 + count) ^ (mixed >> {shift});\n"
        f"if ((mixed & {mask}) == 0) set({slot}, mixed); else if (count > {shift}) add_one({slot});\n"
        '_Pragma("clang loop unroll(disable)")\n'
        f"for (u64 i = 0; i < 3; i++) total += mixed / (i + {shift});\n"
    )


PARTS = {
    "keyed counts": Part(lambda n: f"counts[{n}] += 1\n", lambda n: f"add_one({n});\n", (10, 100, 1_000, 5_000)),
    "branches": Part(
        lambda n: f"if count == {7 * n}:\n    total += {n + 1}\n",
        lambda n: f"if (count == {7 * n}) total += {n + 1};\n",
        (10, 100, 1_000, 5_000),
    ),
    "elifs": Part(
        lambda n: f"{'elif' if n else 'if'} count == {7 * n}:\n    total += {n + 1}\n",
        lambda n: f"{'else if' if n else 'if'} (count == {7 * n}) total += {n + 1};\n",
        (10, 100, 900),
    ),
    "code of all kinds": Part(_mixed, _mixed_c, (3, 10, 30, 100, 300)),
}


def compiled(part: Part, size: int) -> tuple[int, float]:
    """Instructions, and the seconds that a module of one such probe takes."""
    body = "".join(["mixed = count\ntotal = u64(0)\n", *map(part.python, range(size)), "results[0] = total\n"])
    times = []
    for _ in range(ROUNDS):
        made = probe(body, "count: u64")
        module = Module()
        module.probes.append(made)
        target = FakeTarget()
        began = time.process_time()
        spec = module.compile(target)
        times.append(time.process_time() - began)
        if times[-1] > LONG:
            break
    return len(spec.programs[0].code.instructions), min(times)


def by_clang(clang: str, part: Part, size: int) -> float:
    """Seconds of the processor that clang takes for the same."""
    times = []
    with TemporaryDirectory() as folder:
        source = Path(folder, "probe.c")
        source.write_text(C_HEAD + "".join(map(part.c, range(size))) + C_TAIL)
        command = [clang, "-O2", "-mcpu=v3", "-target", "bpf", "-c", str(source), "-o", str(Path(folder, "probe.o"))]
        for _ in range(ROUNDS):
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            subprocess.run(command, check=True)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            times.append(after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime)
            if times[-1] > LONG:
                break
    return min(times)


def main() -> None:
    """Print a row for each size."""
    clang = next((found for name in ("clang-19", "clang") if (found := shutil.which(name))), None)
    rows = []
    for name, part in PARTS.items():
        for size in part.sizes:
            gc.collect()
            instructions, seconds = compiled(part, size)
            beside = None if clang is None else by_clang(clang, part, size)
            rows.append(
                (
                    f"{size:,} {name}",
                    f"{instructions:,}",
                    f"{seconds * 1e3:,.1f}",
                    "" if beside is None else f"{beside * 1e3:,.1f}",
                    f"{seconds / instructions * 1e6:.1f}",
                )
            )
            sys.stderr.write(f"{' '.join(rows[-1])}\n")
    table(("probe of", "instructions", "pyebpf ms", "clang ms", "pyebpf µs an instruction"), rows)


if __name__ == "__main__":
    main()
