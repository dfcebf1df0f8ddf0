"""A script's text, and places in it."""

from __future__ import annotations

import re
from bisect import bisect_right
from typing import TYPE_CHECKING

from pyebpf.errors import CompileError, InvalidValue, Location

if TYPE_CHECKING:
    from pyebpf.bpftrace.ast import Node


class Source:
    """The text of a script, and the name of its file for messages."""

    __slots__ = ("_begins", "file", "text")

    def __init__(self, text: str | bytes, file: str = "<script>") -> None:
        self.file = file
        self._begins: list[int] | None = None
        if isinstance(text, bytes):
            self.text = text.decode(errors="surrogateescape")
        elif isinstance(text, str):
            self.text = text
        else:
            raise InvalidValue(f"a script is a str or bytes, not {type(text).__name__}")
        if "\0" in self.text or not self.text.isascii():
            self._check()

    def _check(self) -> None:
        """Complain about a NUL, and about bytes that are not UTF-8: a half of a surrogate pair stands for each."""
        match = re.search("[\0\ud800-\udfff]", self.text)
        if match is not None:
            bad, character = match.start(), match[0]
            self.text = re.sub("[\0\ud800-\udfff]", "\ufffd", self.text)  # a terminal must be able to show it
            what = "NUL" if character == "\0" else f"byte {ord(character) & 0xFF:#04x}, which is not UTF-8"
            raise self.error_at(f"a script is text, without {what}", bad, bad + 1)

    def location(self, node: Node) -> Location:
        """The place of a node; of one over several lines, its first line's."""
        return self.location_of(node.start, node.end)

    def location_of(self, start: int, end: int) -> Location:
        """The place of the characters from `start` to before `end`."""
        if self._begins is None:
            self._begins = [0]
            position = self.text.find("\n") + 1
            while position:
                self._begins.append(position)
                position = self.text.find("\n", position) + 1
        line = bisect_right(self._begins, start)
        begin = self._begins[line - 1]
        stop = self.text.find("\n", begin)
        text = self.text[begin : len(self.text) if stop < 0 else stop]
        return Location(self.file, line, start - begin, min(max(end - begin, start - begin + 1), len(text) + 1), text)

    def place(self, node: Node) -> str:
        """The place of a node as bpftrace writes it: `FILE:LINE:COLUMN-COLUMN`, from 1, the end behind it."""
        at = self.location(node)
        return f"{at.file}:{at.line}:{at.column + 1}-{(at.end_column or 0) + 1}"

    def marked(self, message: str, node: Node) -> str:
        """A message above the node's line, in which the node is marked as bpftrace does."""
        at = self.location(node)
        return f"{message}\n{at.text}\n{' ' * at.column}{'~' * ((at.end_column or at.column + 1) - at.column)}"

    def warning(self, message: str, node: Node) -> str:
        """A warning as bpftrace writes it."""
        return f"{self.place(node)}: WARNING: {self.marked(message, node)}"

    def error(self, message: str, node: Node) -> CompileError:
        """An error about a node."""
        return CompileError(message, self.location(node))

    def error_at(self, message: str, start: int, end: int) -> CompileError:
        """An error about the characters from `start` to before `end`."""
        return CompileError(message, self.location_of(start, end))
