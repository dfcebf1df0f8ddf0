"""The identifiers of a function's source that stand for values outside it: maps are named after theirs."""

from __future__ import annotations

import ast
from types import FunctionType
from typing import TYPE_CHECKING

from pyebpf.dsl.scope import MISSING, Scope
from pyebpf.dsl.source import find_source
from pyebpf.dsl.text_of import text_of
from pyebpf.dsl.tree import walk

if TYPE_CHECKING:
    from collections.abc import Iterator


def identifiers(function: FunctionType, scope: Scope) -> Iterator[tuple[object, str]]:
    """Values that a function's source names, in order, each with its name; then likewise in each function it calls."""
    yield from _identifiers(function, scope, set())


def _identifiers(function: FunctionType, scope: Scope, seen: set[int]) -> Iterator[tuple[object, str]]:
    if id(function) in seen:
        return
    seen.add(id(function))
    source = find_source(function)
    nodes = [node for node in walk(source.node) if isinstance(node, (ast.Name, ast.Attribute))]
    nodes.sort(key=lambda node: (node.lineno, node.col_offset, node.end_lineno or 0, node.end_col_offset or 0))
    for node in nodes:
        value = _value(node, scope)
        if value is MISSING:
            continue
        yield value, node.id if isinstance(node, ast.Name) else node.attr
        inner = getattr(value, "__dict__", {}).get("scope")
        if isinstance(inner, Scope):  # a subprogram's
            yield from _identifiers(inner.function, inner, seen)
        elif isinstance(value, FunctionType) and not text_of(value, "__module__").startswith("pyebpf."):
            try:
                yield from _identifiers(value, Scope(value), seen)
            except Exception:  # noqa: BLE001, S112 - without source it cannot be inlined, so it names nothing
                continue


def _value(node: ast.expr, scope: Scope) -> object:
    """The value of a name or a chain of attributes, without running properties of anything but plain objects."""
    if isinstance(node, ast.Name):
        captured = scope.captured.get(node.id, MISSING)
        return scope.function.__globals__.get(node.id, MISSING) if captured is MISSING else captured
    if isinstance(node, ast.Attribute):
        owner = _value(node.value, scope)
        if owner is MISSING:
            return MISSING
        return getattr(owner, "__dict__", {}).get(node.attr, MISSING)
    return MISSING
