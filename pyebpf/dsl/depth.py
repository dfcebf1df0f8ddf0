"""Trees deeper than Python's stack: room is made for what is reasonable, and the rest is refused at its place."""

from __future__ import annotations

import functools
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

from pyebpf.dsl.tree import children

if TYPE_CHECKING:
    import ast
    from collections.abc import Callable, Iterator
    from types import FrameType

Node = TypeVar("Node", bound="ast.AST")
Result = TypeVar("Result")

#: Levels of statements and expressions inside each other: a chain of so many `elif`s, a sum of so many terms.
MAX_LEVELS = 1000
#: Python's frames for that, a few a level, and for the functions written out inside.
_FRAMES = 20_000
#: Calls inside each other while something is computed at compile time.
_CALLS = 1000
#: Results that `kept` keeps of one function.
_MAX_KEPT = 16384


@contextmanager
def room() -> Iterator[None]:
    """Let the body recurse as deep as `MAX_LEVELS` needs. Frames of Python functions take no room on the C stack."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(max(before, _FRAMES))
    try:
        yield
    finally:
        sys.setrecursionlimit(before)


@contextmanager
def as_deep_as_c_allows() -> Iterator[None]:
    """Let the body call `_CALLS` functions inside each other, however deep it stands itself.

    What C calls (a property, a key function, `__getattr__`) takes room on the C stack, whose overflow ends the process:
    Python before 3.12 knows no other limit than that of frames, which `room` has raised.
    """
    depth = 0
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        depth, frame = depth + 1, frame.f_back
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(min(before, depth + _CALLS))
    try:
        yield
    finally:
        sys.setrecursionlimit(before)


def too_deep(node: ast.AST) -> ast.AST | None:
    """The first node inside more than `MAX_LEVELS` others; None if there is none. Without recursion."""
    level, depth = [node], 0
    while level:
        found = next((each for each in level if hasattr(each, "lineno")), None) if depth > MAX_LEVELS else None
        if found is not None:
            return found
        level, depth = [child for each in level for child in children(each)], depth + 1
    return None


def kept(function: Callable[[Node], Result]) -> Callable[[Node], Result]:
    """Keep a function's result for each node, for functions that recurse through a tree.

    functools.lru_cache calls from C, and so does what runs a generator expression: Python 3.12.0 to 3.12.2 allow 800
    such calls inside each other, whatever the recursion limit says.
    """
    results: dict[Node, Result] = {}

    @functools.wraps(function)
    def of(node: Node) -> Result:
        try:
            return results[node]
        except KeyError:
            result = function(node)
            if len(results) >= _MAX_KEPT:
                results.clear()
            results[node] = result
            return result

    return of
