"""Block I/O requests: the names of their operations, flags and disks, and `Requests`, which follows each to its end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyebpf import BPF, KernelObject, NotFound, NotSupported, Struct, char, comm, field, has_field, now, pid, u32, u64
from pyebpf.tool import option

if TYPE_CHECKING:
    from collections.abc import Callable

#: include/linux/blk_types.h: enum req_op is the low 8 bits of cmd_flags, enum req_flag_bits what follows. Both are the
#: same from Linux 6.1 to 6.18 for the names here; those of zoned devices were renumbered between.
FLUSH = 2
OPERATIONS = {
    0: "Read",
    1: "Write",
    FLUSH: "Flush",
    3: "Discard",
    5: "SecureErase",
    7: "ZoneAppend",
    9: "WriteZeroes",
    34: "DriverIn",
    35: "DriverOut",
}
#: Their letters in a column; "N" for the others, as the kernel has it.
LETTERS = {0: "R", 1: "W", FLUSH: "F", 3: "D", 5: "E", 7: "A", 9: "Z"}
OPERATION_MASK = 0xFF
#: The operations from here on are a driver's own, and have no position on the disk.
DRIVER_OPERATIONS = 32
FLAGS = {
    11: "Sync",
    12: "Metadata",
    13: "Priority",
    14: "NoMerge",
    15: "Idle",
    16: "Integrity",
    17: "ForcedUnitAccess",
    18: "PreFlush",
    19: "ReadAhead",
    20: "Background",
    21: "NoWait",
}
SECTOR = 512
#: The position of a request that has none, such as a flush.
NO_SECTOR = (1 << 64) - 1
#: The functions that account for a new request, where no tracepoint tells of it: in Linux 5.10, in 6.1.
ACCOUNTING = ("blk_account_io_start", "__blk_account_io_start")
NOT_TOLD = (
    "this kernel does not tell when a request is queued: Linux 6.5 and later have the tracepoint block_io_start, older "
    "kernels a function that can be traced (CONFIG_KPROBES)"
)


def operation_name(flags: int) -> str:
    """The operation in a request's cmd_flags: "Read"."""
    return OPERATIONS.get(flags & OPERATION_MASK, "Unknown")


def flag_names(flags: int) -> str:
    """Format a request's cmd_flags as bcc does: "Sync-Metadata-Write"."""
    return "-".join([*(name for bit, name in reversed(FLAGS.items()) if flags >> bit & 1), operation_name(flags)])


def sector_of(flags: int, position: int) -> int | None:
    """The sector at a request's position; None of a flush, and of commands of the driver's own."""
    return None if flags & OPERATION_MASK >= DRIVER_OPERATIONS or position == NO_SECTOR else position


def disk_of(rq: Any) -> Any:
    """In a probe: a request's struct gendisk."""
    # Since Linux 5.15 (d152c682f03c) the queue knows its disk; the request did until 5.17.
    return rq.q.disk if has_field("struct request_queue", "disk") else rq.rq_disk


def has_position(rq: Any) -> bool:
    """In a probe: whether a request has a place on the disk, which flushes and a driver's own commands have not."""
    operation = rq.cmd_flags & OPERATION_MASK
    return bool(operation != FLUSH and operation < DRIVER_OPERATIONS)


def is_done(rq: Any, nr_bytes: int) -> bool:
    """In a probe of block_rq_complete: whether that was the last part of a request that the device had.

    A write that asks for a flush completes again, without bytes, when the flush is done, and one without data only so.
    """
    operation = rq.cmd_flags & OPERATION_MASK
    return bool(nr_bytes >= rq.__data_len and (nr_bytes != 0 or operation >= FLUSH))


def disk_option() -> Any:
    """`--disk DISK`, None by default."""
    return option("--disk", metavar="DISK", help="only this disk, by its name, such as sda", names="disk")


def is_wanted(rq: KernelObject, disk: str | None) -> bool:
    """In a probe: whether a request is for the disk of this name; for None each is."""
    return bool(disk is None or disk_of(rq).disk_name == disk)


