"""BTF that the kernel shows under /sys/kernel/btf."""

from __future__ import annotations

import functools
import mmap
import os
from struct import Struct

from pyebpf.errors import NotFound, NotSupported, closest

_DIRECTORY = "/sys/kernel/btf"
_NOTES = "/sys/kernel/notes"
_NOTE = Struct("=III")  # Elf64_Nhdr: n_namesz, n_descsz, n_type
_GNU_BUILD_ID = (b"GNU\0", 3)  # NT_GNU_BUILD_ID


def read_btf(name: str = "vmlinux") -> bytes | mmap.mmap:
    """The BTF of the kernel itself (vmlinux) or of a loaded module (split BTF on top of vmlinux's).

    The kernel's own is mapped where it can be, since Linux commit a539e2a6d51d ("btf: Allow mmap of vmlinux btf")
    (v6.16): a probe touches some of its pages, and reading them all takes 3 ms.
    Raises NotSupported where the kernel has none (CONFIG_DEBUG_INFO_BTF), NotFound for an unknown module.
    """
    path = os.path.join(_DIRECTORY, name)
    try:
        mapped = _mapped(path) if name == "vmlinux" else None
        if mapped is not None:
            return mapped
        with open(path, "rb") as file:
            return file.read()
    except FileNotFoundError:
        pass
    if name == "vmlinux" or not os.path.isdir(_DIRECTORY):
        raise NotSupported(f"this kernel has no BTF: {path} is missing (it needs CONFIG_DEBUG_INFO_BTF=y)")
    raise NotFound(f"no BTF of a module {name!r} under {_DIRECTORY}: is it loaded?{closest(name, btf_modules())}")


@functools.cache
def _mapped(path: str) -> mmap.mmap | None:
    """The file's memory, mapped once: it holds a descriptor, and stays as long as the process. None if it can't be."""
    with open(path, "rb") as file:
        try:
            return mmap.mmap(file.fileno(), 0, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ)
        except (OSError, ValueError):  # ENODEV, or an empty file
            return None


def btf_modules() -> tuple[str, ...]:
    """Names of loaded modules that have BTF, sorted."""
    try:
        return tuple(sorted(name for name in os.listdir(_DIRECTORY) if name != "vmlinux"))
    except FileNotFoundError:
        return ()


def kernel_build_id() -> bytes:
    """The running kernel's build id, of 20 bytes as a rule: what its linker made of everything in it, BTF too.

    Empty where the kernel was linked without, or /sys does not show it.
    """
    try:
        with open(_NOTES, "rb") as file:
            notes = file.read()
    except OSError:
        return b""
    at = 0
    while at + _NOTE.size <= len(notes):
        name_size, size, kind = _NOTE.unpack_from(notes, at)
        name = at + _NOTE.size
        start = name + (name_size + 3 & ~3)
        if (notes[name : name + name_size], kind) == _GNU_BUILD_ID:
            return notes[start : start + size]
        at = start + (size + 3 & ~3)
    return b""
