"""Netfilter: the packet as the kernel's own struct sk_buff, and where it is on its way."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyebpf.builder.contexts.base import ProgramContext
from pyebpf.builder.values.kernel_objects import KernelReference
from pyebpf.compiler.ir import Kind
from pyebpf.errors import closest
from pyebpf.specs.attach.netfilter import Netfilter

if TYPE_CHECKING:
    from pyebpf.builder.program import ProgramBuilder

__all__ = ["NetfilterProgramContext"]

#: struct bpf_nf_ctx { const struct nf_hook_state *state; struct sk_buff *skb; }
_FIELDS = {"state": (0, "struct nf_hook_state"), "skb": (8, "struct sk_buff")}


class NetfilterProgramContext(ProgramContext[Netfilter]):
    """Parameters are `skb` and `state`, objects of the kernel that the verifier knows."""

    @property
    def return_range(self) -> tuple[int, int]:
        """NF_DROP and NF_ACCEPT."""
        return 0, 1

    def field(self, p: ProgramBuilder, name: str) -> Any:
        if name not in _FIELDS:
            p.fail(f"a netfilter program's context has no field {name}{closest(name, _FIELDS)}: it has state and skb")
        offset, struct = _FIELDS[name]
        register = p.b.load(p.context, offset, 8, kind=Kind.POINTER)
        p.b.assume_non_null(register)
        return KernelReference(register, p.target.type_named(struct), trusted=True)
