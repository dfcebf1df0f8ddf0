"""Records through perf buffers and user ring buffers a second, by the public API: `python -m benchmarks.events`.

A program sends records of 24 bytes to the perf buffer, again and again; only the reading is timed. Ring buffers have
their own: `python -m benchmarks.ring_buffer`. Needs root.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from benchmarks.measure import iterated, median, table
from pyebpf import BPF, Struct, now, u64
from pyebpf.events import UserRingBuffer
from pyebpf.features import Features, Support
from pyebpf.objects import make_map
from pyebpf.specs import MapSpec
from pyebpf.uapi.bpf import MapType

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyebpf.maps.perf_event_array import PerfBuffer

ROUNDS = 33
CALLS = 61
RECORDS_A_CALL = 211
#: No process can have such an id, so that nobody else asks for it.
NOBODY = 1 << 30


class Record(Struct):
    """Three numbers: 24 bytes, 40 with the header and the size."""

    at: u64
    a: u64
    b: u64


def polled(events: PerfBuffer[Record], _count: int) -> int:
    """Records that poll() returned."""
    return len(events.poll())


def perf_rate(read: Callable[[PerfBuffer[Record], int], int], *, overwrite: bool) -> float:
    """Records a second."""
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
                with suppress(ProcessLookupError):
                    os.getpgid(NOBODY)
            start = time.perf_counter()
            seen = read(events, CALLS * RECORDS_A_CALL)
            rates.append(seen / (time.perf_counter() - start))
            assert seen == CALLS * RECORDS_A_CALL, seen
        assert not bpf.dropped, bpf.dropped
    return median(rates)


def user_ring_rate() -> float:
    """Records a second of send(), until a buffer of 4 MiB is full."""
    rates = []
    for _ in range(ROUNDS):
        with (
            make_map(MapSpec("ring", MapType.USER_RINGBUF, None, None, 1 << 22)) as ring,
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
        (f"{what}, {way}", f"{perf_rate(read, overwrite=overwrite):,.0f}")
        for what, overwrite in (("perf buffer", False), ("perf buffer that overwrites", True))
        for way, read in (("for record in events", iterated), ("events.poll()", polled))
    ]
    if Features().ask("map:user_ringbuf") is Support.YES:
        rows.append(("user ring buffer, send()", f"{user_ring_rate():,.0f}"))
    table(("what", "records a second"), rows)


if __name__ == "__main__":
    main()
