"""Find the file system of control groups of version 2."""

from __future__ import annotations

import re
from pathlib import Path

__all__ = ["cgroup2_mounts"]

_ESCAPED = re.compile(r"\\([0-7]{3})")


def cgroup2_mounts() -> list[str]:
    """Directories at which a cgroup2 file system is mounted, as this process sees them (/proc/self/mountinfo)."""
    found = []
    try:
        lines = Path("/proc/self/mountinfo").read_text(errors="surrogateescape").splitlines()
    except OSError:
        return []
    for line in lines:
        # … mount-point options optional-fields… - type source super-options
        before, _, after = line.partition(" - ")
        if after.split(" ", 1)[0] == "cgroup2":
            found.append(_ESCAPED.sub(lambda octal: chr(int(octal[1], 8)), before.split(" ")[4]))
    return found
