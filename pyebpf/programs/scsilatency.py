"""SCSI command latency as histograms, by opcode.

Times each command from its dispatch to the host adapter's driver until the driver says that it is done, whatever the
result. A command that is tried again is timed again; one that the driver does not take, or that times out, is not
counted. SATA disks, USB sticks and virtio-scsi are SCSI to the kernel, too.

Overhead: two map operations and a histogram for each command.
"""

from __future__ import annotations

from pyebpf import BPF, KernelObject, u32
from pyebpf.in_flight import InFlight, LatencyHistogram
from pyebpf.programs._scsi import check_types, opcode_name
from pyebpf.tool import Example, LatencyOptions, SummaryTool, histograms_of


def build(options: LatencyOptions) -> BPF:
    """The probes and their maps; nothing is loaded yet."""
    bpf = BPF()
    bpf.before_compiling.append(check_types)
    commands = InFlight(bpf, name="commands")
    latency = LatencyHistogram(bpf, options, key=u32, label="opcode")

    @bpf.btf_tracepoint("scsi_dispatch_cmd_start")
    def on_start(cmd: KernelObject) -> None:
        commands.start(cmd)

    @bpf.btf_tracepoint("scsi_dispatch_cmd_error", "scsi_dispatch_cmd_timeout")
    def on_failure(cmd: KernelObject) -> None:
        commands.cancel(cmd)

    @bpf.btf_tracepoint("scsi_dispatch_cmd_done")
    def on_done(cmd: KernelObject) -> None:
        elapsed = commands.end(cmd)
        if elapsed is not None:
            latency.add(elapsed, cmd.cmnd[0])

    return bpf


TOOL = SummaryTool(
    name="scsilatency",
    doc=__doc__,
    section="9.3.11",
    tracing="SCSI commands",
    options=LatencyOptions,
    build=build,
    drop_labels={"commands": "commands under way", "latency": "commands of other kinds"},
    reset=lambda bpf: bpf["commands"].clear(),
    snapshot=histograms_of("latency", opcode=opcode_name),
    examples=(
        Example("scsilatency", "a histogram an opcode, at the end"),
        Example("scsilatency -m 1 10", "milliseconds, each second, ten times"),
        Example("scsilatency --json -d 10", "for ten seconds, an object each"),
    ),
)
open = TOOL.open  # noqa: A001 - the library's spelling of every tool: scsilatency.open()
