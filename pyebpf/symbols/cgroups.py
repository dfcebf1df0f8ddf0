"""Paths of groups of processes by their numbers, in every hierarchy that is mounted."""

from __future__ import annotations

import os
from fnmatch import fnmatchcase

from pyebpf.kernel.mounts import mount_points


def paths(number: int, pattern: str = "*") -> list[tuple[str, str]]:
    """The names of the hierarchies that have a group of this number, with its path there; "unified" is cgroup2.

    Only hierarchies whose names match the pattern are searched: each is read as a tree of directories.
    """
    mounts = mount_points()
    hierarchies = [("unified", place) for kind, place in mounts if kind == "cgroup2"]
    hierarchies += sorted([(os.path.basename(place), place) for kind, place in mounts if kind == "cgroup"])
    found = []
    for name, place in hierarchies:
        if fnmatchcase(name, pattern):
            path = _path(place, number)
            if path is not None:
                found.append((name, path))
    return found


def _path(root: str, number: int) -> str | None:
    """The path of the directory with this inode, below `root`: the number of a group is that of its directory."""
    for folder, _, _ in os.walk(root):
        try:
            if os.stat(folder).st_ino == number:
                return f"/{os.path.relpath(folder, root)}" if folder != root else "/"
        except OSError:
            continue  # a group that has just gone
    return None
