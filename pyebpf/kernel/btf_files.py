"""BTF that the kernel shows under /sys/kernel/btf."""

from __future__ import annotations

import os

from pyebpf.errors import NotFound, NotSupported, closest

__all__ = ["btf_modules", "read_btf"]

_DIRECTORY = "/sys/kernel/btf"


def read_btf(name: str = "vmlinux") -> bytes:
    """The BTF of the kernel itself (vmlinux) or of a loaded module (split BTF on top of vmlinux's).

    Raises NotSupported where the kernel has none (CONFIG_DEBUG_INFO_BTF), NotFound for an unknown module.
    """
    path = os.path.join(_DIRECTORY, name)
    try:
        with open(path, "rb") as file:
            return file.read()
    except FileNotFoundError:
        pass
    if name == "vmlinux" or not os.path.isdir(_DIRECTORY):
        raise NotSupported(f"this kernel has no BTF: {path} is missing (it needs CONFIG_DEBUG_INFO_BTF=y)")
    raise NotFound(f"no BTF of a module {name!r} under {_DIRECTORY}: is it loaded?{closest(name, btf_modules())}")


def btf_modules() -> tuple[str, ...]:
    """Names of loaded modules that have BTF, sorted."""
    try:
        return tuple(sorted(name for name in os.listdir(_DIRECTORY) if name != "vmlinux"))
    except FileNotFoundError:
        return ()
