"""Netfilter: LINK_CREATE with family, hook and priority."""

from __future__ import annotations

import errno
from struct import Struct
from typing import TYPE_CHECKING

from pyebpf.kernel import bpf
from pyebpf.link.base import Link, attach_error
from pyebpf.specs.attach.netfilter import FAMILIES, HOOKS

if TYPE_CHECKING:
    from pyebpf.link.host import Host
    from pyebpf.objects import Program
    from pyebpf.specs.attach.netfilter import Netfilter

__all__ = ["attach_netfilter"]

# The netfilter part of link_create: { __u32 pf, hooknum; __s32 priority; __u32 flags; }
_OPTIONS = Struct("=IIiI")
#: BPF_F_NETFILTER_IP_DEFRAG.
_IP_DEFRAG = 1


def attach_netfilter(program: Program, target: Netfilter, _: Host) -> Link:
    """Attach `program` (kind NETFILTER, since Linux 6.4) in the network namespace of the calling thread."""
    flags = _IP_DEFRAG if target.defragment else 0
    options = _OPTIONS.pack(FAMILIES[target.family], HOOKS[target.hook], target.priority, flags)
    try:
        link = bpf.link_create(program.fileno(), 0, target.attach_type, options=options, what=str(target))
    except OSError as error:
        raise attach_error(
            error,
            program.name,
            str(target),
            needs=("CAP_BPF", "CAP_NET_ADMIN"),
            meanings={
                errno.EBUSY: "another program has that priority there: give another",
                errno.ERANGE: "packets are made whole at priority -400: give a larger one with defragment=True",
                errno.ENOENT: "the kernel lacks nf_defrag, which defragment=True needs",
            },
        ) from error
    return Link(str(target), "netfilter link", [link], program=program)
