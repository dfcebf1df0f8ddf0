"""Paths of files that a probe knows by their directories' names: where their file systems are mounted."""

from __future__ import annotations

import re
from pathlib import Path

#: Steps from a directory up, and bytes of a name.
STEPS, LONGEST_PART = 20, 128
#: include/linux/kdev_t.h: MINORBITS.
MINOR_BITS = 20


def mounted(device: int, path: str) -> str:
    """The path of a file by its path in the file system with a device's number.

    Where that is mounted more than once, the mount that shows the least of it counts, then the first. Where it is not,
    as seen from this process, the path stays as it is.
    """
    number = f"{device >> MINOR_BITS}:{device & (1 << MINOR_BITS) - 1}"
    found: tuple[str, str] | None = None
    for line in Path("/proc/self/mountinfo").read_text(errors="surrogateescape").splitlines():
        words = line.split(" ")
        if words[2] == number:
            root, point = (_unescaped(word).rstrip("/") for word in words[3:5])
            if path.startswith(f"{root}/") and (found is None or len(root) > len(found[0])):
                found = root, point
    return path if found is None else found[1] + path.removeprefix(found[0])


def _unescaped(word: str) -> str:
    """A word of mountinfo: spaces and the like are octal there."""
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), word)
