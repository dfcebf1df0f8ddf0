"""Attach programs to perf events: one event for each online processor or thread of a process, and breakpoints."""

from __future__ import annotations

import errno
from functools import partial
from typing import TYPE_CHECKING

from pyebpf.attach.perf_events import Breakpoint, PerfEvent
from pyebpf.errors import InvalidValue, NotFound, NotSupported, closest
from pyebpf.kernel import perf
from pyebpf.kernel.cpus import online_cpus
from pyebpf.kernel.processes import threads
from pyebpf.link.base import Link, attach_error
from pyebpf.link.perf_link import attach_event
from pyebpf.uapi.perf_numbers import PERF_TYPE_BREAKPOINT, PERF_TYPE_HARDWARE, PERF_TYPE_HW_CACHE, PERF_TYPE_RAW

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from typing import TypeAlias

    from pyebpf.errors import KernelError
    from pyebpf.kernel.descriptor import Descriptor
    from pyebpf.link.host import Host
    from pyebpf.objects import Program

    #: `perf_event_open` of an event, which lacks `pid` (a thread) and `cpu`, one of them -1, and `new_threads`.
    Opener: TypeAlias = Callable[..., Descriptor]

_NO_NEW_THREADS = (
    "threads that the process starts from now on are left out: this kernel follows none without child processes "
    "(inherit_thread of perf_event_open(2), since Linux 5.13)"
)


def attach_perf_event(program: Program, target: PerfEvent, _: Host) -> Link:
    """Attach `program` (kind PERF_EVENT); it runs at every `period`-th event or `frequency` times a second.

    With `pid`, in all threads of that process, on whatever processor they run; else on each processor that is online
    now.

    Raises NotSupported for hardware events that the host lacks,
    InvalidValue for a rate that it does not take, NotPermitted, KernelError.
    """
    what = str(target)
    if bool(target.period) == bool(target.frequency):
        raise InvalidValue(f"{what}: give either a period or a frequency")
    hardware = target.type in {PERF_TYPE_HARDWARE, PERF_TYPE_HW_CACHE, PERF_TYPE_RAW}
    lacking = "this host has no hardware counters" if hardware else "this host has no such event"

    open_event = partial(
        perf.perf_event_open,
        target.type,
        target.config,
        period=target.period,
        frequency=target.frequency,
        what=what,
    )

    meanings: dict[int, str | KernelError] = {
        errno.ENOENT: NotSupported(f"{what}: {lacking}"),
        errno.EOPNOTSUPP: NotSupported(f"{what}: this host cannot sample it"),
        errno.EINVAL: "no such event, or a frequency above kernel.perf_event_max_sample_rate",
    }
    return attach_events(program, what, target.pid, open_event, meanings, first_cpu=target.first_cpu)


def attach_events(
    program: Program,
    what: str,
    pid: int,
    open_event: Opener,
    meanings: Mapping[int, str | KernelError],
    *,
    first_cpu: bool = False,
) -> Link:
    """Open an event on each processor, or with `pid` >= 0 for each thread of the process, and attach to all of them.

    With `first_cpu` on the first processor alone. `meanings` are those of what opening may fail with. Raises
    InvalidValue without such a process, and as they say.
    """
    links: list[Descriptor] = []
    held: list[Descriptor] = []
    opened: list[Descriptor] = []
    warnings: dict[str, None] = {}

    def following(thread: int, cpu: int) -> Descriptor:
        if thread < 0 or warnings:
            return open_event(pid=thread, cpu=cpu)
        try:
            # Since Linux commit 2b26f0aa0045 ("perf: Support only inheriting events if cloned with CLONE_THREAD")
            # (v5.13).
            return open_event(pid=thread, cpu=cpu, new_threads=True)
        except OSError as error:
            if error.errno != errno.EINVAL:
                raise
        event = open_event(pid=thread, cpu=cpu)
        warnings[_NO_NEW_THREADS] = None
        return event

    try:
        for event in _events(program, what, pid, following, meanings):
            opened.append(event)
            holder, is_link = _attach(program, event, what)
            (links if is_link else held).append(holder)
            if first_cpu:
                break
    except BaseException:
        for descriptor in (*links, *opened):
            descriptor.close()
        raise
    return Link(what, "perf link" if links else "perf ioctl", links, held, warnings=tuple(warnings))


