"""A script's text, and places in it."""

from __future__ import annotations

import re
from bisect import bisect_right
from typing import TYPE_CHECKING

from pyebpf.errors import CompileError, InvalidValue, Location

if TYPE_CHECKING:
    from pyebpf.bpftrace.ast import Node


class _Part:
    """A file that stands in the text, within another (None: the script), in place of so many ends of lines."""

    __slots__ = ("around", "end", "file", "replaced", "start")

    def __init__(self, start: int, end: int, file: str, around: _Part | None, replaced: int) -> None:
        self.start, self.end, self.file = start, end, file
        self.around, self.replaced = around, replaced


class Source:
    """The text of a script, and the name of its file for messages; files that it includes stand in it."""

    __slots__ = ("_begins", "_parts", "file", "text")

    def __init__(self, text: str | bytes, file: str = "<script>") -> None:
        self.file = file
        self._begins: list[int] | None = None
        self._parts: list[_Part] = []
        if isinstance(text, bytes):
            self.text = text.decode(errors="surrogateescape")
        elif isinstance(text, str):
            self.text = text
        else:
            raise InvalidValue(f"a script is a str or bytes, not {type(text).__name__}")
        if "\0" in self.text or not self.text.isascii():
            self.text = self.text.removeprefix("\ufeff")  # the byte order mark that some editors begin a file with
            self._check()

    def _check(self) -> None:
        """Complain about a NUL, and about bytes that are not UTF-8: a half of a surrogate pair stands for each."""
        match = re.search("[\0\ud800-\udfff]", self.text)
        if match is not None:
            bad, character = match.start(), match[0]
            self.text = re.sub("[\0\ud800-\udfff]", "\ufffd", self.text)  # a terminal must be able to show it
            what = "NUL" if character == "\0" else f"byte {ord(character) & 0xFF:#04x}, which is not UTF-8"
            raise self.error_at(f"a script is text, without {what}", bad, bad + 1)

    def include(self, start: int, end: int, text: str, file: str) -> None:
        """Put a file's text in place of the characters from `start` to before `end`; nothing behind has been read."""
        replaced = self.text.count("\n", start, end)
        around = self._part_of(start)
        for part in self._parts:
            if part.end > start:
                part.end += len(text) - (end - start)
        self._parts.append(_Part(start, start + len(text), file, around, replaced))
        self.text = f"{self.text[:start]}{text}{self.text[end:]}"
        self._begins = None

    def _part_of(self, position: int) -> _Part | None:
        """The innermost included file that a character is of; None for the script itself."""
        found = [each for each in self._parts if each.start <= position < each.end]
        return found[-1] if found else None

    def _own_place(self, start: int, line: int) -> tuple[str, int]:
        """The file and the line in it of a character on a line of the whole text."""
        part = self._part_of(start)
        if part is not None:
            line -= self.text.count("\n", 0, part.start)
        for each in self._parts:
            if each.around is part and each.end <= start:
                line -= self.text.count("\n", each.start, each.end) - each.replaced
        return (self.file if part is None else part.file), line

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
        file, line = self._own_place(start, line) if self._parts else (self.file, line)
        return Location(file, line, start - begin, min(max(end - begin, start - begin + 1), len(text) + 1), text)

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
