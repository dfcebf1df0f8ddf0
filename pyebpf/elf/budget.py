"""Limits on reading a file that another user may have written: bytes, entries, and seconds of the processor.

Whatever a file claims of itself, reading it costs no more than this; then it is given up, and its addresses keep the
file's name in place of a function's. One file's limits are wide enough for the largest libraries and programs known.
All files of one user who is not root have an allowance of time in common, too, which fills up again slowly: many bad
files delay a tool no longer than one.
"""

from __future__ import annotations

import time
from math import inf
from typing import TYPE_CHECKING

from pyebpf.errors import MalformedData

if TYPE_CHECKING:
    from collections.abc import Callable

#: A section table's entries, and the bytes of its names and of all notes, which lie in a few sections.
MAX_SECTIONS, MAX_HEADER_BYTES, MAX_NOTE_BYTES, MAX_NOTE_SECTIONS = 16_384, 1 << 22, 1 << 20, 256
#: Symbols of a file, bytes of their names, and of one name that is looked at; symbols of the same name.
MAX_SYMBOLS, MAX_STRING_BYTES, MAX_NAME, MAX_SAME = 1 << 19, 1 << 25, 1 << 12, 1 << 16
#: Relocations of an object file.
MAX_RELOCATIONS = 1 << 19
#: Seconds of the processor for one pass over a file that somebody named, for one of root's that a process has mapped
#: (the C library's names take a slow or emulated processor more than one), and for the headers of any.
PATIENCE, ROOT_SECONDS, MAX_SECONDS = 30.0, 10.0, 1.0
#: Of the files of a user who is not root together: seconds at once, and what comes back in a second.
_ALLOWED, _REGAINED = 0.5, 0.05
_LOOK_EVERY = 4096  # entries between looks at the clock
_ROOT = 0


#: The reason that a file's functions have no names after Ctrl-C.
_HURRY = (
    "the run was interrupted before it was read (those of the most frequent stacks are read first; a run that ends by "
    "itself, -d SECONDS, reads all)"
)


def for_ever() -> float:
    """Patience without a limit."""
    return inf


class OverBudget(MalformedData):
    """A file is larger, or takes longer, than anything that is read for names."""


class Allowances:
    """Seconds of the processor that reading the files of each user may take."""

    def __init__(self) -> None:
        self._left: dict[int, tuple[float, float]] = {}

    def left(self, owner: int) -> float:
        """Return the seconds left for the files of an owner."""
        if owner == _ROOT:
            return ROOT_SECONDS
        now = time.monotonic()
        seconds, since = self._left.get(owner, (_ALLOWED, now))
        seconds = min(seconds + (now - since) * _REGAINED, _ALLOWED)
        self._left[owner] = (seconds, now)
        return max(seconds, 0.0)

    def spend(self, owner: int, seconds: float) -> None:
        """Note what was used."""
        if owner != _ROOT:
            self._left[owner] = (self.left(owner) - seconds, time.monotonic())


class Hurry(OverBudget):
    """The patience is over."""

    def __init__(self, path: str) -> None:
        super().__init__(f"{path}: {_HURRY}")


class Budget:
    """The limits of reading one file, called `path`. `seconds` are those of one pass, of this thread's work.

    Whoever asks for the end in the meantime has a `patience`, whatever the pass may take: it gives the seconds left.
    """

    def __init__(self, path: str, seconds: float = PATIENCE) -> None:
        self._path = path
        self.seconds = seconds
        self.patience: Callable[[], float] = for_ever
        self._until = time.thread_time() + seconds
        self._notes = MAX_NOTE_BYTES
        self._names = MAX_STRING_BYTES

    def start(self) -> None:
        """Begin a pass."""
        self._until = time.thread_time() + self.seconds
        self._names = MAX_STRING_BYTES

    def went_on_after(self, seconds: float) -> None:
        """Leave out of a pass what this thread has done for others meanwhile."""
        self._until += seconds

    def check(self, number: int, most: int, what: str) -> None:
        """Raise OverBudget for more than `most`."""
        if number > most:
            raise OverBudget(f"{self._path}: {number} {what} are more than are read for names, {most}")

    def notes(self, size: int) -> None:
        """Count bytes of notes, of all sections together."""
        self._notes -= size
        if self._notes < 0:
            raise OverBudget(f"{self._path}: its notes are larger than are read for names, {MAX_NOTE_BYTES} bytes")

    def name(self, name: bytes) -> str:
        """Decode a name, and count it among those of the pass.

        Names may lie over each other: together they may be far longer than the table that holds them. Python takes up
        to four bytes for each character of a string that is not ASCII.
        """
        self._names -= len(name) if name.isascii() else 4 * len(name)
        if self._names < 0:
            raise OverBudget(f"{self._path}: its names are longer than are read, {MAX_STRING_BYTES} bytes together")
        return name.decode(errors="surrogateescape")

    def clock(self, number: int = 0) -> None:
        """Look at the clock, at every so many entries (0: now)."""
        if number % _LOOK_EVERY:
            return
        if self.patience() <= 0:
            raise Hurry(self._path)
        if time.thread_time() > self._until:
            raise OverBudget(f"{self._path}: reading its symbols takes longer than {self.seconds:.1g} s")


class Room:
    """Memory for what is kept: so many bytes."""

    def __init__(self, size: int) -> None:
        self._left = size

    def take(self, size: int) -> bool:
        """Take some, if it is there."""
        if size > self._left:
            return False
        self._left -= size
        return True

    def give_back(self, size: int) -> None:
        """Return what was taken."""
        self._left += size
