"""Where a process has code: the executable lines of /proc/PID/maps."""

from __future__ import annotations

import re
from typing import NamedTuple

__all__ = ["Mapping", "parse_mappings"]

_DELETED = " (deleted)"
# start-end perms offset major:minor inode path
_LINE = re.compile(r"([0-9a-f]+)-([0-9a-f]+) ..x. ([0-9a-f]+) ([0-9a-f]+:[0-9a-f]+) (\d+) *(.*)")
# In a path a newline is spelled so (seq_file_path); nothing else is.
_NEWLINE = "\\012"


class Mapping(NamedTuple):
    """Code at `start` to `end`, which lies in a file from `offset`.

    `path` is as the process sees it, "[vdso]" and the like for what is no file, "" for memory without a name; `inode`
    is 0 then. `deleted`: the file has no name any more.
    """

    start: int
    end: int
    offset: int
    device: str
    inode: int
    path: str
    deleted: bool

    @property
    def is_file(self) -> bool:
        """Whether a file is mapped; memory files (`memfd_create`) look like deleted ones."""
        return self.inode != 0


def parse_mappings(text: str) -> tuple[Mapping, ...]:
    """The executable mappings of the content of a `maps` file, by address."""
    found = []
    for line in text.split("\n"):
        match = _LINE.fullmatch(line)
        if match is None:
            continue
        start, end, offset, device, inode, path = match.groups()
        deleted = path.endswith(_DELETED) and inode != "0"
        name = (path.removesuffix(_DELETED) if deleted else path).replace(_NEWLINE, "\n")
        found.append(Mapping(int(start, 16), int(end, 16), int(offset, 16), device, int(inode), name, deleted))
    return tuple(found)
