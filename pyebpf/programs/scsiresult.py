"""SCSI command results: counts by what the host adapter says, and what the device says.

HOST is the host byte of a command's result, DID_OK if the command got to the device and back. STATUS is the device's
own status: SAM_STAT_GOOD, SAM_STAT_CHECK_CONDITION for what its sense data explain, SAM_STAT_BUSY. A command that is
tried again counts again. One that times out has no result.

Overhead: one map operation for each command.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyebpf import BPF, Struct, u32
from pyebpf.programs._scsi import check_driver, host_byte_name, status_byte_name
from pyebpf.tool import Column, Example, Record, SummaryTool, dataclass

if TYPE_CHECKING:
    from collections.abc import Iterator

#: The bytes of a result that are counted: the host's and the device's.
HOST_AND_STATUS = 0xFF00FF


class Result(Struct):
    """Key of the counts."""

    result: u32


@dataclass(frozen=True)
class Results(Record):
    """Commands with one result in an interval."""

    host: str
    status: str
    count: int


@dataclass(frozen=True)
class Options:
    """No options: all commands count."""


def build(options: Options) -> BPF:  # noqa: ARG001 - as every tool's
    """The probe and its map; nothing is loaded yet."""
    bpf = BPF()
    bpf.before_compiling.append(check_driver)
    results = bpf.counter(key=Result, name="results")

    @bpf.tracepoint("scsi:scsi_dispatch_cmd_done")
    def on_done(result: int) -> None:
        results[Result(result=result & HOST_AND_STATUS)].add()

    return bpf


def snapshot(bpf: BPF, options: Options) -> Iterator[Results]:  # noqa: ARG001 - as every tool's
    """The interval's results, the most frequent last."""
    for key, count in sorted(bpf["results"].interval().items(), key=lambda item: (item[1], item[0].result)):
        yield Results(host_byte_name(key.result), status_byte_name(key.result), count)


TOOL = SummaryTool(
    name="scsiresult",
    doc=__doc__,
    section="9.3.12",
    tracing="SCSI results",
    options=Options,
    build=build,
    drop_labels={"results": "commands with further results"},
    snapshot=snapshot,
    record=Results,
    columns=(Column("HOST", 24), Column("STATUS", 36), Column("COUNT", 10, ">")),
    examples=(
        Example("scsiresult", "counts, at the end"),
        Example("scsiresult -T 1", "each second, with the time"),
        Example("scsiresult --json -d 60", "for a minute, an object each"),
    ),
)
open = TOOL.open  # noqa: A001 - the library's spelling of every tool: scsiresult.open()
