"""Netfilter: the hooks that iptables and nftables have, too."""

from __future__ import annotations

from pyebpf.dataclass import dataclass
from pyebpf.specs.attach.base import AttachSpec, KernelRequirement
from pyebpf.uapi.attach_types import AttachType
from pyebpf.uapi.bpf import ProgramType

__all__ = ["FAMILIES", "HOOKS", "Netfilter"]

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

    kind = ProgramType.NETFILTER

    def __str__(self) -> str:
        return f"netfilter {self.family} {self.hook} at {self.priority}{f' of {self.netns}' if self.netns else ''}"

    @property
    def attach_type(self) -> int:
        return AttachType.NETFILTER

    @property
    def requirement(self) -> KernelRequirement:
        return _REQUIREMENT
