"""Attach programs to kernel functions by kprobes: through the PMU, through tracefs, or many by one link.

Many kprobes are one event of tracefs: `kprobe_events` takes any number of probes under one name, which attaches and
detaches twice as fast as an event of the PMU for each function, and takes one descriptor. The event stays until its
line is removed, so a guard process does that if this one is killed.
"""

from __future__ import annotations

import errno
import itertools
import os
from struct import Struct
from typing import TYPE_CHECKING

from pyebpf.attach.kernel_functions import address_of_code, split
from pyebpf.attach.kprobes import Kprobe, KprobeMulti
from pyebpf.errors import KernelError, NotFound, NotPermitted, NotSupported
from pyebpf.kernel import bpf, perf
from pyebpf.kernel.descriptor import Descriptor
from pyebpf.kernel.owners import owned_name, owner_of
from pyebpf.kernel.perf import open_probe, pmu_type
from pyebpf.kernel.syscall import address_of
from pyebpf.link.base import Link, attach_error
from pyebpf.link.perf_link import attach_event
from pyebpf.uapi.errnos import errno_name
from pyebpf.uapi.flags import BPF_F_KPROBE_MULTI_RETURN
from pyebpf.uapi.perf_numbers import PERF_TYPE_TRACEPOINT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from pyebpf.kernel.guard import Removal
    from pyebpf.link.host import Host
    from pyebpf.objects import Program

_numbers = itertools.count()


class EventLink(Link):
    """An attachment to an event that has to be removed."""

    def __init__(
        self,
        target: str,
        how: str,
        holder: Descriptor,
        removal: Removal,
        *,
        is_link: bool,
        warnings: Sequence[str],
        progress: Callable[[str], None],
    ) -> None:
        super().__init__(target, how, [holder] if is_link else [], [] if is_link else [holder], warnings=warnings)
        self._removal = removal
        self._progress = progress

    def _only_link(self, what: str) -> Descriptor:
        # The guard would remove the event, and could not while a pin holds it.
        raise NotSupported(f"{self.target} {what}: it is attached by {self.how}, not by one link")

    def detach(self) -> None:
        if not self.detached:
            self._progress(f"Detaching {self.target}: this kernel takes its time...")
        super().detach()
        self._removal.perform()


def attach_kprobe_event(
    program: Program, target: Kprobe, host: Host, refuse: Callable[[OSError, str], str]
) -> EventLink:
    """Attach `program` (kind KPROBE) to all functions of `target` by one event.

    `refuse(error, function)` raises for a function that cannot be probed, or returns a note that it is left out.
    """
    from pyebpf.kernel.guard import guard

    tracefs = host.tracefs()
    group, event = owned_name("probes"), f"{'return' if target.returns else 'entry'}_{next(_numbers)}"
    # Before the first line is written: from then on there is something to remove.
    line, descriptors = f"-:{group}/{event}", (tracefs.fileno(),)
    removal = guard("event", "../kprobe_events", line, descriptors=descriptors, owner=owner_of(group))
    warnings: list[str] = []
    try:
        # Not by open(): mode "a" seeks to the end, which this file does not take, and "w" deletes all events there are.
        flags = os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC
        with Descriptor(os.open("../kprobe_events", flags, dir_fd=tracefs.fileno()), "kprobe_events") as file:
            _define(file, target, f"{'r' if target.returns else 'p'}:{group}/{event}", warnings, host, refuse)
        what = str(target)
        number = tracefs.event_id(group, event)
        opened = perf.perf_event_open(PERF_TYPE_TRACEPOINT, number, pid=-1, cpu=0, period=1, what=what)
        try:
            holder, is_link = attach_event(opened, program.fileno(), cookie=program.spec.cookie, what=what)
        except BaseException:
            opened.close()
            raise
    except BaseException:
        removal.perform()
        raise
    return EventLink(what, "kprobe_events", holder, removal, is_link=is_link, warnings=warnings, progress=host.report)


def _define(
    file: Descriptor,
    target: Kprobe,
    start: str,
    warnings: list[str],
    host: Host,
    refuse: Callable[[OSError, str], str],
) -> None:
    host.report(f"Attaching {target}: this kernel takes its time...")

    def write(place: str) -> None:
        os.write(file.fileno(), f"{start} {place}\n".encode())

    for function in target.functions:
        try:
            _at_each(function, write, warnings)
        except OSError as error:
            warnings.append(refuse(error, function))


