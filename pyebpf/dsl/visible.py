"""Names that a probe sees, for the error about one that it does not."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from pyebpf.dsl.tree import children

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyebpf.dsl.scope import Scope
    from pyebpf.dsl.source import Source

#: Python's own that mean something to a probe.
_BUILTINS = (
    "abs", "all", "any", "bool", "bytes", "dict", "divmod", "enumerate", "int", "isinstance", "len", "list", "map",
    "max", "min", "next", "range", "reversed", "round", "set", "sorted", "str", "sum", "tuple", "zip",
)  # fmt: skip


def visible_names(scope: Scope, source: Source) -> Iterator[str]:
    """Names outside a function that it may use: of its module, of the functions around it, and Python's own."""
    yield from scope.captured
    yield from (name for name in scope.function.__globals__ if not name.startswith("__"))
    yield from scope.function.__code__.co_freevars
    yield from _around(source)
    yield from _BUILTINS


def _around(source: Source) -> Iterator[str]:
    """Names that the functions around a function assign: Python keeps only those that it uses."""
    try:
        waiting: list[ast.AST] = [ast.parse("".join(source.lines))]
    except (SyntaxError, ValueError, RecursionError):  # a file that has changed since
        return
    while waiting:
        for child in children(waiting.pop()):
            if not _spans(child, source.node.lineno):
                continue
            waiting.append(child)
            if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef)) and child.lineno != source.node.lineno:
                yield from _assigned(child)


def _assigned(function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[str]:
    """The names that are a function's own."""
    arguments = function.args
    for argument in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs):
        yield argument.arg
    waiting: list[ast.AST] = list(function.body)
    while waiting:
        node = waiting.pop()
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            yield node.name
            continue
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        waiting += children(node)


def _spans(node: ast.AST, line: int) -> bool:
    first, last = getattr(node, "lineno", None), getattr(node, "end_lineno", None)
    return first is None or last is None or first <= line <= last
