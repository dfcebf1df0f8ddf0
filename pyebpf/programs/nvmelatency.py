"""NVMe command latency as histograms, by disk and command.

Times each command from its setup by the driver until its completion, paired by controller, queue and command
identifier. Commands of a controller's admin queue have histograms of their own, under the controller's name. A command
that is tried again is timed again.

Overhead: two map operations and a count in a histogram for each command.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyebpf import BPF, NotFound, Struct, char, field, now, s32, u16, u32, u64
from pyebpf.in_flight import LatencyHistogram
from pyebpf.tool import Example, Histogram, LatencyOptions, SummaryTool

if TYPE_CHECKING:
    from collections.abc import Iterator

ADMIN_QUEUE = 0

#: enum nvme_opcode, include/linux/nvme.h: the NVM command set and zoned namespaces.
COMMANDS = {
    0x00: "nvme_cmd_flush",
    0x01: "nvme_cmd_write",
    0x02: "nvme_cmd_read",
    0x04: "nvme_cmd_write_uncor",
    0x05: "nvme_cmd_compare",
    0x08: "nvme_cmd_write_zeroes",
    0x09: "nvme_cmd_dsm",
    0x0C: "nvme_cmd_verify",
    0x0D: "nvme_cmd_resv_register",
    0x0E: "nvme_cmd_resv_report",
    0x11: "nvme_cmd_resv_acquire",
    0x15: "nvme_cmd_resv_release",
    0x79: "nvme_cmd_zone_mgmt_send",
    0x7A: "nvme_cmd_zone_mgmt_recv",
    0x7D: "nvme_cmd_zone_append",
    0x7F: "nvme_fabrics_command",
}
#: enum nvme_admin_opcode.
ADMIN_COMMANDS = {
    0x00: "nvme_admin_delete_sq",
    0x01: "nvme_admin_create_sq",
    0x02: "nvme_admin_get_log_page",
    0x04: "nvme_admin_delete_cq",
    0x05: "nvme_admin_create_cq",
    0x06: "nvme_admin_identify",
    0x08: "nvme_admin_abort_cmd",
    0x09: "nvme_admin_set_features",
    0x0A: "nvme_admin_get_features",
    0x0C: "nvme_admin_async_event",
    0x0D: "nvme_admin_ns_mgmt",
    0x10: "nvme_admin_activate_fw",
    0x11: "nvme_admin_download_fw",
    0x14: "nvme_admin_dev_self_test",
    0x15: "nvme_admin_ns_attach",
    0x18: "nvme_admin_keep_alive",
    0x19: "nvme_admin_directive_send",
    0x1A: "nvme_admin_directive_recv",
    0x1C: "nvme_admin_virtual_mgmt",
    0x1D: "nvme_admin_nvme_mi_send",
    0x1E: "nvme_admin_nvme_mi_recv",
    0x7C: "nvme_admin_dbbuf",
    0x7F: "nvme_fabrics_command",
    0x80: "nvme_admin_format_nvm",
    0x81: "nvme_admin_security_send",
    0x82: "nvme_admin_security_recv",
    0x84: "nvme_admin_sanitize_nvm",
    0x86: "nvme_admin_get_lba_status",
}


#: The part of a command's id that is its request's tag. Above it a generation is counted (e7006de6c238, Linux 5.14, and
#: in stable kernels), which nvme_complete_rq of those kernels leaves out.
TAG = 0xFFF


class Command(Struct):
    """Key that tells a command from all others in flight."""

    controller: s32
    queue: s32
    number: u32


class Kind(Struct):
    """Key of the histograms; `disk` is empty for admin commands."""

    controller: s32
    opcode: u16
    admin: u16
    disk: str = field(char[32])


class Begun(Struct):
    """A command under way."""

    at: u64
    kind: Kind


def _check_driver(target: Any) -> None:
    """Raise NotFound with what to do where the driver is not there."""
    try:
        target.tracepoint_format("nvme", "nvme_setup_cmd")
    except NotFound as error:
        raise NotFound("the NVMe driver is not loaded: modprobe nvme, or this kernel has none") from error


def build(options: LatencyOptions) -> BPF:
    """The probes and maps; nothing is loaded yet."""
    bpf = BPF()
    bpf.before_compiling.append(_check_driver)
    begun = bpf.hash(key=Command, value=Begun)
    latency = LatencyHistogram(bpf, options, key=Kind)

    @bpf.tracepoint("nvme:nvme_setup_cmd")
    def on_setup(disk: str, ctrl_id: int, qid: int, opcode: int, cid: int) -> None:
        begun[Command(controller=ctrl_id, queue=qid, number=cid & TAG)] = Begun(
            at=now(),
            kind=Kind(controller=ctrl_id, opcode=opcode, admin=1 if qid == ADMIN_QUEUE else 0, disk=disk),
        )

    @bpf.tracepoint("nvme:nvme_complete_rq")
    def on_complete(ctrl_id: int, qid: int, cid: int) -> None:
        command = Command(controller=ctrl_id, queue=qid, number=cid & TAG)
        found = begun.get(command)
        if found is None:
            return
        latency.add(now() - found.at, found.kind)
        del begun[command]

    return bpf


def command_name(kind: Kind) -> str:
    """The kernel's name of a command; its number if it has none."""
    return (ADMIN_COMMANDS if kind.admin else COMMANDS).get(kind.opcode, f"[unknown: {kind.opcode:#04x}]")


def snapshot(bpf: BPF, options: LatencyOptions) -> Iterator[Histogram]:  # noqa: ARG001 - as every tool's
    """The interval's histograms, by disk, then by command; admin commands after those of disks."""
    interval = bpf["latency"].interval()
    for kind in sorted(interval, key=lambda kind: (kind.admin, kind.controller, kind.disk, kind.opcode)):
        histogram = interval[kind]
        labels = {"disk": kind.disk or f"nvme{kind.controller}", "command": command_name(kind)}
        yield histogram.with_labels(labels)


TOOL = SummaryTool(
    name="nvmelatency",
    doc=__doc__,
    section="9.3.13",
    tracing="NVMe commands",
    options=LatencyOptions,
    build=build,
    drop_labels={"begun": "commands under way", "latency": "commands of other kinds"},
    snapshot=snapshot,
    examples=(
        Example("nvmelatency", "histograms by disk and command, at the end"),
        Example("nvmelatency -m 1 10", "milliseconds, each second, ten times"),
        Example("nvmelatency --json -d 10", "for ten seconds, an object a histogram"),
    ),
)
open = TOOL.open  # noqa: A001 - the library's spelling of every tool: nvmelatency.open()
