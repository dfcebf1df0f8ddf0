"""Names that a process gives to code that it made itself: /tmp/perf-PID.map, as just-in-time compilers write it."""

from __future__ import annotations

import os
import re
import time
from typing import TYPE_CHECKING

from pyebpf.elf.symbol_table import SymbolTable
from pyebpf.errors import PyebpfError
from pyebpf.symbols.files import open_regular

if TYPE_CHECKING:
    from pyebpf.elf.budget import Room

#: Bytes of a file that is looked at, read at one time, and of a line.
_LARGEST, _PIECE, _LONGEST_LINE = 1 << 26, 1 << 20, 512
#: About what a name takes in memory beside its characters.
_NAME_COST = 250


_HEXADECIMAL = re.compile(rb"(?:0[xX])?[0-9a-fA-F]+")


class PerfMap:
    """One such file: lines of start and size in hexadecimal and a name, blanks allowed. It grows as code is made.

    Lines that are none of that are left out. Only a file that belongs to root or to `owner`, the user of the process,
    is believed: anybody may put a file into /tmp. Each look reads on from the last one. What is in a file larger than
    any compiler writes is not read, nor what there is no `room` for; `given_up` says so.
    """

    def __init__(self, path: str, owner: int, room: Room) -> None:
        self.path = path
        self.given_up = ""
        self.owner = owner
        self._room = room
        self._cost = 0
        self._file = (0, 0)
        self._read = 0
        # Code is thrown away and its place used again: of two entries for one address, the later.
        self._names: dict[int, tuple[int, bytes]] = {}
        self._table: SymbolTable | None = None

    def look(self, seconds: float) -> None:
        """Read what has been added to the file, for so long at most; if it is gone, what it had last stays."""
        until = time.thread_time() + seconds
        try:
            with open_regular(self.path, follow=False) as file:
                status = os.fstat(file.fileno())
                if status.st_uid not in {0, self.owner}:
                    return
                if status.st_size > _LARGEST:
                    self.given_up = f"{self.path} has {status.st_size} bytes, more than are read for names"
                    return
                if (status.st_dev, status.st_ino) != self._file or status.st_size < self._read:
                    self._file, self._read = (status.st_dev, status.st_ino), 0
                    self.forget()
                while status.st_size > self._read and time.thread_time() < until and not self.given_up:
                    file.seek(self._read)
                    if not self._add(file.read(_PIECE)):
                        break
        except (PyebpfError, OSError):
            pass  # gone, or not for this user

    def forget(self) -> None:
        """Give the memory back."""
        self._room.give_back(self._cost)
        self._cost = 0
        self._names = {}
        self._table = None

    def _add(self, content: bytes) -> bool:
        """Take the names of whole lines; whether there were any."""
        # A line that is being written is read when it is whole; one that fills a piece is none.
        whole = content.rfind(b"\n") + 1 or (len(content) if len(content) == _PIECE else 0)
        self._read += whole
        for line in content[:whole].split(b"\n"):
            fields = line[:_LONGEST_LINE].split(b" ", 2)
            try:
                start, size, name = _hexadecimal(fields[0]), _hexadecimal(fields[1]), fields[2].strip()
            except (ValueError, IndexError):
                continue
            if 0 <= start < 1 << 64 and 0 < size < 1 << 64:
                cost = 0 if start in self._names else _NAME_COST + len(line)
                if not self._room.take(cost):
                    self.given_up = f"{self.path} has more names than there is room for: the first ones are known"
                    break
                self._cost += cost
                self._names[start] = (size, name)
                self._table = None
        return whole > 0

    def table(self) -> SymbolTable:
        """Return the symbols that were read so far."""
        if self._table is None:
            self._table = SymbolTable([(start, size, name) for start, (size, name) in self._names.items()])
        return self._table


def _hexadecimal(digits: bytes) -> int:
    """A number as compilers write it: int() takes underscores, signs and blanks, too, which make it no such line."""
    if not _HEXADECIMAL.fullmatch(digits):
        raise ValueError
    return int(digits, 16)
