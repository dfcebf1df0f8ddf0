"""Bounds of packets: whether an address lies inside, what proves it to verifiers, and what makes it stale."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyebpf.builder.ssa.conditions import Compare, Test
from pyebpf.builder.values.lvalue import moved
from pyebpf.compiler.ir import Condition as Relation, ValueType

if TYPE_CHECKING:
    from pyebpf.builder.program import ProgramBuilder
    from pyebpf.compiler import ir

#: The origin of packets' addresses, as maps are for those of their entries.
ORIGIN = "packets: the packet"

#: Helpers after which the kernel holds every address in a packet for stale (net/core/filter.c,
#: bpf_helper_changes_pkt_data).
MOVES = frozenset(
    {
        "clone_redirect",
        "l3_csum_replace",
        "l4_csum_replace",
        "lwt_push_encap",
        "lwt_seg6_action",
        "lwt_seg6_adjust_srh",
        "lwt_seg6_store_bytes",
        "msg_pop_data",
        "msg_pull_data",
        "msg_push_data",
        "skb_adjust_room",
        "skb_change_head",
        "skb_change_proto",
        "skb_change_tail",
        "skb_pull_data",
        "skb_store_bytes",
        "skb_vlan_pop",
        "skb_vlan_push",
        "sk_skb_adjust_room",
        "store_hdr_opt",
        "xdp_adjust_head",
        "xdp_adjust_meta",
        "xdp_adjust_tail",
    }
)


def inside(p: ProgramBuilder, address: ir.Value, size: int, where: str) -> Test:
    """Whether `size` bytes at `address` end before the packet does that is the context's attribute `where`."""
    packet: Any = p.program_context.attribute(p, where)
    return Compare(Relation.ULE, moved(p, address, size), packet.data_end(p), guards=address)


def with_bounds_check(p: ProgramBuilder, address: ir.Value, size: int, other: ir.Value, where: str) -> ir.Value:
    """`address`, which is inside the packet, so that verifiers see it; they would not, of one computed from an index.

    `other` stands in for it where it is not, which never happens.
    """
    found = p.b.variable(ValueType.POINTER, "element")
    with p.b.if_(inside(p, address, size, where)):
        p.b.write(found, address)
    with p.b.else_():
        p.b.write(found, other)
    element = p.b.read_final(found)
    p.b.assume_non_null(element)
    p.b.assume_origin(element, ORIGIN)
    return element


def invalidate_packet_pointers(p: ProgramBuilder, call: str) -> None:
    """Note that a call may have moved the packet: no address in it is good any more."""
    p.found.packet_moves = True
    p.b.invalidate_origin(ORIGIN, call)
