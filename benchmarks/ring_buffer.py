"""Records read from a ring buffer a second, through the public API: `python -m benchmarks.ring_buffer`.

A program fills a buffer of a MiB with records of 32 bytes, four u64, again and again; only the reading is timed.
Beside it the same number of records unpacked from a bytes object by a plain `struct.iter_unpack` loop, which is what
a reader without a kernel would cost. Needs root.
"""

from __future__ import annotations

import os
import struct
import sys
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from benchmarks.measure import iterated, median, table
from pyebpf import BPF, Struct, now, u64

if TYPE_CHECKING:
    from collections.abc import Callable

ROUNDS = 9
PORTIONS = 16
SIZE = 1 << 20
CALLS = 23
RECORDS_A_CALL = 1009
#: No process can have such an id, so that nobody else asks for it.
NOBODY = 1 << 30


class Record(Struct):
    """Four numbers: 32 bytes, 40 with the header of the buffer."""

    at: u64
    a: u64
    b: u64
    c: u64


def readers(bpf: BPF) -> dict[str, Callable[[int], int]]:
    """Ways of reading `count` records; each returns how many it saw."""
    events = bpf["events"]

    plain = struct.Struct("<8x4Q")

    def unpack(count: int) -> int:
        seen, data = 0, bytes(plain.size * count)
        for _record in plain.iter_unpack(data):
            seen += 1
        return seen

    return {
        "for record in events": lambda count: iterated(events, count),
        "events.poll()": lambda _: sum(1 for _ in events.poll()),
        "events.tuples()": lambda _: sum(1 for _ in events.tuples()),
        "struct.iter_unpack, no kernel": unpack,
    }


def main() -> None:
    """Fill and read, the ways taking turns."""
    bpf = BPF()
    events = bpf.ringbuf(Record, size=SIZE, name="events")

    @bpf.tracepoint("syscalls:sys_enter_getpgid")
    def fill(pid: int) -> None:
        if pid == NOBODY:
            for i in range(RECORDS_A_CALL):
                events.emit(Record(at=now(), a=i, b=2, c=3))

    def portion(read: Callable[[int], int], *, filled: bool) -> float:
        """Seconds to read what a full buffer holds."""
        for _ in range(CALLS if filled else 0):
            with suppress(ProcessLookupError):
                os.getpgid(NOBODY)
        began = time.perf_counter()
        seen = read(CALLS * RECORDS_A_CALL)
        took = time.perf_counter() - began
        if seen != CALLS * RECORDS_A_CALL or bpf.dropped:
            sys.exit(f"{seen} of {CALLS * RECORDS_A_CALL} records; lost {dict(bpf.dropped)}")
        return took

    taken: dict[str, list[float]] = {}
    with bpf:
        for _ in range(ROUNDS):
            for name, read in readers(bpf).items():
                times = [portion(read, filled=not name.startswith("struct")) for _ in range(PORTIONS)]
                taken.setdefault(name, []).append(sum(times))
    count = CALLS * RECORDS_A_CALL * PORTIONS
    rows = [
        (name, f"{count / median(times) / 1e6:.1f}", f"{count / min(times) / 1e6:.1f}") for name, times in taken.items()
    ]
    table(("records of 32 bytes, millions a second", "median", "best"), rows)


if __name__ == "__main__":
    main()
