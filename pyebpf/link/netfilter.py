"""Netfilter: LINK_CREATE with family, hook and priority."""

from __future__ import annotations

import errno
from struct import Struct
from typing import TYPE_CHECKING

from pyebpf.attach.netfilter import FAMILIES, HOOKS, Netfilter
from pyebpf.errors import KernelError
from pyebpf.kernel.namespaces import in_network_namespace
from pyebpf.link.creation import link_error, make_link
from pyebpf.link.sockets import NO_NAMESPACE, open_namespace
from pyebpf.uapi.flags import BPF_F_NETFILTER_IP_DEFRAG

if TYPE_CHECKING:
    from pyebpf.link.base import Link
    from pyebpf.link.creation import ErrnoMessages
    from pyebpf.link.host import Host
    from pyebpf.objects import Program

# The netfilter part of link_create: { __u32 pf, hooknum; __s32 priority; __u32 flags; }
_OPTIONS = Struct("=IIiI")

_MESSAGES: ErrnoMessages = {
    errno.EBUSY: "another program has that priority there: give another",
    errno.ERANGE: "packets are made whole at priority -400: give a larger one with defragment=True",
    errno.ENOENT: "the kernel lacks nf_defrag, which defragment=True needs",
}


def attach_netfilter(program: Program, target: Netfilter, _: Host) -> Link:
    """Attach `program` (kind NETFILTER, since Linux 6.4) in the target's network namespace, else the calling thread's.

    Raises NotFound for what is not a file of a network namespace.
    """
    flags = BPF_F_NETFILTER_IP_DEFRAG if target.defragment else 0
    options = _OPTIONS.pack(FAMILIES[target.family], HOOKS[target.hook], target.priority, flags)

    def attach() -> Link:
        return make_link(program, target, 0, "netfilter link", _MESSAGES, options=options)

    if not target.netns:
        return attach()
    # The kernel has no argument for it: a link belongs to where its maker is.
    with open_namespace(program, target) as namespace:
        try:
            return in_network_namespace(namespace.fileno(), attach)
        except OSError as error:
            if isinstance(error, KernelError):
                raise
            raise link_error(error, program, target, NO_NAMESPACE) from error


ATTACH = {
    Netfilter: attach_netfilter,
}
"""The function that attaches a program, by class of its attach spec."""
