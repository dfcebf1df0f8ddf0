"""Parts of files of tests: a file whose tests take long in a machine is dealt in several.

A part is written FILE@NUMBER/COUNT, a whole file FILE. Which part a test is in, its name decides.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING
from zlib import crc32

if TYPE_CHECKING:
    from collections.abc import Collection


class Share:
    """The tests of some files and parts of files."""

    def __init__(self, names: Collection[str]) -> None:
        self._counts: dict[str, set[int]] = defaultdict(set)
        self._names = frozenset(names)
        for name in names:
            file, at, part = name.partition("@")
            if at:
                self._counts[file].add(int(part.partition("/")[2]))

    def has(self, test: str) -> bool:
        """Whether a test is among them, `test` as pytest names it: FILE::NAME."""
        file = test.partition("::")[0]
        return file in self._names or any(part_of(test, count) in self._names for count in self._counts.get(file, ()))


def part_of(test: str, count: int) -> str:
    """The part of its file that a test is in, of `count` parts."""
    file = test.partition("::")[0]
    return file if count == 1 else f"{file}@{crc32(test.encode()) % count}/{count}"
