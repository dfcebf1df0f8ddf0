"""Contexts: what R1 points to when a program begins, by kind of program."""

from __future__ import annotations

from struct import pack_into
from typing import TYPE_CHECKING

from pyebpf.errors import InvalidValue, closest
from pyebpf.uapi.bpf import ProgramType
from pyebpf.vm.memory import Region

if TYPE_CHECKING:
    from collections.abc import Mapping

#: struct __sk_buff: name to offset; all are 4 bytes. `data`, `data_end` and `data_meta` read as addresses.
SKB: Mapping[str, int] = {
    "len": 0, "pkt_type": 4, "mark": 8, "queue_mapping": 12, "protocol": 16, "vlan_present": 20, "vlan_tci": 24,
    "vlan_proto": 28, "priority": 32, "ingress_ifindex": 36, "ifindex": 40, "tc_index": 44, "cb0": 48, "cb1": 52,
    "cb2": 56, "cb3": 60, "cb4": 64, "hash": 68, "tc_classid": 72, "data": 76, "data_end": 80, "napi_id": 84,
    "family": 88, "remote_ip4": 92, "local_ip4": 96, "remote_port": 132, "local_port": 136, "data_meta": 140,
    "gso_segs": 164, "gso_size": 176,
}  # fmt: skip
SKB_SIZE = 192
#: struct xdp_md.
XDP: Mapping[str, int] = {
    "data": 0, "data_end": 4, "data_meta": 8, "ingress_ifindex": 12, "rx_queue_index": 16, "egress_ifindex": 20,
}  # fmt: skip
XDP_SIZE = 24
#: Kinds whose context a program may write, and those in which places must be multiples of the access's size.
_WRITABLE = (
    ProgramType.SYSCALL,
    ProgramType.RAW_TRACEPOINT_WRITABLE,
    ProgramType.CGROUP_SOCK,
    ProgramType.CGROUP_SOCK_ADDR,
    ProgramType.CGROUP_SOCKOPT,
    ProgramType.CGROUP_SYSCTL,
    ProgramType.SOCK_OPS,
)
_ALIGNED = (
    ProgramType.SYSCALL,
    ProgramType.TRACEPOINT,
    ProgramType.RAW_TRACEPOINT,
    ProgramType.TRACING,
    ProgramType.PERF_EVENT,
)


def plain_context(kind: ProgramType | None, data: bytes) -> Region:
    """A context that is just bytes: a tracepoint's record, arguments, registers, what a syscall program is given.

    A program of no kind may do with it what it likes.
    """
    writable = kind is None or kind in _WRITABLE
    return Region("ctx", "context", bytearray(data), writable=writable, aligned=kind in _ALIGNED)


class Packet:
    """A packet and the context that leads to it: struct __sk_buff, or struct xdp_md if `xdp`.

    `fields` are the context's other members, by name. The region's first bytes, `metadata` of them, are what an XDP
    program left in front of the frame.
    """

    def __init__(self, data: bytes, fields: Mapping[str, int], *, xdp: bool, writable: bool = True) -> None:
        layout, size = (XDP, XDP_SIZE) if xdp else (SKB, SKB_SIZE)
        self.xdp = xdp
        self.metadata = 0
        self.region = Region("packet", "packet", bytearray(data), writable=writable)
        self.context = Region("ctx", "context", bytearray(size), writable=not xdp, fields={}, aligned=True)
        for name, value in fields.items():
            if name not in layout or name.startswith("data"):
                raise InvalidValue(f"the context has no member {name} to be given{closest(name, layout)}")
            pack_into("<I", self.context.data, layout[name], value)

    def refer(self) -> None:
        """Let the context's members lead to the packet, which has its address by now."""
        layout = XDP if self.xdp else SKB
        base, size = self.region.base, self.region.size
        ends = {"data": base + self.metadata, "data_end": base + size, "data_meta": base}
        self.context.fields = {(layout[name], 4): address for name, address in ends.items()}
        if not self.xdp:
            pack_into("<I", self.context.data, SKB["len"], size)