def _events(
    program: Program,
    what: str,
    pid: int,
    open_event: Callable[[int, int], Descriptor],
    meanings: Mapping[int, str | KernelError],
) -> Iterator[Descriptor]:
    """An event for each online processor; for one process an event for each of its threads."""

    def opened(thread: int, cpu: int) -> Descriptor | None:
        try:
            return open_event(thread, cpu)
        except ProcessLookupError:
            return None  # the thread has ended since the list was read
        except OSError as error:
            if error.errno == errno.ENODEV and cpu >= 0:
                return None  # went offline since the list was read
            raise attach_error(error, program.name, what, needs=("CAP_PERFMON",), meanings=meanings) from error

    if pid < 0:
        for cpu in online_cpus():
            event = opened(-1, cpu)
            if event is not None:
                yield event
        return
    seen: set[int] = set()
    # Threads started by threads that are seen already are followed by the kernel: again until no other is found.
    while new := threads(pid) - seen:
        for thread in sorted(new):
            event = opened(thread, -1)
            if event is not None:
                yield event
        seen |= new
    if not seen:
        raise InvalidValue(f"there is no process {pid}")


def _attach(program: Program, event: Descriptor, what: str) -> tuple[Descriptor, bool]:
    try:
        return attach_event(event, program.fileno(), cookie=program.spec.cookie, what=what)
    except OSError as error:
        raise attach_error(
            error,
            program.name,
            what,
            meanings={errno.EINVAL: "not a perf-event program, or a cookie on a kernel without perf links"},
        ) from error


_ACCESS = {"w": 2, "rw": 3, "x": 4}  # HW_BREAKPOINT_R is 1, _W 2, _X 4: include/uapi/linux/hw_breakpoint.h
_KERNEL = 1 << 63


def attach_breakpoint(program: Program, target: Breakpoint, _: Host) -> Link:
    """Attach `program` (kind PERF_EVENT) to a place in memory: on each processor, or in all threads of `target.pid`.

    Raises NotFound for an unknown symbol, InvalidValue for one of several places, NotSupported where the processor or
    the kernel cannot, NotPermitted, KernelError.
    """
    what = str(target)
    address = target.place if isinstance(target.place, int) else _address(target)
    if target.access != "x" and address % target.length:
        raise InvalidValue(f"{what}: {address:#x} is not aligned to its length of {target.length} bytes")

    open_event = partial(
        perf.perf_event_open,
        PERF_TYPE_BREAKPOINT,
        0,
        period=1,
        config1=address,
        config2=target.length,
        bp_type=_ACCESS[target.access],
        what=what,
    )

    in_kernel = address >= _KERNEL and target.access == "x"
    return attach_events(
        program,
        what,
        target.pid,
        open_event,
        {
            errno.ENOSPC: "the processor's breakpoint registers are all in use (x86-64 has four): close a debugger",
            errno.ENOENT: NotSupported(f"{what}: this machine has no hardware breakpoints"),
            errno.EOPNOTSUPP: NotSupported(f"{what}: this machine has no such hardware breakpoint"),
            errno.EINVAL: (
                "this kernel allows no breakpoint at that instruction (none at all without CONFIG_KPROBES)"
                if in_kernel
                else f"no place for a breakpoint of {target.length} bytes"
            ),
        },
    )


def _address(target: Breakpoint) -> int:
    assert isinstance(target.place, str)
    if target.pid >= 0:
        from pyebpf.symbols.places import address_in_process

        return address_in_process(target.pid, target.place)
    from pyebpf.symbols.search import SymbolText

    symbols = SymbolText()
    found = {symbol.address for symbol in symbols.find(target.place)}
    if not found:
        near = closest(target.place, symbols.similar(target.place, data=True))
        raise NotFound(
            f"{target}: the kernel lists no symbol {target.place}{near}; variables are listed with CONFIG_KALLSYMS_ALL"
        )
    if found == {0}:
        from pyebpf.symbols.kernel import KernelSymbols

        raise NotSupported(f"{target}: {KernelSymbols().hidden}")
    if len(found) > 1:
        places = ", ".join(f"{address:#x}" for address in sorted(found)[:4])
        raise InvalidValue(f"{target}: the kernel has {len(found)} symbols {target.place}: give an address ({places})")
    return found.pop()


ATTACH = {
    Breakpoint: attach_breakpoint,
    PerfEvent: attach_perf_event,
}
"""The function that attaches a program, by class of its attach spec."""
