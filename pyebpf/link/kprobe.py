"""kprobes and kretprobes: by the perf PMU, an event a function; by tracefs where that is missing, or for many."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

from pyebpf.errors import KernelError, NotFound, NotPermitted, NotSupported
from pyebpf.kernel.perf import pmu_type
from pyebpf.kernel.pmu import open_probe
from pyebpf.link.base import Link, attach_error
from pyebpf.link.perf_link import attach_event
from pyebpf.specs.attach.functions import split
from pyebpf.uapi.errnos import errno_name

if TYPE_CHECKING:
    from pyebpf.kernel.descriptor import Descriptor
    from pyebpf.link.host import Host
    from pyebpf.objects import Program
    from pyebpf.specs.attach.functions import Kprobe

__all__ = ["attach_kprobe"]

#: From so many functions on, one event of tracefs for all is faster than one of the PMU for each: 8 s against 27 for
#: 300 of them on an emulated Linux 6.1, of which most is detaching.
MANY = 12
#: Errnos that speak of the function.
_OF_THE_FUNCTION = frozenset({errno.ENOENT, errno.EINVAL, errno.EADDRNOTAVAIL, errno.EILSEQ, errno.E2BIG, errno.ESRCH})


def attach_kprobe(program: Program, target: Kprobe, host: Host) -> Link:
    """Attach `program` (kind KPROBE) to each function of `target`.

    Raises NotFound with the closest names, NotSupported for a function that takes no probe or without kprobes,
    NotPermitted, KernelError.
    """
    pmu = pmu_type("kprobe")
    # The PMU came with Linux commit e12f03d7031a ("perf/core: Implement the 'perf_kprobe' PMU") (v4.17).
    if pmu is None and not _has_kprobe_events(host):
        raise NotSupported(f"{target}: this kernel has no kprobes (CONFIG_KPROBES, CONFIG_KPROBE_EVENTS)")
    matched = frozenset(target.matched)

    def refuse(error: OSError, function: str) -> str:
        if function not in matched or error.errno not in _OF_THE_FUNCTION:
            what = f"{'kretprobe' if target.returns else 'kprobe'} {function}"
            raise _refusal(error, program, what, function, host) from error
        return f"{function} takes no probe and is left out ({errno_name(error.errno)})"

    if pmu is None or len(target.functions) >= MANY:
        from pyebpf.link.kprobe_events import attach_kprobe_event

        return attach_kprobe_event(program, target, host, refuse)
    links: list[Descriptor] = []
    held: list[Descriptor] = []
    notes: list[str] = []
    try:
        for function in target.functions:
            try:
                holder, is_link = _attach(program, target, function)
            except OSError as error:
                if isinstance(error, KernelError):
                    raise
                notes.append(refuse(error, function))
            else:
                (links if is_link else held).append(holder)
    except BaseException:
        for descriptor in (*links, *held):
            descriptor.close()
        raise
    if not links and not held:
        raise NotSupported(f"{target}: no probe could be put on any: {notes[0]}")
    return Link(str(target), "perf link" if links else "perf ioctl", links, held, notes=notes)


def _has_kprobe_events(host: Host) -> bool:
    try:
        return host.tracefs().has_top("kprobe_events")
    except (NotPermitted, NotSupported):
        return False


def _attach(program: Program, target: Kprobe, function: str) -> tuple[Descriptor, bool]:
    module, name, offset = split(function)
    what = f"{'kretprobe' if target.returns else 'kprobe'} {function}"
    path = f"{module}:{name}" if module else name
    event = open_probe("kprobe", path.encode(), int(offset or "0", 0), returns=target.returns, what=what)
    try:
        return attach_event(event, program.fileno(), cookie=program.spec.cookie, what=what)
    except OSError as error:
        event.close()
        meaning = "not a kprobe program, or a cookie on a kernel without perf links"
        raise attach_error(error, program.name, what, meanings={errno.EINVAL: meaning}) from error


def _refusal(error: OSError, program: Program, what: str, function: str, host: Host) -> KernelError | NotFound:
    from pyebpf.link.function_refusals import NO_INSTRUCTION, missing, refused

    if error.errno not in _OF_THE_FUNCTION:
        return attach_error(error, program.name, what, needs=("CAP_PERFMON", "CAP_SYS_ADMIN"))
    gone = missing(function)
    if gone is not None:
        return gone
    if error.errno == errno.EILSEQ:
        return NotSupported(f"{what}: {NO_INSTRUCTION}", error.errno)
    return NotSupported(f"{what}: {refused(function, host)}", error.errno)
