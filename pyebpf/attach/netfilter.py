"""Netfilter: the hooks that iptables and nftables have, too; programs see the packet as the kernel's struct sk_buff."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyebpf.attach.decorators import Decorators, network_namespace
from pyebpf.builder.context import ProgramContext
from pyebpf.builder.values.kernel_objects import KernelReference
from pyebpf.compiler.ir import ValueType
from pyebpf.dataclass import dataclass
from pyebpf.errors import InvalidValue, closest
from pyebpf.specs.attach_point import AttachSpec, KernelRequirement
from pyebpf.uapi.attach_types import AttachType
from pyebpf.uapi.bpf import ProgramType

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable

    from pyebpf.attach.decorators import VerdictDecorator
    from pyebpf.builder.program import ProgramBuilder


#: NFPROTO_*: the families that such programs are for.
FAMILIES = {"ipv4": 2, "ipv6": 10}
#: enum nf_inet_hooks.
HOOKS = {"prerouting": 0, "local_in": 1, "forward": 2, "local_out": 3, "postrouting": 4}

#: Since Linux commit 84601d6ee68a ("bpf: add bpf_link support for BPF_NETFILTER programs") (v6.4).
_REQUIREMENT = KernelRequirement(
    "attach:netfilter",
    "netfilter programs",
    "6.4",
    "CONFIG_NETFILTER_BPF_LINK",
    "@bpf.tc and @bpf.cgroup_skb_egress see packets, too",
)


@dataclass(frozen=True, slots=True)
class Netfilter(AttachSpec):
    """A hook for packets of a family, in the network namespace whose file is `netns`, or that of the attaching thread.

    Hooks of smaller `priority` run first; iptables' filter has 0, and no two programs have the same. With `defragment`
    the program sees whole packets.
    """

    family: str
    hook: str
    priority: int = 0
    defragment: bool = False
    netns: str = ""

    program_type = ProgramType.NETFILTER
    attach_type = AttachType.NETFILTER

    def __str__(self) -> str:
        return f"netfilter {self.family} {self.hook} at {self.priority}{f' of {self.netns}' if self.netns else ''}"

    @property
    def requirement(self) -> KernelRequirement:
        return _REQUIREMENT

    def program_context(self) -> NetfilterProgramContext:
        return NetfilterProgramContext(self)


#: struct bpf_nf_ctx { const struct nf_hook_state *state; struct sk_buff *skb; }
_FIELDS = {"state": (0, "struct nf_hook_state"), "skb": (8, "struct sk_buff")}


class NetfilterProgramContext(ProgramContext[Netfilter]):
    """Parameters are `skb` and `state`, objects of the kernel that the verifier knows."""

    @property
    def return_range(self) -> tuple[int, int]:
        """NF_DROP and NF_ACCEPT."""
        return 0, 1

    def field(self, p: ProgramBuilder, name: str) -> object:
        if name not in _FIELDS:
            p.fail(f"a netfilter program's context has no field {name}{closest(name, _FIELDS)}: it has state and skb")
        offset, struct = _FIELDS[name]
        register = p.b.load(p.context, offset, 8, result=ValueType.POINTER)
        p.b.assume_non_null(register)
        return KernelReference(register, p.target.type_named(struct), trusted=True)


#: Between NF_IP_PRI_FIRST and NF_IP_PRI_LAST, which are taken.
_FIRST, _LAST = -(1 << 31) + 1, (1 << 31) - 2


class NetfilterDecorators(Decorators):
    """Programs at netfilter's hooks."""

    def netfilter(
        self,
        family: str,
        hook: str,
        *,
        priority: int = 0,
        defragment: bool = False,
        namespace: str | os.PathLike[str] | None = None,
    ) -> VerdictDecorator:
        """Run on packets of "ipv4" or "ipv6" at "prerouting", "local_in", "forward", "local_out" or "postrouting".

        Returns NF_DROP (0) or NF_ACCEPT (1). In a network `namespace`, a file such as "/proc/PID/ns/net" or a name
        under /run/netns; without, in that of the thread that attaches. A smaller `priority` runs first. With
        `defragment` it sees whole packets.
        """
        _known("family", family, FAMILIES)
        _known("hook", hook, HOOKS)
        if not _FIRST <= priority <= _LAST:
            raise InvalidValue(f"@bpf.netfilter(priority={priority}): give {_FIRST} to {_LAST}")
        netns = "" if namespace is None else network_namespace(namespace)
        place = Netfilter(family, hook, priority, defragment, netns)
        return self._verdict("netfilter", (family, hook), (place,))


def _known(what: str, given: str, names: Iterable[str]) -> None:
    if given not in names:
        raise InvalidValue(f"@bpf.netfilter: no {what} {given!r}{closest(given, names)}: it is {' or '.join(names)}")