def _at_each(function: str, put: Callable[[str], object], warnings: list[str]) -> None:
    """Put a probe on a function, or on each of those that share the name, by their addresses.

    The kernel refuses such a name since commit b022f0c7e404 ("tracing/kprobes: Return EADDRNOTAVAIL when func matches
    several symbols") (v6.6, and stable releases of before); without it, it takes the first. Of kprobe_events the error
    is EINVAL.
    """
    from pyebpf.link.kernel_functions import places_of

    try:
        put(function)
    except OSError as error:
        places = places_of(function) if error.errno in {errno.EADDRNOTAVAIL, errno.EINVAL} else ()
        if len(places) < 2:
            raise
        refused = []
        for place in places:
            try:
                put(place)
            except OSError as reason:
                if isinstance(reason, KernelError) or reason.errno not in _OF_THE_FUNCTION:
                    raise
                refused.append(f"{function} at {place} cannot be probed and is left out ({errno_name(reason.errno)})")
        if len(refused) == len(places):
            raise
        warnings += refused


#: From so many functions on, one event of tracefs for all is faster than one of the PMU for each: 8 s against 27 for
#: 300 of them on an emulated Linux 6.1, of which most is detaching.
MANY = 12
#: Errnos that speak of the function.
_OF_THE_FUNCTION = frozenset({errno.ENOENT, errno.EINVAL, errno.EADDRNOTAVAIL, errno.EILSEQ, errno.E2BIG, errno.ESRCH})


