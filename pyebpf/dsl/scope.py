"""A probe's free names: captured when its decorator runs, looked up later where they were not bound yet."""

from __future__ import annotations

import builtins
from types import CodeType
from typing import TYPE_CHECKING

from pyebpf.dsl.source import names_rebound_by_loops

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FunctionType

    from pyebpf.dsl.source import Source

MISSING: object = object()


class ReboundName(Exception):
    """A captured name has another value now. `before` and `after` are the two."""

    def __init__(self, before: object, after: object) -> None:
        super().__init__(before, after)
        self.before = before
        self.after = after


class Scope:
    """The free names of one function: `captured` as they were bound when the scope was made."""

    def __init__(self, function: FunctionType) -> None:
        self.function = function
        self.captured: dict[str, object] = {}
        for name in _free_names(function.__code__):
            value = self._now(name)
            if value is not MISSING:
                self.captured[name] = value

    def _now(self, name: str) -> object:
        function = self.function
        if name in function.__code__.co_freevars:
            cell = (function.__closure__ or ())[function.__code__.co_freevars.index(name)]
            try:
                return cell.cell_contents
            except ValueError:  # not bound yet
                return MISSING
        if name in function.__globals__:
            return function.__globals__[name]
        return getattr(builtins, name, MISSING)

    def outside(self, name: str) -> object:
        """The present meaning of a name outside the function; MISSING if it has none."""
        return self._now(name)

    def knows(self, name: str) -> bool:
        """Whether the name means something outside the function."""
        return self._now(name) is not MISSING

    def look_up(self, name: str, source: Source) -> object:
        """Return what `name` means; MISSING if it means nothing.

        Raises Rebound if it was captured and has been given another value since, unless a loop around the probe gives
        each iteration its own.
        """
        before, now = self.captured.get(name, MISSING), self._now(name)
        if before is MISSING or before is now:
            return now
        if now is not MISSING and not _same(before, now) and name not in names_rebound_by_loops(source):
            raise ReboundName(before, now)
        return before


def _same(before: object, now: object) -> bool:
    return type(before) is type(now) and isinstance(before, (int, str, bytes, float)) and before == now


def _free_names(code: CodeType) -> Iterator[str]:
    """Names that the code may read from outside: attribute names are among them, which does no harm."""
    yield from code.co_freevars
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _free_names(constant)
