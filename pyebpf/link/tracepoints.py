"""Attach programs to tracepoints: through perf events, raw, and raw with BTF types."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

from pyebpf.attach.tracepoints import BtfTracepoint, RawTracepoint, Tracepoint, WritableRawTracepoint
from pyebpf.errors import NotFound, NotSupported, closest
from pyebpf.kernel import bpf, perf
from pyebpf.link.base import Link, attach_error
from pyebpf.link.perf_link import attach_event
from pyebpf.uapi.attach_types import AttachType
from pyebpf.uapi.bpf import ProgramType
from pyebpf.uapi.perf_numbers import PERF_TYPE_TRACEPOINT

if TYPE_CHECKING:
    from pyebpf.kernel.descriptor import Descriptor
    from pyebpf.link.host import Host
    from pyebpf.objects import Program


def prepare_tracepoint(target: Tracepoint, host: Host) -> None:
    """Read the tracepoint's number: a program that is attached already would see that its file is opened."""
    host.tracefs().event_id(target.category, target.name)


def attach_tracepoint(program: Program, target: Tracepoint, host: Host) -> Link:
    """Attach `program` (kind TRACEPOINT) to `target`; it runs for every process on every processor.

    Raises NotFound with the closest names; NotPermitted;
    KernelError if the program reads beyond the tracepoint's fields, which the kernel finds out only now.
    """
    number = host.tracefs().event_id(target.category, target.name)
    what = str(target)
    try:
        # One event on one processor serves all: a tracepoint's programs run wherever it fires.
        event = perf.perf_event_open(PERF_TYPE_TRACEPOINT, number, pid=-1, cpu=0, period=1, what=what)
    except OSError as error:
        raise attach_error(
            error,
            program.name,
            what,
            meanings={errno.ENODEV: NotSupported(f"attaching to {what} needs processor 0, which is offline")},
        ) from error
    try:
        holder, is_link = attach_event(event, program.fileno(), cookie=program.spec.cookie, what=what)
    except OSError as error:
        event.close()
        raise attach_error(
            error,
            program.name,
            what,
            meanings={
                errno.EACCES: "the program reads beyond the tracepoint's fields: see its `format`",
                errno.EINVAL: "not a tracepoint program, or a cookie on a kernel without perf links",
            },
        ) from error
    return Link(
        what, "perf link" if is_link else "perf ioctl", [holder] if is_link else [], [] if is_link else [holder]
    )


_SYSCALLS = ("sys_enter_", "sys_exit_")


def attach_raw_tracepoint(program: Program, target: RawTracepoint, _: Host) -> Link:
    """Attach `program` (kind RAW_TRACEPOINT) to `target`. Raises NotFound, NotPermitted, KernelError."""
    try:
        # A cookie came with Linux commit 68ca5d4eebb8 ("bpf: support BPF cookie in raw_tracepoint (raw_tp, tp_btf)
        # programs") (v6.10).
        descriptor = bpf.raw_tracepoint_open(program.fileno(), target.name, cookie=program.spec.cookie)
    except FileNotFoundError:
        raise NotFound(f"no raw tracepoint {target.name!r}{_hint(target.name)}") from None
    except OSError as error:
        meaning = (
            "the tracepoint is not writable, or not as far as the program writes"
            if program.spec.type is ProgramType.RAW_TRACEPOINT_WRITABLE
            else "not a raw-tracepoint program"
        ) + (", or a kernel without cookies here" if program.spec.cookie else "")
        raise attach_error(error, program.name, str(target), meanings={errno.EINVAL: meaning}) from error
    return Link(str(target), "raw tracepoint", [descriptor])


def _hint(name: str) -> str:
    """Return a hint: the name that may have been meant."""
    for start in _SYSCALLS:
        if name.startswith(start):
            return f": system calls share {start[:-1]}; compare the number, or use tracepoint syscalls:{name}"
    from pyebpf.btf import Btf, raw_tracepoint_names
    from pyebpf.kernel.btf_files import read_btf

    try:
        return closest(name, raw_tracepoint_names(Btf(read_btf())))
    except NotSupported:  # no BTF, no list of names
        return ""


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


ATTACH = {
    BtfTracepoint: attach_btf_tracepoint,
    RawTracepoint: attach_raw_tracepoint,
    Tracepoint: attach_tracepoint,
    WritableRawTracepoint: attach_raw_tracepoint,
}
"""The function that attaches a program, by class of its attach spec."""
PREPARE = {Tracepoint: prepare_tracepoint}
"""The function that reads what attaching needs, by class of its attach spec."""
