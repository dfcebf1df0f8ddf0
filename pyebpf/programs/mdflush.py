"""Flushes of md devices, Linux's software RAID: a line for each, with the process that asks for it.

A flush makes the disks below an array write what their caches hold, and those who write meanwhile may have to wait. PID
and COMM are the process that runs: one that calls sync(2) or fsync(2), or a thread of the kernel, of a file system's
journal or of writeback.

Overhead: one probe for each flush, nothing for other I/O.
"""

from __future__ import annotations

from typing import Any

from pyebpf import BPF, NotFound, Struct, cast, char, comm, field, has_field, now, pid, u32, u64
from pyebpf.tool import Column, EventTool, Example, dataclass

FUNCTION = "md_flush_request"
MISSING = "the md driver is not loaded: modprobe md_mod, or this kernel has none"


class Flush(Struct):
    """A flush that was asked for; time in nanoseconds."""

    time: u64
    pid: u32
    comm: str = field(char[16])
    device: str = field(char[32])


@dataclass(frozen=True)
class Options:
    """No options: all flushes are shown."""


class Flushes(BPF):
    """The probe, whose module may be missing."""

    def compile(self, target: Any, **options: Any) -> Any:
        """As every module's. Raises NotFound with what to do where the driver is not there."""
        try:
            return super().compile(target, **options)
        except NotFound as error:
            if FUNCTION in str(error):
                raise NotFound(MISSING) from error
            raise


def build(options: Options) -> Flushes:  # noqa: ARG001 - as every tool's
    """The probe and its buffer; nothing is loaded yet."""
    bpf = Flushes()
    flushes = bpf.ringbuf(Flush, name="flushes")

    # Addresses are all that there is before Linux 5.11, which has no BTF of modules; struct bio is the kernel's own.
    @bpf.function(FUNCTION)
    def on_flush(mddev: u64, bio: u64) -> None:  # noqa: ARG001 - the position of the second argument
        request = cast("struct bio", bio)
        # Since Linux 5.12 (309dca309fc3) a struct bio has its block device; before, it had the disk.
        disk = request.bi_bdev.bd_disk if has_field("struct bio", "bi_bdev") else request.bi_disk
        flushes.emit(Flush(time=now(), pid=pid(), comm=comm(), device=disk.disk_name))

    return bpf


TOOL = EventTool(
    name="mdflush",
    doc=__doc__,
    section="9.3.9",
    tracing="md flushes",
    options=Options,
    build=build,
    drop_labels={"flushes": "flushes"},
    record=Flush,
    columns=(
        Column("TIME", 8),
        Column("PID", 7),
        Column("COMM", 16),
        Column("DEVICE"),
    ),
    examples=(
        Example("mdflush", "every flush"),
        Example("mdflush -d 60", "for a minute"),
        Example("mdflush --json", "an object a line"),
    ),
)
open = TOOL.open  # noqa: A001 - the library's spelling of every tool: mdflush.open()