def attach_kprobe(program: Program, target: Kprobe, host: Host) -> Link:
    """Attach `program` (kind KPROBE) to each function of `target`.

    Raises NotFound with the closest names, NotSupported for a function that cannot be probed or without kprobes,
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
        return f"{function} cannot be probed and is left out ({errno_name(error.errno)})"

    if pmu is None or len(target.functions) >= MANY:
        return attach_kprobe_event(program, target, host, refuse)
    links: list[Descriptor] = []
    held: list[Descriptor] = []
    warnings: list[str] = []

    def attach(function: str) -> None:
        holder, is_link = _attach(program, target, function)
        (links if is_link else held).append(holder)

    try:
        for function in target.functions:
            try:
                _at_each(function, attach, warnings)
            except OSError as error:
                if isinstance(error, KernelError):
                    raise
                warnings.append(refuse(error, function))
    except BaseException:
        for descriptor in (*links, *held):
            descriptor.close()
        raise
    if not links and not held:
        raise NotSupported(f"{target}: no probe could be put on any: {warnings[0]}")
    return Link(str(target), "perf link" if links else "perf ioctl", links, held, warnings=warnings)


def _has_kprobe_events(host: Host) -> bool:
    try:
        return host.tracefs().has_top("kprobe_events")
    except (NotPermitted, NotSupported):
        return False


def _attach(program: Program, target: Kprobe, function: str) -> tuple[Descriptor, bool]:
    what = f"{'kretprobe' if target.returns else 'kprobe'} {function}"
    address = address_of_code(function)
    if address is None:
        module, name, offset = split(function)
        path, place = f"{module}:{name}" if module else name, int(offset or "0", 0)
    else:
        path, place = "", address
    event = open_probe("kprobe", path.encode(), place, returns=target.returns, what=what)
    try:
        return attach_event(event, program.fileno(), cookie=program.spec.cookie, what=what)
    except OSError as error:
        event.close()
        meaning = "not a kprobe program, or a cookie on a kernel without perf links"
        raise attach_error(error, program.name, what, meanings={errno.EINVAL: meaning}) from error


def _refusal(error: OSError, program: Program, what: str, function: str, host: Host) -> KernelError | NotFound:
    from pyebpf.link.kernel_functions import NO_INSTRUCTION, missing, reason_against_probe

    if error.errno not in _OF_THE_FUNCTION:
        return attach_error(error, program.name, what, needs=("CAP_PERFMON", "CAP_SYS_ADMIN"))
    if address_of_code(function) is not None:
        return NotSupported(f"{what}: no instruction of the kernel's that can be probed begins there", error.errno)
    gone = missing(function)
    if gone is not None:
        return gone
    if error.errno == errno.EILSEQ:
        return NotSupported(f"{what}: {NO_INSTRUCTION}", error.errno)
    return NotSupported(f"{what}: {reason_against_probe(function, host)}", error.errno)


# struct { __u32 flags, cnt; __aligned_u64 syms, addrs, cookies; } kprobe_multi
_OPTIONS = Struct("=IIQQQ")
_ADDRESSES = Struct("=Q")


def attach_kprobe_multi(program: Program, target: KprobeMulti, host: Host) -> Link:
    """Attach `program` (loaded with the target's attach type) to all functions of `target`.

    Raises NotFound with the names that there are none of, NotSupported without such links, NotPermitted, KernelError.
    """
    what = str(target)
    # A name twice is as unknown to the kernel as one that does not exist.
    cookies = dict(zip(target.functions, target.cookies or (0,) * len(target.functions), strict=True))
    links: list[Descriptor] = []
    try:
        for functions, addresses in _groups(tuple(cookies)):
            numbers = [cookies[function] for function in functions] if target.cookies else ()
            links.append(_create(program, target, functions, addresses, numbers))
    except BaseException as error:
        for link in links:
            link.close()
        if not isinstance(error, OSError) or isinstance(error, KernelError):
            raise
        if error.errno == errno.ESRCH:
            raise _unknown(what, tuple(cookies), host) from error
        raise attach_error(
            error,
            program.name,
            what,
            meanings=dict.fromkeys((errno.EINVAL, errno.EOPNOTSUPP), _without(what, session=target.session)),
        ) from error
    return Link(what, "kprobe session" if target.session else "kprobe.multi link", links)


def _groups(functions: Sequence[str]) -> Iterator[tuple[Sequence[str], Sequence[int]]]:
    """Functions by their names, and, since the kernel takes names without a module's, those of modules by addresses.

    One link has names or addresses. Raises NotFound for a function that its module lacks.
    """
    plain = [function for function in functions if ":" not in function]
    if plain:
        yield plain, ()
    if len(plain) == len(functions):
        return
    from pyebpf.link.kernel_functions import missing
    from pyebpf.symbols.search import SymbolText

    symbols = SymbolText()
    qualified = [function for function in functions if ":" in function]
    addresses = []
    for function in qualified:
        module, _, name = function.partition(":")
        found = [symbol.address for symbol in symbols.find(name, module) if symbol.is_function]
        if not found:
            raise missing(function) or NotFound(f"no function {function}")
        addresses.append(found[0])
    # Where addresses are hidden, names have to do.
    yield qualified, addresses if all(addresses) else ()


def _without(what: str, *, session: bool) -> KernelError:
    # fprobe is what such links are made of; Debian's 6.1 is built without.
    reason = (
        "kprobe sessions (since Linux 6.10, with CONFIG_FPROBE)" if session else "kprobe.multi links (CONFIG_FPROBE)"
    )
    return NotSupported(f"{what}: this kernel has no {reason}")


def _create(
    program: Program, target: KprobeMulti, functions: Sequence[str], addresses: Sequence[int], cookies: Sequence[int]
) -> Descriptor:
    names = [bytearray(function.rpartition(":")[2].encode() + b"\0") for function in functions]
    places = addresses or [address_of(name) for name in names]
    packed = bytearray(b"".join(_ADDRESSES.pack(place) for place in places))
    numbers = bytearray(b"".join(_ADDRESSES.pack(cookie % (1 << 64)) for cookie in cookies))
    options = _OPTIONS.pack(
        BPF_F_KPROBE_MULTI_RETURN if target.returns else 0,
        len(names),
        0 if addresses else address_of(packed),
        address_of(packed) if addresses else 0,
        address_of(numbers) if numbers else 0,
    )
    link = bpf.link_create(program.fileno(), 0, target.attach_type, options=options, what=str(target))
    del names, packed, numbers  # the kernel read them by address until here
    return link


def _unknown(what: str, functions: Sequence[str], host: Host) -> Exception:
    """The kernel does not say which names it does not know: ask what it lists."""
    from pyebpf.link.kernel_functions import missing, reason_against_probe

    try:
        reached = host.traceable().names()
    except (OSError, NotPermitted, NotSupported):
        return NotFound(
            f"{what}: one of these is not a function, or ftrace cannot trace it: {', '.join(functions[:5])}"
        )
    lacking = [function for function in functions if function.rpartition(":")[2].encode() not in reached]
    if not lacking:
        return NotFound(f"{what}: the kernel reports that one does not exist, although it lists all of them")
    gone = missing(lacking[0])
    also = f" (nor of {', '.join(lacking[1:5])})" if len(lacking) > 1 else ""
    if gone is not None:
        return NotFound(f"{gone}{also}")
    reason = reason_against_probe(lacking[0], host)
    return NotSupported(f"{what}: {lacking[0]} cannot be probed: {reason}{also}")


ATTACH = {
    Kprobe: attach_kprobe,
    KprobeMulti: attach_kprobe_multi,
}
"""The function that attaches a program, by class of its attach spec."""
