"""Files of other processes, found as those find them.

/proc/PID/root leads to a process's root directory, but no further: of what lies below it, an absolute link is followed
from the root of whoever opens it. In a container's /usr/bin/tool -> /opt/tool that is the host's /opt/tool.
"""

from __future__ import annotations

import errno
import os
import re
from contextlib import contextmanager
from struct import Struct
from typing import TYPE_CHECKING

from pyebpf.kernel.descriptor import Descriptor
from pyebpf.kernel.syscall import address_of, syscall

if TYPE_CHECKING:
    from collections.abc import Iterator

_ROOT = re.compile(r"/+proc/+(?:\d+|self|thread-self)/+(?:task/+\d+/+)?root(?=/|$)")
# struct open_how { __u64 flags, mode, resolve; };
_OPEN_HOW = Struct("=QQQ")
_RESOLVE_NO_MAGICLINKS, _RESOLVE_IN_ROOT = 0x02, 0x10
_MAX_TRIES = 64  # EAGAIN: something was renamed meanwhile, so the kernel can't tell whether the way left the root


def split_root(path: str) -> tuple[str, str]:
    """The "/proc/PID/root" that a path begins with, and the rest; empty and the path itself if it does not."""
    match = _ROOT.match(path)
    return (match[0], path[match.end() :]) if match else ("", path)


@contextmanager
def resolved(path: str, *, follow: bool = True) -> Iterator[str]:
    """A name of the same file without a link on its way, good until the end of the block.

    A path without a process's root is left as it is. In one that has it, all links are followed inside of that root;
    without `follow` the last part is not. Raises OSError.
    """
    root, rest = split_root(path)
    if not root:
        yield path
        return
    with Descriptor(_open_in_root(root, rest.lstrip("/") or ".", follow=follow), path) as found:
        yield f"/proc/self/fd/{found.fileno()}"


def _open_in_root(root: str, path: str, *, follow: bool) -> int:
    with Descriptor(os.open(root, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC), root) as top:
        return _openat2(top.fileno(), path, follow=follow)


def _openat2(top: int, path: str, *, follow: bool) -> int:
    name = bytearray(os.fsencode(path) + b"\0")
    flags = os.O_PATH | os.O_CLOEXEC | (0 if follow else os.O_NOFOLLOW)
    how = bytearray(_OPEN_HOW.pack(flags, 0, _RESOLVE_IN_ROOT | _RESOLVE_NO_MAGICLINKS))
    for last in (*[False] * (_MAX_TRIES - 1), True):
        try:
            return syscall("openat2", top, address_of(name), address_of(how), _OPEN_HOW.size)
        except BlockingIOError as error:
            if last or error.errno != errno.EAGAIN:
                raise
    raise AssertionError("the last try returns or raises")


def path_exists(path: str) -> bool:
    """As `os.path.exists`, with links followed where `resolved` follows them."""
    try:
        with resolved(path) as name:
            os.stat(name)
    except (OSError, ValueError):
        return False
    return True
