"""Control groups: LINK_CREATE on the group's directory. Links only: what PROG_ATTACH does outlives the process."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING

from pyebpf.errors import NotFound
from pyebpf.kernel import bpf
from pyebpf.kernel.cgroups import cgroup2_mounts
from pyebpf.kernel.descriptor import Descriptor
from pyebpf.link.base import Link, attach_error

if TYPE_CHECKING:
    from pyebpf.link.host import Host
    from pyebpf.objects import Program
    from pyebpf.specs.attach.cgroups import CgroupAttachSpec

__all__ = ["attach_cgroup"]

_NO_GROUP = {
    errno.EBADF: "is no control group of version 2",
    errno.ENOENT: "is a control group that was removed",
    errno.ENODEV: "is a control group that was removed",
}


def attach_cgroup(program: Program, target: CgroupAttachSpec, _: Host) -> Link:
    """Attach `program` to a hook of the control group at `target.path`, beside what is attached there.

    Ends, too, when the group is removed. Raises NotFound for what is no directory of a cgroup2 file system.
    """
    path = target.path
    try:
        group = Descriptor(os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC), f"control group {path}")
    except (FileNotFoundError, NotADirectoryError):
        raise NotFound(f"no control group {path}{_mounted()}") from None
    except OSError as error:
        raise attach_error(error, program.name, str(target)) from error
    with group:
        try:
            link = bpf.link_create(program.fileno(), group.fileno(), target.attach_type, what=str(target))
        except OSError as error:
            if error.errno in _NO_GROUP:
                raise NotFound(f"{path} {_NO_GROUP[error.errno]}{_mounted()}") from None
            raise attach_error(
                error,
                program.name,
                str(target),
                needs=("CAP_BPF", "CAP_NET_ADMIN"),
                meanings={
                    errno.EPERM: "a program that tolerates no other was put there, or above, by PROG_ATTACH",
                    errno.E2BIG: "the kernel's limit of programs, 64, is reached there",
                    errno.EINVAL: f"the kernel has no such links, or the program is not for {target.hook}",
                },
            ) from error
    return Link(str(target), "cgroup link", [link], program=program)


def _mounted() -> str:
    mounts = cgroup2_mounts()
    if not mounts:
        return ": no cgroup2 file system is mounted (mount -t cgroup2 none DIRECTORY)"
    return f": cgroup2 is mounted at {' and '.join(mounts)}"
