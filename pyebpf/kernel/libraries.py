"""Libraries that this process has loaded, by the dynamic linker."""

from __future__ import annotations

import ctypes
import os


def loaded_function(path: str, name: str) -> int | None:
    """The offset in the file of the function that the linker takes for `name`; None if this process has not loaded it.

    Of an IFUNC it is the one that was chosen for this machine.
    """
    try:
        library = ctypes.CDLL(path, mode=os.RTLD_NOLOAD | os.RTLD_LAZY)
        address = ctypes.cast(getattr(library, name), ctypes.c_void_p).value or 0
        with open("/proc/self/maps", "rb") as maps:
            lines = maps.read().splitlines()
    except (OSError, AttributeError):
        return None
    for line in lines:
        bounds, _, offset, *_ = line.split(maxsplit=5)
        start, end = (int(bound, 16) for bound in bounds.split(b"-"))
        if start <= address < end:
            return address - start + int(offset, 16)
    return None
