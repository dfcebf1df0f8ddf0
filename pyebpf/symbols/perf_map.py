"""Names that a process gives to code that it made itself: /tmp/perf-PID.map, as just-in-time compilers write it."""

from __future__ import annotations

import os

from pyebpf.errors import PyebpfError
from pyebpf.symbols.files import open_regular
from pyebpf.symbols.table import SymbolTable

__all__ = ["PerfMap"]

_LARGEST = 1 << 28  # bytes


class PerfMap:
    """One such file: lines of start and size in hexadecimal and a name, blanks allowed. It grows as code is made.

    Lines that are none of that are left out. Only a file that belongs to root or to `owner`, the user of the process,
    is believed: anybody may put a file into /tmp.
    """

    def __init__(self, path: str, owner: int) -> None:
        self.path = path
        self._owner = owner
        self._state: tuple[int, ...] = ()
        self._table = SymbolTable(())

    def table(self) -> SymbolTable:
        """What the file has by now; what it had last, where it is gone."""
        try:
            with open_regular(self.path, follow=False) as file:
                status = os.fstat(file.fileno())
                state = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)
                believed = status.st_uid in {0, self._owner} and status.st_size <= _LARGEST
                if believed and state != self._state:
                    self._table = SymbolTable(_parse(file.read(_LARGEST)))
                    self._state = state
        except (PyebpfError, OSError):
            pass  # gone, or not for this user
        return self._table


def _parse(content: bytes) -> list[tuple[int, int, bytes]]:
    # Code is thrown away and its place used again: of two entries for one address, the later.
    found: dict[int, tuple[int, bytes]] = {}
    for line in content.split(b"\n"):
        fields = line.split(b" ", 2)
        try:
            start, size, name = int(fields[0], 16), int(fields[1], 16), fields[2].strip()
        except (ValueError, IndexError):
            continue
        if start >= 0 and size > 0:
            found[start] = (size, name)
    return [(start, size, name) for start, (size, name) in found.items()]
