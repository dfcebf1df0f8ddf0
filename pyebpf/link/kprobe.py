"""kprobes and kretprobes: by the perf PMU, an event a function; by tracefs where that is missing, or for many."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

from pyebpf.errors import KernelError, NotFound, NotSupported
from pyebpf.kernel.perf import pmu_type
from pyebpf.kernel.pmu import open_probe
from pyebpf.link.base import Link, attach_error
from pyebpf.link.function_refusals import split
from pyebpf.link.perf_link import attach_event

if TYPE_CHECKING:
    from pyebpf.kernel.descriptor import Descriptor
    from pyebpf.link.host import Host
    from pyebpf.objects import Program
    from pyebpf.specs.attach.functions import Kprobe

__all__ = ["attach_kprobe"]

#: Errnos that speak of the function.
_OF_THE_FUNCTION = frozenset({errno.ENOENT, errno.EINVAL, errno.EADDRNOTAVAIL, errno.EILSEQ, errno.E2BIG, errno.ESRCH})


def attach_kprobe(program: Program, target: Kprobe, host: Host) -> Link:
    """Attach `program` (kind KPROBE) to each function of `target`.

    Raises NotFound with the closest names, NotSupported for a function that takes no probe or without kprobes,
    NotPermitted, KernelError.
    """
    if pmu_type("kprobe") is None:
        raise NotSupported(f"{target}: this kernel has no kprobes (CONFIG_KPROBES, CONFIG_KPROBE_EVENTS)")
    links: list[Descriptor] = []
    held: list[Descriptor] = []
    try:
        for function in target.functions:
            holder, is_link = _attach(program, target, function, host)
            (links if is_link else held).append(holder)
    except BaseException:
        for descriptor in (*links, *held):
            descriptor.close()
        raise
    return Link(str(target), "perf link" if links else "perf ioctl", links, held)


def _attach(program: Program, target: Kprobe, function: str, host: Host) -> tuple[Descriptor, bool]:
    module, name, offset = split(function)
    what = f"{'kretprobe' if target.returns else 'kprobe'} {function}"
    path = f"{module}:{name}" if module else name
    try:
        event = open_probe("kprobe", path.encode(), offset, returns=target.returns, what=what)
    except OSError as error:
        raise _refusal(error, program, what, function, host) from error
    try:
        return attach_event(event, program.fileno(), cookie=program.spec.cookie, what=what)
    except OSError as error:
        event.close()
        meaning = "not a kprobe program, or a cookie on a kernel without perf links"
        raise attach_error(error, program.name, what, meanings={errno.EINVAL: meaning}) from error


def _refusal(error: OSError, program: Program, what: str, function: str, host: Host) -> KernelError | NotFound:
    from pyebpf.link.function_refusals import missing, refused

    if error.errno not in _OF_THE_FUNCTION:
        return attach_error(error, program.name, what, needs=("CAP_PERFMON", "CAP_SYS_ADMIN"))
    gone = missing(function)
    if gone is not None:
        return gone
    if error.errno == errno.EILSEQ:
        return NotSupported(f"{what}: no instruction begins there", error.errno)
    return NotSupported(f"{what}: {refused(function, host)}", error.errno)
