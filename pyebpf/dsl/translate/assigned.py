"""Names that pieces of a function's tree assign."""

from __future__ import annotations

import ast
import functools
from typing import TYPE_CHECKING

from pyebpf.dsl.depth import kept
from pyebpf.dsl.tree import children, walk

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


def assigned_names(nodes: Iterable[ast.AST]) -> list[str]:
    """Names that the nodes assign, in order, without those of functions inside."""
    return list(dict.fromkeys([name for node in nodes for name in _assigned(node)]))


def _assigned(node: ast.AST) -> Sequence[str]:
    """Names that one node assigns, some more than once."""
    match node:
        case ast.stmt():
            return _assigned_by_statement(node)
        case ast.Constant() | ast.Lambda():
            return ()
        case ast.Name(id=name, ctx=context):
            return () if isinstance(context, ast.Load) else (name,)
        case ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp():
            # Their targets are their own; only `:=` inside them binds outside.
            return [n.target.id for n in ast.walk(node) if isinstance(n, ast.NamedExpr)]
        case ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
            return [name, *_assigned_inside(node)]
        case _:
            return _assigned_inside(node)


@kept
def _assigned_by_statement(node: ast.stmt) -> tuple[str, ...]:
    """Names that a statement assigns, kept: loops and branches ask for each statement inside them again."""
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return (node.name,)
    return tuple(dict.fromkeys(_assigned_inside(node)))


def _assigned_inside(node: ast.AST) -> list[str]:
    return [name for child in children(node) for name in _assigned(child)]


def loop_targets(nodes: Iterable[ast.AST]) -> set[str]:
    """Names that `for` loops in the nodes bind."""
    return {name for node in nodes for name in _loop_targets(node)}


@kept
def _loop_targets(node: ast.AST) -> tuple[str, ...]:
    own = _assigned(node.target) if isinstance(node, ast.For) else ()
    inner = [child for child in children(node) if not isinstance(child, ast.expr)]
    return tuple(dict.fromkeys([*own, *[name for child in inner for name in _loop_targets(child)]]))


@functools.lru_cache(maxsize=256)
def given_none(function: ast.AST) -> frozenset[str]:
    """Names that a statement of a function may give None."""
    return frozenset(name for node in walk(function) for name in _given_none(node))


def _given_none(node: ast.AST) -> list[str]:
    match node:
        case ast.Assign(targets=targets, value=value) if _is_none(value):
            return [target.id for target in targets if isinstance(target, ast.Name)]
        case (
            ast.AnnAssign(target=ast.Name(id=name), value=value) | ast.NamedExpr(target=ast.Name(id=name), value=value)
        ) if value is not None and _is_none(value):
            return [name]
        case _:
            return []


def _is_none(value: ast.expr) -> bool:
    match value:
        case ast.Constant(value=None):
            return True
        case ast.IfExp(body=body, orelse=orelse):
            return _is_none(body) or _is_none(orelse)
        case _:
            return False
