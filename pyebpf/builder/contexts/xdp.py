"""XDP: a frame as the driver has it, before the kernel makes an sk_buff of it (struct xdp_md)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyebpf.builder.contexts.base import ProgramContext
from pyebpf.builder.values.integers import Int
from pyebpf.builder.values.packets import Packet, metadata
from pyebpf.errors import closest
from pyebpf.specs.attach.network import Xdp
from pyebpf.types import S64, U32

if TYPE_CHECKING:
    from pyebpf.builder.program import ProgramBuilder

__all__ = ["XDP_FIELDS", "XdpProgramContext"]

#: struct xdp_md: offsets of `data` and `data_end`, of `data_meta` and `data`, and of the fields that are numbers. The
#: verifier takes loads of 4 bytes only.
ENDS, META_ENDS = (0, 4), (8, 0)
XDP_FIELDS = {"ingress_ifindex": 12, "rx_queue_index": 16}


class XdpProgramContext(ProgramContext[Xdp]):
    """`ctx.packet`, the metadata in front of it, and where the frame came in."""

    def attribute(self, p: ProgramBuilder, name: str) -> Any:
        if name == "packet":
            return Packet(ENDS, None, writable=True)
        if name == "data_meta":
            return metadata(META_ENDS)
        return self.field(p, name)

    def field(self, p: ProgramBuilder, name: str) -> Any:
        offset = XDP_FIELDS.get(name)
        if offset is None:
            known = ("packet", "data_meta", *XDP_FIELDS)
            p.fail(
                f"the context of an XDP program has no field {name}{closest(name, known)}: it has {', '.join(known)}"
            )
        return Int(p.b.load(p.context, offset, 4), S64, U32)
