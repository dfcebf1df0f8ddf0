"""What this process holds open, and whether the kernel lets it use bpf(2)."""

from __future__ import annotations

import ctypes
import errno
import os
import platform
from pathlib import Path

_BPF_MAP_CREATE = 0
_BPF_MAP_TYPE_ARRAY = 2
_SYSTEM_CALL = {"x86_64": 321, "aarch64": 280}


def open_descriptors() -> dict[int, str]:
    """Each open descriptor and what it refers to, such as "/dev/null" or "anon_inode:bpf-map"."""
    found = {}
    for link in Path("/proc/self/fd").iterdir():
        try:
            found[int(link.name)] = str(link.readlink())
        except FileNotFoundError:  # the one that listed the folder
            continue
    return found


def leaked(before: dict[int, str], after: dict[int, str]) -> dict[int, str]:
    """Those in `after` that were not there, or referred to something else, in `before`."""
    return {number: target for number, target in after.items() if before.get(number) != target}


def why_bpf_is_refused() -> str | None:
    """The reason that this process cannot make a map, found by trying; None if it can.

    Written apart from `pyebpf.kernel`, so that a fault there fails tests and does not skip them.
    """
    number = _SYSTEM_CALL.get(platform.machine())
    if number is None or not Path("/proc/self/fd").exists():
        return f"no Linux on a known processor: {platform.platform()}"
    libc = ctypes.CDLL(None, use_errno=True)
    # union bpf_attr: u32 map_type, key_size, value_size, max_entries
    attributes = (ctypes.c_uint32 * 4)(_BPF_MAP_TYPE_ARRAY, 4, 8, 1)
    descriptor = libc.syscall(number, _BPF_MAP_CREATE, ctypes.byref(attributes), ctypes.sizeof(attributes))
    if descriptor < 0:
        code = ctypes.get_errno()
        return f"bpf(BPF_MAP_CREATE) says {errno.errorcode.get(code, code)}: {os.strerror(code)}"
    os.close(descriptor)
    return None
