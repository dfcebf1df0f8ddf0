"""LSM hooks: the load names the hook, the link only puts the program there."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

from pyebpf.attach.lsm import Lsm, LsmCgroup
from pyebpf.errors import NotSupported
from pyebpf.kernel import bpf
from pyebpf.kernel.privileges import security_modules
from pyebpf.link.base import Link, attach_error
from pyebpf.link.cgroups import attach_cgroup
from pyebpf.uapi.errnos import ENOTSUPP

if TYPE_CHECKING:
    from pyebpf.errors import KernelError
    from pyebpf.link.host import Host
    from pyebpf.objects import Program


def attach_lsm(program: Program, target: Lsm, _: Host) -> Link:
    """Attach `program` (kind LSM) to its hook. Raises NotSupported, NotPermitted, KernelError."""
    what = str(target)
    active = security_modules()
    if active and "bpf" not in active:
        # The link would be made all the same, and its program never be called.
        raise NotSupported(f"{what}: bpf is not among the security modules: boot with lsm={','.join(active)},bpf")
    try:
        descriptor = bpf.link_create(program.fileno(), 0, target.attach_type, what=what)
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise _refusal(error, program, target) from error
        try:
            # Before Linux 5.18, only so.
            descriptor = bpf.raw_tracepoint_open(program.fileno())
        except OSError as other:
            raise _refusal(other, program, target) from other
    return Link(what, "LSM link", [descriptor])


def _refusal(error: OSError, program: Program, target: Lsm) -> KernelError:
    what = str(target)
    if error.errno == ENOTSUPP:
        from pyebpf.link.kernel_functions import without_trampoline

        reason = without_trampoline(f"bpf_lsm_{target.hook}")
        return NotSupported(f"attaching {program.name} to {what}: {reason}", ENOTSUPP)
    meanings = {errno.EBUSY: "this program is there already", errno.E2BIG: "the hook has as many programs as it can"}
    return attach_error(error, program.name, what, meanings=meanings)


ATTACH = {
    Lsm: attach_lsm,
    LsmCgroup: attach_cgroup,
}
"""The function that attaches a program, by class of its attach spec."""
