"""Tracepoints through perf_event_open."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

from pyebpf.errors import NotSupported
from pyebpf.kernel import perf
from pyebpf.link.base import Link, attach_error
from pyebpf.link.perf_link import attach_event

if TYPE_CHECKING:
    from pyebpf.link.host import Host
    from pyebpf.objects import Program
    from pyebpf.specs import Tracepoint

__all__ = ["attach_tracepoint"]

_PERF_TYPE_TRACEPOINT = 2


def attach_tracepoint(program: Program, target: Tracepoint, host: Host) -> Link:
    """Attach `program` (kind TRACEPOINT) to `target`; it runs for every process on every processor.

    Raises NotFound with the closest names; NotPermitted;
    KernelError if the program reads beyond the tracepoint's fields, which the kernel finds out only now.
    """
    number = host.tracefs().event_id(target.category, target.name)
    what = str(target)
    try:
        # One event on one processor serves all: a tracepoint's programs run wherever it fires.
        event = perf.perf_event_open(_PERF_TYPE_TRACEPOINT, number, pid=-1, cpu=0, period=1, what=what)
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
