"""Walks over Python's syntax trees, in a third of the time of `ast`'s: without a generator for each field."""

from __future__ import annotations

import ast
from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

#: Fields that hold no nodes, or such as hold none themselves and stand nowhere: contexts and operators.
_WITHOUT_NODES = frozenset({"attr", "ctx", "id", "kind", "level", "module", "op", "ops", "type_comment"})


#: Fields of each kind of node met so far that may hold others.
_FIELDS: dict[type[ast.AST], list[str]] = {ast.Constant: [], ast.Global: [], ast.Nonlocal: []}


def children(node: ast.AST) -> list[ast.AST]:
    """`ast.iter_child_nodes`, but for contexts (`ast.Load`) and operators."""
    kind = type(node)
    fields = _FIELDS.get(kind)
    if fields is None:
        fields = _FIELDS[kind] = [name for name in kind._fields if name not in _WITHOUT_NODES]
    found: list[ast.AST] = []
    for name in fields:
        value = getattr(node, name, None)
        if value.__class__ is list:
            for each in value:
                if isinstance(each, ast.AST):
                    found.append(each)  # noqa: PERF401 - most lists have one node, and a list of it takes longer
        elif isinstance(value, ast.AST):
            found.append(value)
    return found


def walk(node: ast.AST) -> Iterator[ast.AST]:
    """`ast.walk`, but for contexts and operators."""
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


def free_names(node: ast.AST) -> list[ast.Name]:
    """Names that an expression reads from outside: not the parameters of its lambdas, nor targets where they are bound.

    As Python has it, a comprehension's first iterable is evaluated outside the comprehension.
    """
    found: list[ast.Name] = []
    waiting: list[tuple[ast.AST, frozenset[str]]] = [(node, frozenset())]
    while waiting:
        each, bound = waiting.pop()
        match each:
            case ast.Name(id=name):
                if isinstance(each.ctx, ast.Load) and name not in bound:
                    found.append(each)
            case ast.Lambda(args=arguments, body=body):
                outside = [*arguments.defaults, *(default for default in arguments.kw_defaults if default is not None)]
                waiting += [(default, bound) for default in outside]
                waiting.append((body, bound | {inner.arg for inner in walk(arguments) if isinstance(inner, ast.arg)}))
            case ast.ListComp() | ast.SetComp() | ast.GeneratorExp() | ast.DictComp():
                first = each.generators[0]
                targets = {
                    inner.id
                    for generator in each.generators
                    for inner in ast.walk(generator.target)
                    if isinstance(inner, ast.Name) and isinstance(inner.ctx, ast.Store)
                }
                waiting.append((first.iter, bound))
                inside = [
                    part for generator in each.generators for part in children(generator) if part is not first.iter
                ]
                inside += [part for part in children(each) if not isinstance(part, ast.comprehension)]
                waiting += [(part, bound | targets) for part in inside]
            case _:
                waiting += [(child, bound) for child in children(each)]
    return found
