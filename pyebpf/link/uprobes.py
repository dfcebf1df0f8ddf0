"""Attach programs to functions of files: by a perf event for each place, or by one link for all."""

from __future__ import annotations

import errno
import os
from contextlib import contextmanager
from pathlib import Path
from struct import Struct
from typing import TYPE_CHECKING, NamedTuple, NoReturn

from pyebpf.arch import host as host_architecture
from pyebpf.attach.uprobes import COOKIE_MAP, Uprobe, UprobeMulti, UprobeSession, cookie_spec
from pyebpf.errors import InvalidValue, KernelError, NotFound
from pyebpf.kernel import bpf
from pyebpf.kernel.perf import open_probe
from pyebpf.kernel.roots import resolved
from pyebpf.kernel.syscall import address_of
from pyebpf.link.base import Link, attach_error
from pyebpf.link.perf_link import attach_event
from pyebpf.objects import Map, Program
from pyebpf.uapi.attach_types import AttachType
from pyebpf.uapi.errnos import ENOTSUPP
from pyebpf.uapi.flags import BPF_F_UPROBE_MULTI_RETURN

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from pyebpf.attach.usdt import Usdt
    from pyebpf.kernel.descriptor import Descriptor
    from pyebpf.link.host import Host
    from pyebpf.symbols.user_functions import ProbeOffset

_MAX_NAMED = 5


class ProbeLocations(NamedTuple):
    """A spec's names as found on this machine: a file, places in it, lines on names without a place."""

    path: str
    places: tuple[ProbeOffset, ...]
    warnings: tuple[str, ...] = ()


def prepare_uprobe(target: Uprobe, host: Host) -> None:
    """Look the functions up before anything is attached: a program may trace the very library that does so."""
    host.located[target] = locate(target)


def attach_uprobe(program: Program, target: Uprobe, host: Host) -> Link:
    """Attach `program` (kind KPROBE) to functions of a file; one missing of several is a note.

    Detaching waits for the kernel, some 0.1 s for each place. Raises NotFound for a file, process or functions that are
    not there; InvalidValue, MalformedData, NotPermitted, NotSupported, KernelError.
    """
    located = host.located.get(target) or locate(target)
    return attach_places(program, target, described(target, located), located, range(len(located.places)))


def locate(target: Uprobe) -> ProbeLocations:
    """Look up the binary and its functions."""
    from pyebpf.symbols.libraries import find_binary
    from pyebpf.symbols.return_probes import hazards_of_returns
    from pyebpf.symbols.user_functions import find_functions, open_binary

    path = find_binary(target.binary, pid=target.pid)
    elf = open_binary(path)
    functions = find_functions(
        elf, target.functions, binary=target.binary, returns=target.returns, max_probes=target.max_probes
    )
    size = host_architecture().instruction_size
    for place in functions.places:
        if place.offset % size:
            raise InvalidValue(f"{place.name} of {target.binary}: no instruction begins there, each has {size} bytes")
    hazards = hazards_of_returns(elf, target.binary) if target.returns or isinstance(target, UprobeSession) else ()
    return ProbeLocations(path, functions.places, (*functions.warnings, *hazards))


def described(target: Uprobe, located: ProbeLocations) -> str:
    """The target with what was found, for messages: a few names, or how many there are."""
    names = [place.name for place in located.places]
    found = ", ".join(names) if len(names) <= _MAX_NAMED else f"{len(names)} functions"
    process = f" of process {target.pid}" if target.pid >= 0 else ""
    return f"{target.word} {target.binary}:{found}{process}"


def attach_places(
    program: Program, target: Uprobe | Usdt, what: str, located: ProbeLocations, cookies: Sequence[int]
) -> Link:
    """An event for each place, with its cookie."""
    returns = isinstance(target, Uprobe) and target.returns
    links: list[Descriptor] = []
    held: list[Descriptor] = []
    missing: list[ProbeOffset] = []
    event: Descriptor | None = None
    try:
        with resolved(located.path) as file:
            for place, cookie in zip(located.places, cookies, strict=True):
                event = None
                try:
                    event = open_probe(
                        "uprobe",
                        os.fsencode(file),
                        place.offset,
                        returns=returns,
                        pid=target.pid,
                        ref_ctr_offset=place.ref_ctr,
                        what=what,
                    )
                    wanted = program.spec.cookie or cookie
                    with _with_cookie(program, wanted) as told:
                        holder, is_link = attach_event(event, told.fileno(), cookie=wanted, what=what)
                except OSError as error:
                    if error.errno != ENOTSUPP:
                        raise
                    if event is not None:
                        event.close()
                    missing.append(place)
                    if len(missing) == len(located.places):
                        raise
                else:
                    (links if is_link else held).append(holder)
    except BaseException as error:
        for descriptor in (*links, *held, *([event] if event is not None else [])):
            descriptor.close()
        if isinstance(error, OSError):
            raise_uprobe_error(error, program, target, what, located.path, missing if error.errno == ENOTSUPP else ())
        raise
    names = [place.name for place in located.places]
    warnings = (*located.warnings, *_left_out(missing))
    return Link(what, "perf link" if links else "perf ioctl", links, held, warnings=warnings, places=names)


@contextmanager
def _with_cookie(program: Program, cookie: int) -> Iterator[Program]:
    """The program that says `cookie`: itself, or where it reads that from a map, another one with a map of its own.

    The event holds what was attached to it.
    """
    if COOKIE_MAP not in program.maps:
        yield program
        return
    with Map(cookie_spec()) as numbers:
        numbers[0] = cookie
        with Program(program.spec, {**program.maps, COOKIE_MAP: numbers}) as told:
            yield told


