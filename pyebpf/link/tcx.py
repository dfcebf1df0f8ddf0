"""tc by links: tcx (since Linux 6.6) and netkit (since 6.7), several programs in a stated order."""

from __future__ import annotations

import errno
from struct import Struct
from typing import TYPE_CHECKING

from pyebpf.errors import InvalidValue
from pyebpf.kernel.interfaces import interface_index
from pyebpf.link.creation import make_link
from pyebpf.uapi.attach_types import AttachType
from pyebpf.uapi.flags import BPF_F_AFTER, BPF_F_BEFORE, BPF_F_ID

if TYPE_CHECKING:
    from pyebpf.link.base import Link
    from pyebpf.link.creation import Meanings
    from pyebpf.link.host import Host
    from pyebpf.objects import Program
    from pyebpf.specs.attach.network import Tcx

__all__ = ["attach_tcx"]

# struct { union { __u32 relative_fd, relative_id; }; __u64 expected_revision; } tcx; the same for netkit.
_OPTIONS = Struct("=I4xQ")
_TYPES = {
    "ingress": AttachType.TCX_INGRESS,
    "egress": AttachType.TCX_EGRESS,
    "primary": AttachType.NETKIT_PRIMARY,
    "peer": AttachType.NETKIT_PEER,
}

_MEANINGS: Meanings = {
    errno.ENOENT: "no program with id {relative} is attached there",
    errno.ERANGE: "there are 64 programs already, or the order asked for is none",
    errno.ENXIO: "{target.interface} is no netkit device",
}
_NETKIT: Meanings = {**_MEANINGS, errno.EINVAL: "{target.interface} is no primary netkit device"}


def attach_tcx(program: Program, target: Tcx, _: Host) -> Link:
    """Attach `program` to an interface, in its place among others. Ends, too, when the interface goes."""
    relative, flags = target.before or target.after, 0
    if bool(target.before) + bool(target.after) + target.first > 1:
        raise InvalidValue(f"{target}: give one of first, before and after")
    if target.first or target.before:
        flags = BPF_F_BEFORE
    elif target.after:
        flags = BPF_F_AFTER
    if relative:
        flags |= BPF_F_ID
    return make_link(
        program,
        target,
        interface_index(target.interface),
        "netkit link" if target.netkit else "tcx link",
        _NETKIT if target.netkit else _MEANINGS,
        attach_type=_TYPES[target.direction],
        flags=flags,
        options=_OPTIONS.pack(relative, 0),
        relative=relative,
    )
