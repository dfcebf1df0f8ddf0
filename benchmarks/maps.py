"""Map entries read and written a second, through the public API: `python -m benchmarks.maps`.

Hashes of 100,003 entries from u64 to u64, and to a record of three fields; beside batches, the same entries by one
system call a key and, where it is installed, by bpftool, which prints them. Needs root.
"""

from __future__ import annotations

import shutil
import subprocess
import time
from typing import TYPE_CHECKING

from benchmarks.measure import median, table
from pyebpf import Struct, u32, u64
from pyebpf.kernel import map_elements
from pyebpf.objects import Map, elements
from pyebpf.specs import MapSpec
from pyebpf.types import U32, U64
from pyebpf.types.codecs import encode_all
from pyebpf.uapi.bpf import MapType
from pyebpf.uapi.flags import BPF_F_MMAPABLE

if TYPE_CHECKING:
    from collections.abc import Callable

ROUNDS = 7
ENTRIES = 100_003
MANY = 1_000_000


class Flow(Struct):
    """A value of three fields, 24 bytes."""

    packets: u64
    size: u64
    port: u32


def rate(work: Callable[[], object]) -> float:
    """Entries a second: the median of several rounds."""
    times = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return ENTRIES / median(times)


def processor_rates(ways: dict[str, Callable[[], object]]) -> dict[str, float]:
    """Entries a second of processor time: the best of several rounds, the ways in turn."""
    best = dict.fromkeys(ways, float("inf"))
    for _ in range(ROUNDS):
        for what, work in ways.items():
            start = time.process_time()
            made = work()
            best[what] = min(best[what], time.process_time() - start)
            del made
    return {what: MANY / seconds for what, seconds in best.items()}


def many_ways(many: Map) -> dict[str, Callable[[], object]]:
    """Ways to write and read a table of a million numbers, and what the kernel and Python take for a part of each."""
    million = {key * 7: key for key in range(MANY)}
    keys, values = encode_all(U32, million), encode_all(U64, million.values())
    elements.write(many.fileno(), MANY, keys, values)

    def read() -> tuple[bytes, bytes]:
        """The map's bytes, in its order."""
        batches = list(elements.read(many.fileno(), 4, 8, MANY))
        return b"".join(keys for keys, _, _ in batches), b"".join(values for _, values, _ in batches)

    read_keys, read_values = read()
    one_of = 10  # a tenth of the entries stands for all of them, where each takes a system call
    some = keys[: len(keys) // one_of]

    def each_key() -> None:
        for _ in range(one_of):
            for at in range(0, len(some), 4):
                map_elements.map_lookup_elem(many.fileno(), some[at : at + 4], 8)

    return {
        "the system calls of update() alone": lambda: elements.write(many.fileno(), MANY, keys, values),
        "update()": lambda: many.update(million),
        "update() of a generator": lambda: many.update((key, value) for key, value in million.items()),
        "the system calls of reading alone": lambda: sum(
            count for _, _, count in elements.read(many.fileno(), 4, 8, MANY)
        ),
        "a dictionary of what was read, alone": lambda: dict(
            zip(memoryview(read_keys).cast("I"), memoryview(read_values).cast("Q"), strict=True)
        ),
        "for key, value in items()": lambda: [None for _, _ in many.items()],
        "list(m)": lambda: list(many),
        "snapshot()": many.snapshot,
        "dict(m)": lambda: dict(many),
        "a look-up a key": each_key,
    }


def main() -> None:
    """Read and write each kind in each way."""
    rows: list[tuple[str, str]] = []

    def measured(what: str, work: Callable[[], object]) -> None:
        rows.append((what, f"{rate(work):,.0f}"))

    numbers = {key: key * 3 for key in range(ENTRIES)}
    with Map(MapSpec("plain", MapType.HASH, U64, U64, ENTRIES)) as plain:
        measured("hash of u64: update() of all, in batches", lambda: plain.update(numbers))
        measured("hash of u64: items(), in batches", lambda: sum(1 for _ in plain.items()))
        measured("hash of u64: raw_items(), in batches", lambda: sum(1 for _ in plain.raw_items()))
        measured(
            "hash of u64: a look-up a key",
            lambda: sum(1 for _ in elements.read_each(plain.fileno(), 8, 8, ENTRIES)),
        )
        if tool := shutil.which("bpftool"):
            dump = [tool, "map", "dump", "id", str(plain.info().id)]
            measured(
                "hash of u64: bpftool map dump",
                lambda: subprocess.run(dump, stdout=subprocess.DEVNULL, check=True),
            )
        measured("hash of u64: plain[key]", lambda: [plain[key] for key in range(ENTRIES)])
    for kind in (MapType.PERCPU_HASH, MapType.LRU_HASH):
        # An LRU table gives up entries before it is full: room for twice as many.
        with Map(MapSpec("plain", kind, U64, U64, 2 * ENTRIES)) as other:
            other.update(numbers)
            measured(f"{kind.name.lower()} of u64: items()", lambda other=other: sum(1 for _ in other.items()))
    # As a user has it: a million entries, the garbage collector on. Processor time, which neighbours change least.
    with Map(MapSpec("many", MapType.HASH, U32, U64, MANY)) as many:
        for what, found in processor_rates(many_ways(many)).items():
            rows.append((f"a million of u32 and u64: {what}", f"{found:,.0f}"))
    with Map(MapSpec("flows", MapType.HASH, U64, Flow.layout, ENTRIES)) as flows:
        flows.update({key: Flow(key, 1, 2) for key in range(ENTRIES)})
        measured("hash of records: items()", lambda: sum(1 for _ in flows.items()))
    with Map(MapSpec("counts", MapType.ARRAY, U32, U64, ENTRIES, BPF_F_MMAPABLE)) as counts:
        measured("array of u64: values(), in batches", lambda: sum(1 for _ in counts.values()))
        window = counts.window()
        measured("array of u64: window().tolist(), no system call", lambda: sum(1 for _ in window.tolist()))
    table(("what", "entries a second"), rows)


if __name__ == "__main__":
    main()
