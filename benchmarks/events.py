"""Records through perf buffers and user ring buffers a second, by the public API: `python -m benchmarks.events`.

A program sends records of 24 bytes to the perf buffer, again and again; only the reading is timed. Ring buffers have
their own: `python -m benchmarks.ring_buffer`. Needs root.
"""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

from benchmarks.measure import median, table
from pyebpf import BPF, Struct, now, u64
from pyebpf.events import UserRingBuffer
from pyebpf.features import Answer, Features
from pyebpf.objects import make_map
from pyebpf.specs import MapKind, MapSpec

if TYPE_CHECKING:
    from collections.abc import Sequence

ROUNDS = 9
CALLS = 61
RECORDS_A_CALL = 211
#: No process can have such an id, so that nobody else asks for it.
NOBODY = 1 << 30


class Record(Struct):
    """Three numbers: 24 bytes, 40 with the header and the size."""

    at: u64
    a: u64
    b: u64


def perf_rate(*, overwrite: bool) -> float:
    """Records a second of poll()."""
    bpf = BPF()
    events = bpf.perf_buffer(Record, pages=256, overwrite=overwrite, name="events")

    @bpf.tracepoint("syscalls:sys_enter_getpgid")
    def fill(pid: int) -> None:
        if pid == NOBODY:
            for i in range(RECORDS_A_CALL):
                events.emit(Record(at=now(), a=i, b=2))

    rates = []
    with bpf:
        for _ in range(ROUNDS):
            for _ in range(CALLS):
                try:
                    os.getpgid(NOBODY)
                except ProcessLookupError:
                    continue
            start = time.perf_counter()
            got: Sequence[Record] = events.poll()
            rates.append(len(got) / (time.perf_counter() - start))
            assert len(got) == CALLS * RECORDS_A_CALL, len(got)
        assert not bpf.lost, bpf.lost
    return median(rates)


def user_ring_rate() -> float:
    """Records a second of send(), until a buffer of 4 MiB is full."""
    rates = []
    for _ in range(ROUNDS):
        with (
            make_map(MapSpec("ring", MapKind.USER_RINGBUF, None, None, 1 << 22)) as ring,
            UserRingBuffer(ring, Record.layout) as writer,
        ):
            record, count = Record(1, 2, 3), 0
            start = time.perf_counter()
            while writer.send(record):
                count += 1
            rates.append(count / (time.perf_counter() - start))
    return median(rates)


def main() -> None:
    """Print the rates."""
    rows = [
        ("perf buffer, events.poll()", f"{perf_rate(overwrite=False):,.0f}"),
        ("perf buffer that overwrites, events.poll()", f"{perf_rate(overwrite=True):,.0f}"),
    ]
    if Features().ask("map:user_ringbuf") is Answer.YES:
        rows.append(("user ring buffer, send()", f"{user_ring_rate():,.0f}"))
    table(("what", "records a second"), rows)


if __name__ == "__main__":
    main()
