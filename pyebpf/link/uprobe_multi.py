"""Uprobes through one link for all places: uprobe.multi, and sessions."""

from __future__ import annotations

import os
from struct import Struct
from typing import TYPE_CHECKING

from pyebpf.kernel import bpf
from pyebpf.kernel.roots import resolved
from pyebpf.kernel.syscall import address_of
from pyebpf.link.base import Link
from pyebpf.link.uprobe import described, locate, refused
from pyebpf.uapi.attach_types import AttachType

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pyebpf.link.host import Host
    from pyebpf.link.uprobe import Located
    from pyebpf.objects import Program
    from pyebpf.specs.attach.usdt import Usdt
    from pyebpf.specs.attach.user import UprobeMulti

__all__ = ["attach_uprobe_multi", "link_places"]

# struct { __aligned_u64 path, offsets, ref_ctr_offsets, cookies; __u32 cnt, flags, pid; } uprobe_multi;
_OPTIONS = Struct("=QQQQIII4x")
_RETURN = 1  # BPF_F_UPROBE_MULTI_RETURN


def attach_uprobe_multi(program: Program, target: UprobeMulti, _: Host) -> Link:
    """Attach `program` (loaded with the target's attach type) to functions of a file; one missing of several is a note.

    Attaching and detaching take a few milliseconds, however many they are. Raises as `attach_uprobe` does.
    """
    located = locate(target)
    return link_places(program, target, described(target, located), located, range(len(located.places)))


def link_places(
    program: Program, target: UprobeMulti | Usdt, what: str, located: Located, cookies: Sequence[int]
) -> Link:
    """One link for all places, each with its cookie."""
    returns, kind = getattr(target, "returns", False), program.spec.expected_attach_type
    offsets = _numbers(place.offset for place in located.places)
    counters = _numbers(place.ref_ctr for place in located.places)
    marks = _numbers(program.spec.cookie or cookie for cookie in cookies)
    try:
        with resolved(located.path) as file:
            path = bytearray(os.fsencode(file) + b"\0")
            options = _OPTIONS.pack(
                address_of(path),
                address_of(offsets),
                address_of(counters) if any(place.ref_ctr for place in located.places) else 0,
                address_of(marks),
                len(located.places),
                _RETURN if returns else 0,
                max(target.pid, 0),
            )
            link = bpf.link_create(program.fileno(), 0, kind, options=options, what=what)
    except OSError as error:
        refused(error, program, target, what, located.path)
    del path, offsets, counters, marks  # the kernel read them by address until here
    how = "uprobe.multi link" if kind == AttachType.TRACE_UPROBE_MULTI else "uprobe session"
    return Link(what, how, [link], notes=located.notes, places=[place.name for place in located.places])


def _numbers(values: Iterable[int]) -> bytearray:
    """An array of u64."""
    return bytearray(b"".join(value.to_bytes(8, "little") for value in values))
