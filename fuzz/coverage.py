"""Which ways through some files an execution took: pairs of lines, one after the other."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import CodeType, FrameType

__all__ = ["Coverage"]

_ROOT = Path(__file__).resolve().parent.parent


class Coverage:
    """`seen` has every pair since the beginning; `run` says whether an execution added one."""

    def __init__(self, covers: Sequence[str]) -> None:
        self.places = tuple(str(_ROOT / each) for each in covers)
        self.seen: set[int] = set()
        self.numbers: dict[CodeType, int] = {}
        self.previous = 0

    def run(self, function: Callable[[], object]) -> bool:
        """Call it; True if it went a new way. What it raises passes through."""
        before = len(self.seen)
        self.previous = 0
        sys.settrace(self._call)
        try:
            function()
        finally:
            sys.settrace(None)
        return len(self.seen) > before

    def _call(self, frame: FrameType, event: str, argument: Any) -> Any:  # noqa: ARG002 - sys.settrace's signature
        code = frame.f_code
        number = self.numbers.get(code)
        if number is None:
            inside = code.co_filename.startswith(self.places)
            number = self.numbers[code] = len(self.numbers) + 1 << 16 if inside else 0
        return self._line if number else None

    def _line(self, frame: FrameType, event: str, argument: Any) -> Any:  # noqa: ARG002 - as above
        if event == "line":
            here = self.numbers[frame.f_code] + frame.f_lineno
            self.seen.add(self.previous << 32 | here)
            self.previous = here
        return self._line
