"""Trees deeper than Python's stack: room is made for what is reasonable, and the rest is refused at its place."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

from pyebpf.dsl.tree import children

if TYPE_CHECKING:
    import ast
    from collections.abc import Iterator

__all__ = ["MOST_LEVELS", "room", "too_deep"]

#: Levels of statements and expressions inside each other: a chain of so many `elif`s, a sum of so many terms.
MOST_LEVELS = 1000
#: Python's frames for that, a few a level, and for the functions written out inside.
_FRAMES = 20_000


@contextmanager
def room() -> Iterator[None]:
    """Let the body recurse as deep as `MOST_LEVELS` needs. Frames of Python functions take no room on the C stack."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(max(before, _FRAMES))
    try:
        yield
    finally:
        sys.setrecursionlimit(before)


def too_deep(node: ast.AST) -> ast.AST | None:
    """The first node inside more than `MOST_LEVELS` others; None if there is none. Without recursion."""
    waiting = [(node, 0)]
    while waiting:
        each, level = waiting.pop()
        if level > MOST_LEVELS and hasattr(each, "lineno"):
            return each
        waiting += [(child, level + 1) for child in children(each)]
    return None
