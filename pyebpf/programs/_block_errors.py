"""Failed block I/O: the record of a completion with its status, and the name of the error."""

from __future__ import annotations

import errno
from typing import Any

from pyebpf import KernelObject, Struct, char, errno_name, field, has_enum, now, s32, u32, u64
from pyebpf.programs._block import LETTERS, OPERATION_MASK, disk_of, operation_name, sector_of
from pyebpf.tool import Column

#: include/linux/blk_types.h, block/blk-core.c: blk_status_t and the error numbers that it stands for.
STATUS_ERRORS = {
    1: errno.EOPNOTSUPP,
    2: errno.ETIMEDOUT,
    3: errno.ENOSPC,
    4: errno.ENOLINK,
    5: errno.EREMOTEIO,
    6: errno.EBADE,
    7: errno.ENODATA,
    8: errno.EILSEQ,
    9: errno.ENOMEM,
    10: errno.EIO,
    11: errno.EREMCHG,
    12: errno.EAGAIN,
    13: errno.EBUSY,
    15: errno.ETOOMANYREFS,
    16: errno.EOVERFLOW,
    17: errno.ENODEV,
    18: errno.ETIME,
    19: errno.EINVAL,
    20: errno.EINVAL,
}
ZONE_RESOURCE = 14


class Ended(Struct):
    """A request that has ended: `waited` since it was made, 0 if the kernel did not note that; `size` in bytes."""

    time: u64
    waited: u64
    position: u64
    size: u32
    flags: u32
    status: s32
    requeued: u32
    disk: str = field(char[32])

    @property
    def letter(self) -> str:
        """The letter of the operation, as biosnoop has it."""
        return LETTERS.get(self.flags & OPERATION_MASK, "N")

    @property
    def operation(self) -> str:
        """The operation's name."""
        return operation_name(self.flags)

    @property
    def sector(self) -> int | None:
        """The first sector, of 512 bytes; None of a flush, and of commands of the driver's own."""
        return sector_of(self.flags, self.position)

    @property
    def error(self) -> str | None:
        """The error's name, None without one. Older kernels tell its number, negated."""
        if self.status == 0:
            return None
        return errno_name(-self.status if self.status < 0 else STATUS_ERRORS.get(self.status, errno.EIO))


def ended(rq: KernelObject, status: int, size: int, requeued: int) -> Any:
    """In a probe: the record of a request."""
    made, time = rq.start_time_ns, now()
    number = s32(status)
    # Linux 6.10 took BLK_STS_ZONE_RESOURCE out, with what needed it, and renumbered those behind.
    if has_enum("BIO_ZONE_WRITE_PLUGGING") and status >= ZONE_RESOURCE:
        number = s32(status + 1)
    return Ended(
        time=time,
        waited=time - made if made != 0 and made < time else 0,
        position=rq.__sector,
        size=size,
        flags=rq.cmd_flags,
        status=number,
        requeued=requeued,
        disk=disk_of(rq).disk_name,
    )


#: Columns of a line: when, of which disk, and which request.
REQUEST = (
    Column("TIME", 8),
    Column("DISK", 12),
    Column("T", 1, key="letter", value="operation", field="operation", type="str"),
    Column("SECTOR", 12, ">"),
    Column("BYTES", 8, ">", key="size", field="size_bytes"),
)
