"""Control groups: LINK_CREATE on the group's directory. Links only: what PROG_ATTACH does outlives the process."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING

from pyebpf.attach.cgroups import (
    CgroupDevice,
    CgroupSkb,
    CgroupSock,
    CgroupSockAddr,
    CgroupSockopt,
    CgroupSysctl,
    SockOps,
)
from pyebpf.errors import NotFound
from pyebpf.kernel.mounts import cgroup2_mounts
from pyebpf.link.creation import SpecificError, make_link, open_place

if TYPE_CHECKING:
    from pyebpf.attach.cgroups import CgroupAttachSpec
    from pyebpf.link.base import Link
    from pyebpf.link.creation import ErrnoMessages
    from pyebpf.link.host import Host
    from pyebpf.objects import Program

_REMOVED = SpecificError(NotFound, "{target.path} is a control group that was removed{mounts}")
_MESSAGES: ErrnoMessages = {
    errno.EBADF: SpecificError(NotFound, "{target.path} is not a control group of version 2{mounts}"),
    errno.ENOENT: _REMOVED,
    errno.ENODEV: _REMOVED,
    errno.EPERM: "a program that tolerates no other was put there, or above, by PROG_ATTACH",
    errno.E2BIG: "the kernel's limit of programs, 64, is reached there",
    errno.EINVAL: "the kernel has no such links, or the program is not for {target.hook}",
}


class _Mounts:
    """Find where control groups are, when a message says so."""

    def __str__(self) -> str:
        mounts = cgroup2_mounts()
        if not mounts:
            return ": no cgroup2 file system is mounted (mount -t cgroup2 none DIRECTORY)"
        return f": cgroup2 is mounted at {' and '.join(mounts)}"


def attach_cgroup(program: Program, target: CgroupAttachSpec, _: Host) -> Link:
    """Attach `program` to a hook of the control group at `target.path`, beside what is attached there.

    Ends, too, when the group is removed. Raises NotFound for what is not a directory of a cgroup2 file system.
    """
    what, mounts = f"control group {target.path}", _Mounts()
    missing = "no control group {target.path}{mounts}"
    with open_place(program, target, target.path, what, missing, flags=os.O_DIRECTORY, mounts=mounts) as group:
        return make_link(program, target, group.fileno(), "cgroup link", _MESSAGES, mounts=mounts)


ATTACH = {
    CgroupDevice: attach_cgroup,
    CgroupSkb: attach_cgroup,
    CgroupSock: attach_cgroup,
    CgroupSockAddr: attach_cgroup,
    CgroupSockopt: attach_cgroup,
    CgroupSysctl: attach_cgroup,
    SockOps: attach_cgroup,
}
"""The function that attaches a program, by class of its attach spec."""
