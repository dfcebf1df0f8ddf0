"""Block I/O: a line for each request that a device has completed, with its process and latency.

LAT(ms) is the time from the issue to the device until the completion, QUE(ms), with -Q, the time before that, from the
queueing of the request: waiting for the scheduler, and for others to merge with. COMM and PID are the process that
queued the request, which may be a thread of the kernel that writes for others. T is R for a read, W for a write, F for
a flush of the device's cache, D for a discard, E for a secure erase, A for a zone append, Z for writing zeroes, N for
another. Requests are followed by the address of struct request: one that was merged into another is part of that one's
line, one that was issued again is timed from its last issue, one that completes in parts until its last part.

Overhead: three programs and four map operations for each request, and a line.
"""

from __future__ import annotations

from typing import Any

from pyebpf import Struct, char, field, now, u32, u64
from pyebpf.programs._block import (
    LETTERS,
    NO_SECTOR,
    OPERATION_MASK,
    SECTOR,
    Requests,
    disk_of,
    disk_option,
    forget_starts,
    has_position,
    is_wanted,
    operation_name,
    sector_of,
)
from pyebpf.tool import Column, EventTool, Example, dataclass, flag, option

MILLISECOND = 1_000_000
#: The longest time that -m takes: an hour.
LONGEST = 3_600_000
#: Patterns by the number in a record, 0 for a request without position or if -P is not given.
PATTERNS = (None, "sequential", "random")
SEQUENTIAL, RANDOM = 1, 2


class Completed(Struct):
    """A request that a device has completed: times in nanoseconds, `size` in bytes, `flags` the kernel's cmd_flags."""

    time: u64
    queued: u64
    elapsed: u64
    position: u64
    size: u32
    pid: u32
    flags: u32
    order: u32
    comm: str = field(char[16])
    disk: str = field(char[32])

    @property
    def operation(self) -> str:
        """The operation's name, as biolatency has it."""
        return operation_name(self.flags)

    @property
    def direction(self) -> str:
        """Whether data goes to the device, "write", or comes from it, "read"; the kernel counts a flush as a read."""
        return "write" if self.flags & 1 else "read"

    @property
    def letter(self) -> str:
        """The letter of the operation."""
        return LETTERS.get(self.flags & OPERATION_MASK, "N")

    @property
    def sector(self) -> int | None:
        """The first sector, of 512 bytes; None of a flush, and of commands of the driver's own."""
        return sector_of(self.flags, self.position)

    @property
    def pattern(self) -> str | None:
        """Whether it began where the disk's request before it ended: "sequential" or "random"; None if neither."""
        return PATTERNS[self.order]


@dataclass(frozen=True)
class Options:
    """Options: which requests to report, and which times."""

    queued: bool = flag("-Q", "--queued", help="show the time in the operating system's queue, too", output_only=True)
    disk: str | None = disk_option()
    minimum: float | None = option(
        "-m", "--min", metavar="MS", help="only latencies of at least this", minimum=0, maximum=LONGEST
    )
    pattern: bool = flag("-P", "--pattern", help="show whether they are sequential or random")


def build(options: Options) -> Requests:
    """The probes and their maps; nothing is loaded yet."""
    bpf = Requests()
    completions = bpf.ringbuf(Completed, name="completions")
    minimum = int((options.minimum or 0) * MILLISECOND) or None
    if options.pattern:
        # The sector behind the last request of each disk, by its address.
        ends = bpf.hash(key=u64, value=u64, size=4096, name="ends")

    def order_of(rq: Any, start: Any) -> int:
        if not options.pattern or not has_position(rq) or start.size == 0:
            return 0
        disk = u64(disk_of(rq))
        order = SEQUENTIAL if ends.get(disk, NO_SECTOR) == start.sector else RANDOM
        ends[disk] = start.sector + start.size // SECTOR
        return order

    def completed(rq: Any, start: Any) -> None:
        if not is_wanted(rq, options.disk):
            return
        time, order = now(), order_of(rq, start)
        if minimum is not None and time - start.issued < minimum:
            return
        completions.emit(
            Completed(
                time=time,
                queued=start.issued - start.queued,
                elapsed=time - start.issued,
                position=start.sector,
                size=start.size,
                pid=start.pid,
                flags=rq.cmd_flags,
                order=order,
                comm=start.comm,
                disk=disk_of(rq).disk_name,
            )
        )

    bpf.completed = completed
    return bpf


def letter_of_pattern(request: Completed) -> str | None:
    """Its letter in a column."""
    return request.pattern and request.pattern[0].upper()


def columns(options: Options) -> tuple[Column, ...]:
    """Those of the book; -P and -Q print one more each."""
    return (
        Column("TIME", 8),
        Column("COMM", 14),
        Column("PID", 7),
        Column("DISK", 8),
        Column(
            "T",
            1,
            key="letter",
            value="operation",
            field="operation",
            type="str",
            classes=("Read", "Write", "Flush", "Discard"),
        ),
        Column("DIRECTION", printed=False),
        Column("SECTOR", 10, ">"),
        Column("BYTES", 7, ">", key="size", field="size_bytes"),
        *(
            [Column("P", 1, key=letter_of_pattern, value="pattern", field="pattern", type="str | None")]
            if options.pattern
            else []
        ),
        Column("QUE(ms)", 8, ">", key="queued", scale=10**6, decimals=2, field="queued_ns", printed=options.queued),
        Column("LAT(ms)", 8, ">", key="elapsed", scale=10**6, decimals=3, field="latency_ns", drawn=True),
    )


TOOL = EventTool(
    name="biosnoop",
    doc=__doc__,
    section="9.3.2",
    tracing="block device I/O",
    options=Options,
    build=build,
    drop_labels={"completions": "requests", "starts": "requests under way", "ends": "positions on further disks"},
    reset=forget_starts,
    record=Completed,
    columns=columns,
    examples=(
        Example("biosnoop", "every request of the machine"),
        Example("biosnoop -Q", "with the time in the queue"),
        Example("biosnoop -m 10", "those that took 10 ms and longer"),
        Example("biosnoop -P --disk sda", "of one disk, sequential or random"),
        Example("biosnoop --disk sda --csv", "of one disk, as CSV"),
        Example("biosnoop --scatter io.svg -d 60", "a minute as a picture"),
    ),
)
open = TOOL.open  # noqa: A001 - the library's spelling of every tool: biosnoop.open(disk="sda")
