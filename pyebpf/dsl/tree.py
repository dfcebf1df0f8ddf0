"""Walks over Python's syntax trees, in a third of the time of `ast`'s: without a generator for each field."""

from __future__ import annotations

import ast
from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

__all__ = ["children", "statements_within", "walk"]


def children(node: ast.AST) -> list[ast.AST]:
    """`ast.iter_child_nodes`, but for `ast.Load` and its like."""
    found: list[ast.AST] = []
    for value in vars(node).values():
        if isinstance(value, list):
            found += [each for each in value if isinstance(each, ast.AST)]
        elif isinstance(value, ast.AST) and not isinstance(value, ast.expr_context):
            found.append(value)
    return found


def walk(node: ast.AST) -> Iterator[ast.AST]:
    """`ast.walk`, but for `ast.Load` and its like."""
    waiting = deque([node])
    while waiting:
        node = waiting.popleft()
        yield node
        waiting += children(node)


def statements_within(statements: Iterable[ast.stmt]) -> Iterator[ast.AST]:
    """The statements, each followed by those inside it in the order of `ast.walk`; no expressions."""
    for statement in statements:
        waiting: deque[ast.AST] = deque([statement])
        while waiting:
            node = waiting.popleft()
            yield node
            waiting += [child for child in children(node) if not isinstance(child, ast.expr)]
