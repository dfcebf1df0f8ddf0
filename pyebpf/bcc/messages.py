"""Lines of a trace by their messages: the events that are shown are those whose message has a text."""

from __future__ import annotations

import re

#: What the script prints before a message: no name and no text of a process has it, which are escaped.
MARK = "\x1f"
_EVENT = re.compile(f"^(?=[^\n]*{MARK})", re.MULTILINE)


class Messages:
    """Filter of a trace's text: it shows the heading, and the events whose message has `wanted`, `most` of them.

    Lines below an event, its stacks, are shown with it.
    """

    def __init__(self, wanted: str, most: int | None = None) -> None:
        self._wanted = wanted
        self._left = most
        self._shows = True

    @property
    def is_over(self) -> bool:
        """Whether as many were shown as were asked for."""
        return self._left == 0

    def shown(self, text: str) -> str:
        """The part of a text, of whole lines, that is shown."""
        found = []
        for part in _EVENT.split(text):
            before, mark, message = part.partition(MARK)
            if mark:
                self._shows = self._wanted in message.split("\n", 1)[0] and not self.is_over
                if self._shows and self._left is not None:
                    self._left -= 1
            if self._shows:
                found.append(before + message)
        return "".join(found)