class QueuedRequests(BPF):
    """A module that calls `queued`, a probe function, with each struct request that a process has queued.

    The process is the one that runs. Flushes of a device's cache, which the kernel adds, and commands of a driver's own
    are not queued. A kernel that does not tell, such as Debian's 6.1, whose compiler has inlined the function, calls
    `inserted` with each request that a process has handed to the I/O scheduler; if it is None, that is an error.
    """

    def __init__(self) -> None:
        super().__init__()
        self.queued: Callable[[Any], None]
        self.inserted: Callable[[Any], None] | None = None
        self._declared = False

    def compile(self, target: Any, **options: Any) -> Any:
        """As every module's; the probe is the one that the kernel has. Raises NotSupported without one."""
        if not self._declared:
            self._declared = True
            self._declare(target)
        return super().compile(target, **options)

    def _declare(self, target: Any) -> None:
        queued, inserted = self.queued, self.inserted or self.queued

        def on_queue(rq: KernelObject) -> None:
            queued(rq)

        def on_insert(rq: KernelObject) -> None:
            inserted(rq)

        try:
            target.raw_tracepoint("block_io_start")
        except NotFound:
            functions = [name for name in ACCOUNTING if target.has_function(name)]
            if functions:
                self.function(*functions, optional=self.inserted is not None)(on_queue)
            elif self.inserted is not None:
                self.btf_tracepoint("block_rq_insert")(on_insert)
            else:
                raise NotSupported(NOT_TOLD) from None
        else:
            self.btf_tracepoint("block_io_start")(on_queue)


class Start(Struct):
    """Beginning of a request: times in nanoseconds, `issued` 0 before, and the process that queued it."""

    queued: u64
    issued: u64
    sector: u64
    size: u32
    pid: u32
    comm: str = field(char[16])


class Requests(QueuedRequests):
    """A module that calls `completed`, a probe function, with each request that a device has completed, and its Start.

    A request that was merged into another ends with that one, one that is issued again is timed from its last issue,
    and one that completes in parts ends with its last. What was neither queued nor inserted (QueuedRequests) has the
    process that ran when it was issued. Requests that never get to the device are left out: those that only ask for a
    flush.
    """

    def __init__(self) -> None:
        super().__init__()
        self.completed: Callable[[Any, Any], None]
        self.starts = self.hash(key=u64, value=Start, size=65_536, name="starts")
        _follow_starts(self)

    def _declare(self, target: Any) -> None:
        super()._declare(target)
        _follow_ends(self, self.completed)


# These stand outside the class, where Python would take rq.__sector for a private attribute of the class.


def _follow_starts(bpf: Requests) -> None:
    """Follow requests from where they are queued or inserted, and issued."""
    starts = bpf.starts

    @bpf.btf_tracepoint("block_rq_issue")
    def on_issue(rq: KernelObject) -> None:
        start = starts.get(rq)
        if start is None:
            issued = now()
            starts[rq] = Start(
                queued=issued, issued=issued, sector=rq.__sector, size=rq.__data_len, pid=pid(), comm=comm()
            )
            return
        if start.issued == 0:
            start.sector = rq.__sector
            start.size = rq.__data_len
        start.issued = now()

    @bpf.btf_tracepoint("block_rq_merge")
    def on_merge(rq: KernelObject) -> None:
        del starts[rq]

    def queued(rq: KernelObject) -> None:
        starts[rq] = Start(queued=now(), issued=0, sector=0, size=0, pid=pid(), comm=comm())

    def inserted(rq: KernelObject) -> None:
        start = starts.get(rq)
        if start is None or start.issued == 0:  # otherwise a thread of the kernel inserts it again: it was requeued
            queued(rq)

    bpf.queued, bpf.inserted = queued, inserted


def _follow_ends(bpf: Requests, completed: Callable[[Any, Any], None]) -> None:
    """Follow requests to the end of their last part."""
    starts = bpf.starts

    @bpf.btf_tracepoint("block_rq_complete")
    def on_complete(rq: KernelObject, nr_bytes: int) -> None:
        if nr_bytes < rq.__data_len:
            return
        start = starts.get(rq)
        if start is None:
            return
        if start.issued != 0:
            completed(rq, start)
        del starts[rq]


def forget_starts(bpf: Requests) -> None:
    """The `reset` of tools with Requests: what began while probes were attached has been seen in part."""
    bpf.starts.clear()
