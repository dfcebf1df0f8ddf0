"""Names that pieces of a function's tree assign."""

from __future__ import annotations

import ast
import functools
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["assigned_names"]


def assigned_names(nodes: Iterable[ast.AST]) -> list[str]:
    """Names that the nodes assign, in order, without those of functions inside."""
    return list(dict.fromkeys(name for node in nodes for name in _assigned(node)))


@functools.lru_cache(maxsize=4096)
def _assigned(node: ast.AST) -> tuple[str, ...]:
    """Names that one node assigns, kept by the node: loops and branches ask for each statement inside them again."""
    found: dict[str, None] = {}
    waiting = [node]
    # No recursion: a tree may be deeper than Python's stack.
    while waiting:
        each = waiting.pop()
        match each:
            case ast.Name(id=name, ctx=context):
                if not isinstance(context, ast.Load):
                    found[name] = None
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                found[name] = None
            case ast.Lambda():
                pass
            case ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp():
                # Their targets are their own; only `:=` inside them binds outside.
                found.update((n.target.id, None) for n in ast.walk(each) if isinstance(n, ast.NamedExpr))
            case ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
                found[name] = None
                waiting += reversed(list(ast.iter_child_nodes(each)))
            case _:
                waiting += reversed(list(ast.iter_child_nodes(each)))
    return tuple(found)
