"""fentry, fexit and fmod_ret: the load names the function, the link only puts its trampoline there."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

from pyebpf.attach.trampolines import Fentry, Fexit, FmodRet
from pyebpf.errors import NotSupported
from pyebpf.kernel import bpf
from pyebpf.link.base import Link, attach_error
from pyebpf.uapi.errnos import ENOTSUPP

if TYPE_CHECKING:
    from pyebpf.link.host import Host
    from pyebpf.objects import Program

# The tracing part of link_create: { __u32 target_btf_id; __u64 cookie; }, padded to 8 bytes between.
_COOKIE_OFFSET = 8


def attach_trampoline(program: Program, target: Fentry | Fexit | FmodRet, host: Host) -> Link:
    """Attach `program` (kind TRACING) to the function that it was loaded for.

    Raises NotSupported where this kernel's trampolines do not do for the function, NotFound, NotPermitted, KernelError.
    """
    what, cookie = str(target), program.spec.cookie
    options = bytes(_COOKIE_OFFSET) + cookie.to_bytes(8, "little") if cookie else b""
    how = "trampoline"
    try:
        try:
            descriptor = bpf.link_create(program.fileno(), 0, target.attach_type, options=options, what=what)
        except OSError as error:
            if error.errno != errno.EINVAL or cookie:
                raise
            # Before Linux commit 8462e0b46fe2 ("bpf: Teach bpf_link_create() to attach …") (v5.18) only so; and what
            # is wrong with the function is EINVAL here again.
            descriptor = bpf.raw_tracepoint_open(program.fileno())
    except OSError as error:
        raise _refusal(error, program, target, host) from error
    return Link(what, how, [descriptor])


def _refusal(error: OSError, program: Program, target: Fentry | Fexit | FmodRet, host: Host) -> Exception:
    from pyebpf.link.kernel_functions import missing, reason_against_probe

    what, function = str(target), target.function
    doing = f"attaching {program.name} to {what}"
    # EBUSY: ftrace does not reach it, or this program is there already; EINVAL: it has no address; E2BIG: 38 are there.
    if error.errno in {errno.EBUSY, errno.EINVAL}:
        gone = missing(function)
        if gone is not None:
            return gone
        return NotSupported(f"{doing}: {reason_against_probe(function, host)}", error.errno)
    if error.errno == ENOTSUPP:
        from pyebpf.link.kernel_functions import without_trampoline

        return NotSupported(f"{doing}: {without_trampoline(function)}", ENOTSUPP)
    meanings = {errno.E2BIG: "the function has as many trampoline programs as it can (38)"}
    return attach_error(error, program.name, what, meanings=meanings)


ATTACH = {
    Fentry: attach_trampoline,
    Fexit: attach_trampoline,
    FmodRet: attach_trampoline,
}
"""The function that attaches a program, by class of its attach spec."""
