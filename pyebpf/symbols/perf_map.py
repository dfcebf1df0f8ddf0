"""Names that a process gives to code that it made itself: /tmp/perf-PID.map, as just-in-time compilers write it."""

from __future__ import annotations

import os
import re
import time
from collections import OrderedDict
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
    is believed: anybody may put a file into /tmp, or a hard link to one of root's. Each look reads on from the last
    one. What is in a file larger than any compiler writes is not read; where there is no `room` for all names, the last
    ones are known. There are none while a file has been read in part: code may have taken the place of other code
    since.
    """

    def __init__(self, path: str, owner: int, room: Room) -> None:
        self.path = path
        self.owner = owner
        self._room = room
        self._cost = 0
        self._file = (0, 0)
        self._read = 0
        self._size = 0
        self._is_whole = True
        self._limit = ""
        # Code is thrown away and its place used again: of two entries for one address, the later. The oldest are first.
        self._names: OrderedDict[int, tuple[int, bytes]] = OrderedDict()
        self._table: SymbolTable | None = None

    @property
    def given_up(self) -> str:
        """The reason that names are not known, or not all of them; empty if they are."""
        if self._is_whole:
            return self._limit
        return (
            f"{self.path} was read in part, {self._read} of {self._size} bytes, so none of its names are known: "
            "reading it takes longer than is spent on it at once; later looks read on"
        )

    def look(self, seconds: float) -> None:
        """Read what has been added to the file, for so long at most; if it is gone, what it had last stays."""
        until = time.thread_time() + seconds
        try:
            with open_regular(self.path, follow=False) as file:
                status = os.fstat(file.fileno())
                if status.st_uid not in {0, self.owner} or (status.st_uid != self.owner and status.st_nlink > 1):
                    return
                if status.st_size > _LARGEST:
                    self._is_whole = True
                    self._limit = f"{self.path} has {status.st_size} bytes, more than are read for names"
                    self.forget()
                    return
                if (status.st_dev, status.st_ino) != self._file or status.st_size < self._read:
                    self._file, self._read = (status.st_dev, status.st_ino), 0
                    self._limit = ""
                    self.forget()
                self._size, self._is_whole = status.st_size, False
                while status.st_size > self._read and time.thread_time() < until:
                    file.seek(self._read)
                    if not self._add(file.read(_PIECE)):
                        self._is_whole = True
                        break
                self._is_whole = self._is_whole or self._read >= status.st_size
        except (PyebpfError, OSError):
            pass  # gone, or not for this user

    def forget(self) -> None:
        """Give the memory back."""
        self._room.give_back(self._cost)
        self._cost = 0
        self._names = OrderedDict()
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
                if start in self._names:
                    self._give_back(self._names.pop(start)[1])
                while not (fits := self._room.take(_NAME_COST + len(name))) and self._names:
                    self._give_back(self._names.popitem(last=False)[1][1])
                    self._limit = f"{self.path} has more names than there is room for: the last ones are known"
                self._table = None
                if not fits:
                    self._limit = f"{self.path} has more names than there is room for"
                    continue
                self._names[start] = (size, name)
                self._cost += _NAME_COST + len(name)
        return whole > 0

    def _give_back(self, name: bytes) -> None:
        cost = _NAME_COST + len(name)
        self._room.give_back(cost)
        self._cost -= cost

    def table(self) -> SymbolTable:
        """The symbols of a file that has been read as far as it was there."""
        if self._table is None:
            self._table = SymbolTable([(start, size, name) for start, (size, name) in self._names.items()])
        return self._table if self._is_whole else SymbolTable([])


def _hexadecimal(digits: bytes) -> int:
    """A number as compilers write it: int() takes underscores, signs and blanks, too, which make it no such line."""
    if not _HEXADECIMAL.fullmatch(digits):
        raise ValueError
    return int(digits, 16)
