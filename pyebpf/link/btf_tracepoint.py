"""Raw tracepoints with BTF trust (tp_btf): the load names the target, the link only starts it."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

from pyebpf.kernel import bpf
from pyebpf.link.base import Link, attach_error
from pyebpf.uapi.attach_types import AttachType

if TYPE_CHECKING:
    from pyebpf.kernel.descriptor import Descriptor
    from pyebpf.link.host import Host
    from pyebpf.objects import Program
    from pyebpf.specs import BtfTracepoint

__all__ = ["attach_btf_tracepoint"]

# The tracing part of link_create: { __u32 target_btf_id; __u64 cookie; }, padded to 8 bytes between.
_COOKIE_OFFSET = 8


def attach_btf_tracepoint(program: Program, target: BtfTracepoint, _: Host) -> Link:
    """Attach `program` (kind TRACING, attach type BPF_TRACE_RAW_TP) to the tracepoint that it was loaded for."""
    cookie = program.spec.cookie
    how = "BTF link"
    try:
        descriptor = _attach(program.fileno(), cookie, str(target))
        if descriptor is None:
            descriptor = bpf.raw_tracepoint_open(program.fileno())
            how = "BTF raw tracepoint"
    except OSError as error:
        # Without a name, RAW_TRACEPOINT_OPEN of a plain raw tracepoint's program is a bad address.
        wrong = "not a program for a BTF tracepoint, or a kernel without cookies here"
        meanings = {errno.EINVAL: wrong, errno.EFAULT: wrong}
        raise attach_error(error, program.name, str(target), meanings=meanings) from error
    return Link(str(target), how, [descriptor])


def _attach(prog_fd: int, cookie: int, what: str) -> Descriptor | None:
    """By LINK_CREATE; None where the kernel has that for other kinds only (before v5.18)."""
    options = bytes(_COOKIE_OFFSET) + cookie.to_bytes(8, "little") if cookie else b""
    try:
        return bpf.link_create(prog_fd, 0, AttachType.TRACE_RAW_TP, options=options, what=what)
    except OSError as error:
        if error.errno != errno.EINVAL or cookie:
            raise
        return None
