"""Uprobes through perf events: one event for each place."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, NoReturn

from pyebpf.arch import host
from pyebpf.errors import InvalidValue, NotFound
from pyebpf.kernel.pmu import open_probe
from pyebpf.kernel.roots import resolved
from pyebpf.link.base import Link, attach_error
from pyebpf.link.perf_link import attach_event

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyebpf.kernel.descriptor import Descriptor
    from pyebpf.link.host import Host
    from pyebpf.objects import Program
    from pyebpf.specs.attach.usdt import Usdt
    from pyebpf.specs.attach.user import Uprobe
    from pyebpf.symbols.user_functions import UserPlace

__all__ = ["Located", "attach_places", "attach_uprobe", "described", "locate", "refused"]

_MOST_NAMED = 5


class Located(NamedTuple):
    """What a spec's names mean on this machine: a file, places in it, lines on names without a place."""

    path: str
    places: tuple[UserPlace, ...]
    notes: tuple[str, ...] = ()


def attach_uprobe(program: Program, target: Uprobe, _: Host) -> Link:
    """Attach `program` (kind KPROBE) to functions of a file; one missing of several is a note.

    Detaching waits for the kernel, some 0.1 s for each place. Raises NotFound for a file, process or functions that are
    not there; InvalidValue, MalformedData, NotPermitted, NotSupported, KernelError.
    """
    located = locate(target)
    return attach_places(program, target, described(target, located), located, range(len(located.places)))


def locate(target: Uprobe) -> Located:
    """Look up the binary and its functions."""
    from pyebpf.symbols.libraries import find_binary
    from pyebpf.symbols.user_functions import find_functions, open_binary

    path = find_binary(target.binary, pid=target.pid)
    functions = find_functions(
        open_binary(path), target.functions, binary=target.binary, returns=target.returns, most=target.max_probes
    )
    size = host().instruction_size
    for place in functions.places:
        if place.offset % size:
            raise InvalidValue(f"{place.name} of {target.binary}: no instruction begins there, each has {size} bytes")
    return Located(path, *functions)


def described(target: Uprobe, located: Located) -> str:
    """The target with what was found, for messages: a few names, or how many there are."""
    names = [place.name for place in located.places]
    found = ", ".join(names) if len(names) <= _MOST_NAMED else f"{len(names)} functions"
    process = f" of process {target.pid}" if target.pid >= 0 else ""
    return f"{target.word} {target.binary}:{found}{process}"


def attach_places(program: Program, target: Uprobe | Usdt, what: str, located: Located, cookies: Sequence[int]) -> Link:
    """An event for each place, with its cookie."""
    returns = getattr(target, "returns", False)
    links: list[Descriptor] = []
    held: list[Descriptor] = []
    event: Descriptor | None = None
    try:
        with resolved(located.path) as file:
            for place, cookie in zip(located.places, cookies, strict=True):
                event = open_probe(
                    "uprobe",
                    os.fsencode(file),
                    place.offset,
                    returns=returns,
                    pid=target.pid,
                    ref_ctr_offset=place.ref_ctr,
                    what=what,
                )
                holder, is_link = attach_event(event, program.fileno(), cookie=program.spec.cookie or cookie, what=what)
                (links if is_link else held).append(holder)
    except BaseException as error:
        for descriptor in (*links, *held, *([event] if event is not None else [])):
            descriptor.close()
        if isinstance(error, OSError):
            refused(error, program, target, what, located.path)
        raise
    names = [place.name for place in located.places]
    return Link(what, "perf link" if links else "perf ioctl", links, held, notes=located.notes, places=names)


def refused(error: OSError, program: Program, target: Uprobe | Usdt, what: str, path: str) -> NoReturn:
    """Raise what the kernel's refusal to probe a file means."""
    pid = target.pid
    if error.errno in {errno.ESRCH, errno.ENOENT} and pid >= 0 and not Path("/proc", str(pid)).exists():
        raise NotFound(f"{what}: process {pid} has ended") from error
    if error.errno == errno.ENOENT:
        raise NotFound(f"{what}: {path} is not there any more") from error
    raise attach_error(
        error,
        program.name,
        what,
        needs=("CAP_SYS_ADMIN",),
        meanings={
            errno.EINVAL: "the kernel takes no probe there: it is no code, or another attachment has another semaphore",
            errno.EIO: f"the kernel cannot change the code of {path} in memory",
        },
    ) from error
