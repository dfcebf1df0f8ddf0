"""Mappings of a process's code: the executable lines of /proc/PID/maps."""

from __future__ import annotations

import re
from typing import NamedTuple

# A process may have 65,530 mappings (vm.max_map_count), with names of 4 kB; those of code are a few hundred at most.
_MAX_TEXT, MOST_MAPPINGS = 1 << 22, 4096
_DELETED = " (deleted)"
# start-end perms offset major:minor inode path
_LINE = re.compile(r"([0-9a-f]+)-([0-9a-f]+) ..x. ([0-9a-f]+) ([0-9a-f]+:[0-9a-f]+) ([0-9]+) *(.*)")
# In a path a newline is spelled so (seq_file_path); nothing else is.
_NEWLINE = "\\012"


#: How the kernel's own code in a process is called, and its largest size.
VDSO, _MAX_VDSO = "[vdso]", 1 << 20


class Mapping(NamedTuple):
    """Code at `start` to `end`, which lies in a file from `offset`.

    `path` is as the process sees it, "[vdso]" and the like for no file, "" for memory without a name; `inode`
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

    def link(self, pid: int) -> str:
        """The kernel's own path to the file that the process has mapped, whatever has become of its name."""
        return f"{links_of(pid)}{self.start:x}-{self.end:x}"


def links_of(pid: int) -> str:
    """The beginning of the kernel's own paths to files that a process has mapped."""
    return f"/proc/{pid}/map_files/"


def read_mappings(pid: int) -> tuple[Mapping, ...]:
    """The executable mappings of a living process; of one that has made them without measure, the first few thousand.

    Raises OSError.
    """
    with open(f"/proc/{pid}/maps", encoding="utf-8", errors="surrogateescape") as file:
        return parse_mappings(file.read(_MAX_TEXT))


def parse_mappings(text: str) -> tuple[Mapping, ...]:
    """The executable mappings of the content of a `maps` file, by address."""
    found: list[Mapping] = []
    for line in text.split("\n"):
        if len(found) == MOST_MAPPINGS:
            break
        match = _LINE.fullmatch(line)
        if match is None:
            continue
        start, end, offset, device, inode, path = match.groups()
        deleted = path.endswith(_DELETED) and inode != "0"
        name = (path.removesuffix(_DELETED) if deleted else path).replace(_NEWLINE, "\n")
        found.append(Mapping(int(start, 16), int(end, 16), int(offset, 16), device, int(inode), name, deleted))
    return tuple(found)


def read_vdso(pid: int, mapping: Mapping) -> bytes:
    """The ELF file that the kernel has mapped into a living process as `VDSO`. Raises OSError."""
    with open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
        memory.seek(mapping.start)
        return memory.read(min(mapping.end - mapping.start, _MAX_VDSO))


def running_program(pid: int) -> tuple[bytes, bytes] | None:
    """Tell the program that a process runs by its start, and by its stack, which exec(2) places at random.

    None if the process has ended, or is a kernel thread.
    """
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
    except OSError:
        return None
    start, stack = fields[22 - 3], fields[28 - 3]  # proc_pid_stat(5) counts from 1; two are before the parenthesis
    return None if stack == b"0" else (start, stack)
