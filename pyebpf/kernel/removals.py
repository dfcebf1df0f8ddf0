"""Attachments that outlive their process, and how each is removed: by a name and a program that only its owner has.

Each removal is a function of plain data and descriptors, so that the owner and its guard (`kernel/guard.py`) call the
same one. Removing what is not there, or is somebody else's by now, does nothing.
"""

from __future__ import annotations

import contextlib
import errno
import os
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

#: Seconds that a removal waits for the kernel to let go of what its dead owner used.
_PATIENCE = 30.0


def remove_event(path: str, command: str, directory: int | None = None) -> None:
    """Write a line such as "-:group/name" to tracefs `kprobe_events`, which drops the event with all its probes.

    `path` is relative to the descriptor `directory`, where given.
    """
    deadline = time.monotonic() + _PATIENCE
    fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC, dir_fd=directory)
    try:
        while True:
            try:
                os.write(fd, command.encode())
            except OSError as error:
                # ENOENT: it is gone; EINVAL says so on Linux 6.12. EBUSY: the dead owner's perf event is still closing.
                if error.errno in (errno.ENOENT, errno.EINVAL):
                    return
                if error.errno != errno.EBUSY or time.monotonic() > deadline:
                    raise
                time.sleep(0.02)
            else:
                return
    finally:
        os.close(fd)


def remove_filter(
    interface: int,
    direction: str,
    name: str,
    program: int,
    made_queue: bool,  # noqa: FBT001 - as it goes to the guard
    netlink: int,
    prog_fd: int = -1,  # noqa: ARG001 - held open, so that the id is no other program's by then
) -> None:
    """Remove a bpf filter, known by its name and its program's id, from a clsact queue.

    The queue goes, too, if it was made for it and is empty.
    """
    from pyebpf.kernel.rtnetlink import remove_clsact_filter

    remove_clsact_filter(netlink, interface, direction, name, program, made_queue=made_queue)


def remove_xdp(interface: int, flags: int, prog_fd: int, netlink: int) -> None:
    """Take a program off an interface's XDP hook, if it is this one that is there."""
    from pyebpf.kernel.rtnetlink import set_xdp

    with contextlib.suppress(OSError):  # another program by now (EEXIST), or the interface has gone (ENODEV)
        set_xdp(netlink, interface, -1, flags, expected_fd=prog_fd)


def detach_program(attach_type: int, target_fd: int, prog_fd: int) -> None:
    """PROG_DETACH: of a control group, or of whatever else PROG_ATTACH was told."""
    from pyebpf.kernel.bpf import prog_detach

    try:
        prog_detach(target_fd, prog_fd, attach_type)
    except OSError as error:
        if error.errno not in (errno.ENOENT, errno.EINVAL):
            raise


def unregister_table(map_fd: int) -> None:
    """Delete the one entry of a struct_ops map, which takes its table of functions back from the kernel."""
    from pyebpf.kernel.map_elements import map_delete_elem

    with contextlib.suppress(FileNotFoundError):
        map_delete_elem(map_fd, bytes(4))


#: By the name that goes to the guard.
REMOVALS: dict[str, Callable[..., None]] = {
    "detach": detach_program,
    "event": remove_event,
    "filter": remove_filter,
    "struct_ops": unregister_table,
    "xdp": remove_xdp,
}
#: Modules that each imports at work: a guard does so beforehand, since files may have changed when its owner dies.
NEEDS = {
    "detach": "pyebpf.kernel.bpf",
    "filter": "pyebpf.kernel.rtnetlink",
    "struct_ops": "pyebpf.kernel.map_elements",
    "xdp": "pyebpf.kernel.rtnetlink",
}
