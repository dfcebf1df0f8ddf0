"""What this process holds open, what the kernel holds loaded, and whether it lets this process use bpf(2)."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import platform
from pathlib import Path

_BPF_MAP_CREATE = 0
_BPF_MAP_TYPE_ARRAY = 2
# BPF_PROG_GET_NEXT_ID, BPF_MAP_GET_NEXT_ID, BPF_LINK_GET_NEXT_ID: start_id at offset 0, next_id at 4
_NEXT_ID = {"program": 11, "map": 12, "link": 31}
# As fdinfo of a descriptor shows it: of a link its program's, too.
_ID_FIELDS = {"prog_id": "program", "map_id": "map", "link_id": "link"}
_CLONE_NEWNS = 0x0002_0000
_MS_REC, _MS_PRIVATE = 1 << 14, 1 << 18
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
    """Those in `after` that were not there, or referred to something else, in `before`.

    But for the kernel's BTF, which is mapped once, for as long as the process lives.
    """
    return {
        number: target
        for number, target in after.items()
        if before.get(number) != target and target != "/sys/kernel/btf/vmlinux"
    }


def mounts() -> set[str]:
    """The mounts that this process sees, as lines of /proc/self/mountinfo."""
    return set(Path("/proc/self/mountinfo").read_text().splitlines())


def leave_mount_namespace() -> bool:
    """Have the mounts of this process and its children for themselves; False where the kernel does not let it.

    What others mount meanwhile is not seen here then, nor is it there what this process mounts.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    unshared: int = libc.unshare(_CLONE_NEWNS)
    private: int = unshared or libc.mount(b"none", b"/", None, _MS_REC | _MS_PRIVATE, None)
    return private == 0


def of_others(mark: str) -> set[tuple[str, int]]:
    """Programs, maps and links that a process has open which has not got `mark` among its environment variables."""
    found = set()
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it has ended
            if mark.encode() in (process / "environ").read_bytes().split(b"\0"):
                continue
            for descriptor in (process / "fdinfo").iterdir():
                for line in descriptor.read_text().splitlines():
                    name, _, number = line.partition(":")
                    if name in _ID_FIELDS and number.strip().isdecimal():
                        found.add((_ID_FIELDS[name], int(number)))
    return found


def why_bpf_is_refused() -> str | None:
    """The reason that this process cannot make a map, found by trying; None if it can.

    Written apart from `pyebpf.kernel`, so that a fault there fails tests and does not skip them.
    """
    if platform.machine() not in _SYSTEM_CALL or platform.system() != "Linux":
        return f"no Linux on a known processor: {platform.platform()}"
    # union bpf_attr: u32 map_type, key_size, value_size, max_entries
    descriptor, code, _ = _bpf(_BPF_MAP_CREATE, _BPF_MAP_TYPE_ARRAY, 4, 8, 1)
    if descriptor < 0:
        return f"bpf(BPF_MAP_CREATE) says {errno.errorcode.get(code, code)}: {os.strerror(code)}"
    os.close(descriptor)
    return None


def loaded() -> set[tuple[str, int]]:
    """Kind and id of every program, map and link in the kernel, whoever made it."""
    found = set()
    for kind, command in _NEXT_ID.items():
        number = 0
        while True:
            status, _, attributes = _bpf(command, number, 0, 0, 0)
            if status < 0:  # ENOENT after the last
                break
            number = attributes[1]
            found.add((kind, number))
    return found


def _bpf(command: int, *words: int) -> tuple[int, int, ctypes.Array[ctypes.c_uint32]]:
    """The result of bpf(2), errno, and the attributes, which the kernel may have changed."""
    libc = ctypes.CDLL(None, use_errno=True)
    attributes = (ctypes.c_uint32 * len(words))(*words)
    number = _SYSTEM_CALL[platform.machine()]
    result = libc.syscall(number, command, ctypes.byref(attributes), ctypes.sizeof(attributes))
    return result, ctypes.get_errno(), attributes
