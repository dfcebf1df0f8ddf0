"""Files that a script includes by `#include "file.h"`: they stand where the line is, and hold definitions only."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyebpf.bpftrace.source import Source
from pyebpf.errors import PyebpfError

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyebpf.bpftrace import ast


class Files:
    """The files beside a script. `read` is given a path as it is written, and the name of the file that it is in.

    It returns the text of the file and its name, or None if there is none.
    """

    def __init__(self, read: Callable[[str, str], tuple[str, str] | None]) -> None:
        self._read = read
        self._included: set[str] = set()
        #: Lines on files that there are not, each at its place.
        self.missing: list[str] = []

    def include(self, source: Source, node: ast.Include) -> bool:
        """Put a file in the place of the line that includes it; False if the line stays as it is."""
        if node.angled:
            return False
        place = source.location(node)
        try:
            found = self._read(node.path, place.file)
        except (PyebpfError, OSError) as error:
            reason = error.strerror if isinstance(error, OSError) and error.strerror else error
            raise source.error(f"{node.path} cannot be included: {reason}", node) from None
        if found is None:
            self.missing.append(place.marked(f"{node.path} is left out: there is no such file beside this one"))
            return False
        text, name = found
        if name in self._included:
            text = ""
        self._included.add(name)
        source.include(node.start, node.end, Source(text, name).text, name)
        return True
