"""Attachments that dead processes left: found by the names that say whose they were (`kernel/owners.py`), and removed.

Links and perf events vanish with their owner. What is here does not, and its guard process removes it; unless that was
killed, too. An owner counts as dead where its lock is gone from the machine, and for no other reason.
"""

from __future__ import annotations

import contextlib
import errno
import os
import socket
from typing import TYPE_CHECKING, NamedTuple

from pyebpf.kernel.descriptor import Descriptor
from pyebpf.kernel.owners import living_owners, owner_of
from pyebpf.kernel.removals import remove_filter

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyebpf.kernel.rtnetlink import BpfFilter


class OrphanedAttachment(NamedTuple):
    """Something that a dead `owner` made: what and where, its name, and how to remove it (OSError)."""

    kind: str
    name: str
    owner: str
    remove: Callable[[], None]


def _events() -> Iterator[OrphanedAttachment]:
    """Lines of tracefs `kprobe_events`, such as "p:pyebpf_k3f9x2ab_probes/entry_1 vfs_read"; several make one event."""
    from pyebpf.errors import PyebpfError
    from pyebpf.kernel.tracefs import Tracefs

    try:
        files = Tracefs()
    except PyebpfError:
        return
    with files:
        try:
            text = _read("../kprobe_events", files.fileno())
        except FileNotFoundError:  # a kernel without kprobes
            return
        for event in dict.fromkeys(line.split()[0].partition(":")[2] for line in text.splitlines() if line):
            if owner := owner_of(event.partition("/")[0]):
                yield OrphanedAttachment("kprobe event", event, owner, _event_remover(event))


def _read(path: str, directory: int) -> str:
    with Descriptor(os.open(path, os.O_RDONLY | os.O_CLOEXEC, dir_fd=directory), path) as file:
        pieces = []
        while piece := os.read(file.fileno(), 1 << 16):
            pieces.append(piece)
    return b"".join(pieces).decode(errors="surrogateescape")


def _event_remover(event: str) -> Callable[[], None]:
    def remove() -> None:
        from pyebpf.kernel.tracefs import Tracefs

        with Tracefs() as files:
            # Not by remove_event: that one waits for an owner that is just dying, and this one is dead for good.
            flags = os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC
            with Descriptor(os.open("../kprobe_events", flags, dir_fd=files.fileno()), "kprobe_events") as file:
                os.write(file.fileno(), f"-:{event}".encode())

    return remove


def _filters() -> Iterator[OrphanedAttachment]:
    """Filters of kind bpf, of the clsact queues in this network namespace. Queues that pyebpf made go with the last."""
    from pyebpf.kernel.rtnetlink import CLSACT, bpf_filters, open_rtnetlink

    with open_rtnetlink() as netlink:
        for index, interface in socket.if_nameindex():
            for direction in CLSACT:
                for each in bpf_filters(netlink.fileno(), index, direction):
                    if owner := owner_of(each.name):
                        what = f"{interface} {direction} {each.name}"
                        yield OrphanedAttachment("tc filter", what, owner, _filter_remover(index, direction, each))


def _filter_remover(interface: int, direction: str, found: BpfFilter) -> Callable[[], None]:
    def remove() -> None:
        from pyebpf.kernel.rtnetlink import open_rtnetlink

        with open_rtnetlink() as netlink:
            # A queue that pyebpf made has a q in its filters' names: pyebpf_<token>_<number>q_<program>.
            made_queue = found.name.split("_")[2].endswith("q")
            remove_filter(interface, direction, found.name, found.program, made_queue, netlink.fileno())

    return remove


def _xdp() -> Iterator[OrphanedAttachment]:
    """XDP programs that netlink attached in this network namespace: their own names tell the owner."""
    from pyebpf.kernel import bpf
    from pyebpf.kernel.info import program_info
    from pyebpf.kernel.iproute import iproute, xdp_programs

    with iproute() as requests:
        programs = xdp_programs(requests)
    for (index, interface), number in programs.items():
        try:
            with bpf.prog_get_fd_by_id(number) as program:
                name = program_info(program.fileno()).name
        except OSError:  # 0, one in each mode; or gone by now
            continue
        if owner := owner_of(name):
            yield OrphanedAttachment("XDP program", f"{interface} {name}", owner, _xdp_remover(index, number))


def _xdp_remover(interface: int, number: int) -> Callable[[], None]:
    def remove() -> None:
        from pyebpf.kernel import bpf
        from pyebpf.kernel.rtnetlink import open_rtnetlink, set_xdp

        refusals = []
        with bpf.prog_get_fd_by_id(number) as program, open_rtnetlink() as netlink:
            for mode in (1 << 1, 1 << 2):  # XDP_FLAGS_SKB_MODE, XDP_FLAGS_DRV_MODE
                try:
                    set_xdp(netlink.fileno(), interface, -1, mode, expected_fd=program.fileno())
                except OSError as error:
                    refusals.append(error)
        if len(refusals) > 1:
            raise refusals[0]

    return remove


FINDERS: dict[str, Callable[[], Iterator[OrphanedAttachment]]] = {"events": _events, "filters": _filters, "xdp": _xdp}
"""One for each kind of attachment that outlives its process and bears its token; the living's, too."""


def orphans() -> list[OrphanedAttachment]:
    """All that dead owners left, of the kinds that this process may see.

    Raises OSError where there is something, and nothing can tell whether its owner lives (EPERM: no CAP_SYS_ADMIN, or
    that of a container's user namespace only).
    """
    found: list[OrphanedAttachment] = []
    for finder in FINDERS.values():
        with contextlib.suppress(PermissionError):
            try:
                found += finder()
            except OSError as error:
                if error.errno not in (errno.EOPNOTSUPP, errno.EAFNOSUPPORT):
                    raise
    # Looked for last: an owner has its lock before it attaches anything.
    living = living_owners() if found else set()
    return [each for each in found if each.owner not in living]
