"""Sockets: what programs on one, and on maps of them, are given."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyebpf.builder.contexts import structs
from pyebpf.builder.contexts.fields import StructContext
from pyebpf.builder.contexts.skb import ENDS, SkBuffProgramContext
from pyebpf.builder.values.packets import Packet
from pyebpf.specs.attach.sockets import FlowDissector, SkLookup, SkMsg, SkReuseport, SkSkb, SocketFilter

if TYPE_CHECKING:
    from collections.abc import Hashable

__all__ = [
    "FlowDissectorProgramContext",
    "SkLookupProgramContext",
    "SkMsgProgramContext",
    "SkReuseportProgramContext",
    "SkSkbProgramContext",
    "SocketFilterProgramContext",
]

#: SK_DROP and SK_PASS.
_VERDICTS = (0, 1)


class SocketFilterProgramContext(SkBuffProgramContext[SocketFilter]):
    """Fields of struct __sk_buff; the packet is read by copies. At TCP and UDP it begins with their header."""

    direct = False


class SkSkbProgramContext(SkBuffProgramContext[SkSkb]):
    """Fields of struct __sk_buff."""

    changes = True


class SkReuseportProgramContext(StructContext[SkReuseport]):
    """Parameters are the fields of struct sk_reuseport_md."""

    table = structs.SK_REUSEPORT
    limits = _VERDICTS

    def memory(self) -> Packet:
        return Packet((0, 8), 16, width=8, writable=False)


class SkLookupProgramContext(StructContext[SkLookup]):
    """Parameters are the fields of struct bpf_sk_lookup."""

    table = structs.SK_LOOKUP
    limits = _VERDICTS

    def code_key(self) -> Hashable:
        return "sk_lookup"


class SkMsgProgramContext(StructContext[SkMsg]):
    """Parameters are the fields of struct sk_msg_md; `packet` is what of the message the program sees at once."""

    table = structs.SK_MSG
    limits = _VERDICTS

    def memory(self) -> Packet:
        return Packet((0, 8), None, width=8, writable=True, copies=False, name="the message")


class FlowDissectorProgramContext(StructContext[FlowDissector]):
    """`flow_keys`, whose fields are filled in, and the packet."""

    table = structs.DISSECTED

    def memory(self) -> Packet:
        return Packet(ENDS, None, writable=False)

    def code_key(self) -> Hashable:
        return "flow_dissector"