def raise_uprobe_error(
    error: OSError,
    program: Program,
    target: Uprobe | Usdt,
    what: str,
    path: str,
    unsupported: Sequence[ProbeOffset] = (),
) -> NoReturn:
    """Raise what the kernel's refusal to probe a file means; `unsupported` are places that it has no probes for."""
    pid = target.pid
    if unsupported:
        names = ", ".join(place.name for place in unsupported[:_MAX_NAMED])
        # Not NotSupported: another way to attach meets the same instruction.
        raise KernelError(
            f"{what}: the kernel has no probes for the instruction that begins {names}: probe another function",
            error.errno,
        ) from error
    if error.errno in {errno.ESRCH, errno.ENOENT} and pid >= 0 and not Path("/proc", str(pid)).exists():
        raise NotFound(f"{what}: process {pid} has ended") from error
    if error.errno == errno.ENOENT:
        raise NotFound(f"{what}: {path} no longer exists") from error
    raise attach_error(
        error,
        program.name,
        what,
        needs=("CAP_SYS_ADMIN",),
        meanings={
            errno.EINVAL: "the kernel rejects a probe there: not code, or another attachment has another semaphore",
            errno.EIO: f"the kernel cannot change the code of {path} in memory",
        },
    ) from error


# struct { __aligned_u64 path, offsets, ref_ctr_offsets, cookies; __u32 cnt, flags, pid; } uprobe_multi;
_OPTIONS = Struct("=QQQQIII4x")


def attach_uprobe_multi(program: Program, target: UprobeMulti, host: Host) -> Link:
    """Attach `program` (loaded with the target's attach type) to functions of a file; one missing of several is a note.

    Attaching and detaching take a few milliseconds, however many they are. Raises as `attach_uprobe` does.
    """
    located = host.located.get(target) or locate(target)
    return link_places(program, target, described(target, located), located, range(len(located.places)))


def link_places(
    program: Program, target: UprobeMulti | Usdt, what: str, located: ProbeLocations, cookies: Sequence[int]
) -> Link:
    """One link for all places, each with its cookie."""
    every = list(zip(located.places, cookies, strict=True))
    missing: list[ProbeOffset] = []
    try:
        link = _link(program, target, what, located.path, every)
    except OSError as error:
        if error.errno == ENOTSUPP:
            missing = _unsupported(lambda some: _link(program, target, what, located.path, some).close(), every)
        if not missing or len(missing) == len(every):
            raise_uprobe_error(error, program, target, what, located.path, missing)
        left = [each for each in every if each[0] not in missing]
        link = _link(program, target, what, located.path, left)
    how = (
        "uprobe.multi link" if program.spec.expected_attach_type == AttachType.TRACE_UPROBE_MULTI else "uprobe session"
    )
    warnings = (*located.warnings, *_left_out(missing))
    return Link(what, how, [link], warnings=warnings, places=[place.name for place in located.places])


def _link(
    program: Program, target: UprobeMulti | Usdt, what: str, path: str, places: Sequence[tuple[ProbeOffset, int]]
) -> Descriptor:
    """One link for places with their cookies. Raises OSError."""
    returns, kind = isinstance(target, Uprobe) and target.returns, program.spec.expected_attach_type
    offsets = _numbers(place.offset for place, _ in places)
    counters = _numbers(place.ref_ctr for place, _ in places)
    marks = _numbers(program.spec.cookie or cookie for _, cookie in places)
    with resolved(path) as file:
        name = bytearray(os.fsencode(file) + b"\0")
        options = _OPTIONS.pack(
            address_of(name),
            address_of(offsets),
            address_of(counters) if any(place.ref_ctr for place, _ in places) else 0,
            address_of(marks),
            len(places),
            BPF_F_UPROBE_MULTI_RETURN if returns else 0,
            max(target.pid, 0),
        )
        link = bpf.link_create(program.fileno(), 0, kind, options=options, what=what)
    del name, offsets, counters, marks  # the kernel read them by address until here
    return link


def _unsupported(
    attempt: Callable[[Sequence[tuple[ProbeOffset, int]]], None], places: Sequence[tuple[ProbeOffset, int]]
) -> list[ProbeOffset]:
    """The places, of some that the kernel refuses together, that it refuses alone: found by halves."""
    try:
        attempt(places)
    except OSError as error:
        if error.errno != ENOTSUPP:
            return []
    else:
        return []
    if len(places) == 1:
        return [places[0][0]]
    half = len(places) // 2
    return [*_unsupported(attempt, places[:half]), *_unsupported(attempt, places[half:])]


def _left_out(places: Sequence[ProbeOffset]) -> tuple[str, ...]:
    """A line on functions that a probe cannot be put on."""
    if not places:
        return ()
    names = ", ".join(place.name for place in places[:_MAX_NAMED])
    more = f" and {len(places) - _MAX_NAMED} more" if len(places) > _MAX_NAMED else ""
    return (f"left out: {names}{more}: the kernel has no probes for the instruction that begins there",)


def _numbers(values: Iterable[int]) -> bytearray:
    """An array of u64."""
    return bytearray(b"".join(value.to_bytes(8, "little") for value in values))


PREPARE = dict.fromkeys((Uprobe, UprobeMulti, UprobeSession), prepare_uprobe)
"""The function that reads what attaching needs, by class of its attach spec."""

ATTACH = {
    Uprobe: attach_uprobe,
    UprobeMulti: attach_uprobe_multi,
    UprobeSession: attach_uprobe_multi,
}
"""The function that attaches a program, by class of its attach spec."""
