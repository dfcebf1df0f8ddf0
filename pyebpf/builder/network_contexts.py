"""Annotations of `ctx` in network programs: they show a type checker its fields."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

__all__ = ["Packet", "SkBuff", "XdpContext"]

T = TypeVar("T")


class Packet:
    """A packet's bytes; `len(ctx.packet)` counts them."""

    if TYPE_CHECKING:

        def header(self, type: type[T], at: int = 0) -> T | None:  # noqa: A002 - the language's keyword
            """The T that begins `at` bytes into the packet, in place; None where the packet ends before its end.

            It is gone after any helper that may move the packet.
            """

        def load(self, type: type[T], at: int = 0) -> T | None:  # noqa: A002 - the language's keyword
            """A copy of that T, also where the packet lies in several pieces."""

        def __len__(self) -> int: ...


class XdpContext:
    """A frame as the driver has it (struct xdp_md). `ingress_ifindex`: the interface's index.

    `data_meta` is room in front of the frame, made by `helpers.xdp_adjust_meta`, for tc programs to read.
    """

    target: str
    packet: Packet
    data_meta: Packet
    ingress_ifindex: int
    rx_queue_index: int


class SkBuff:
    """A packet of the network stack (struct __sk_buff). Fields in network order read as numbers of this machine.

    `data_meta` is what XDP left in front of the frame, for tc programs only.
    """

    target: str
    packet: Packet
    data_meta: Packet
    len: int
    pkt_type: int
    mark: int
    queue_mapping: int
    protocol: int
    vlan_present: int
    vlan_tci: int
    vlan_proto: int
    priority: int
    ingress_ifindex: int
    ifindex: int
    tc_index: int
    cb: list[int]
    hash: int
    tc_classid: int
    napi_id: int
    family: int
    remote_ip4: int
    local_ip4: int
    remote_ip6: list[int]
    local_ip6: list[int]
    remote_port: int
    local_port: int
    tstamp: int
    wire_len: int
    gso_segs: int
    gso_size: int
    tstamp_type: int
    hwtstamp: int
