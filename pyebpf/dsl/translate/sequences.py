"""Python's functions over sequences in a probe: comprehensions, `any`, `all`, `sum`, `enumerate`, `zip`.

Their iterations are written out: over constants, tuples and arrays, whose length is known.
"""

from __future__ import annotations

import ast
import builtins
from typing import TYPE_CHECKING, Any

from pyebpf.builder.ssa.conditions import All, Always, Any as AnyOf
from pyebpf.builder.ssa.function import Join
from pyebpf.builder.values.entity import describe
from pyebpf.dsl.translate.choices import join_values, leave
from pyebpf.dsl.translate.compile_time import compile_time, needs_events, python_value
from pyebpf.dsl.translate.conditions import as_test, branch, decided
from pyebpf.dsl.translate.expressions import binary
from pyebpf.dsl.translate.iteration import Comprehension, check_length, elements_of, iterations
from pyebpf.dsl.translate.operands import all_taken_before, operands, taken_before
from pyebpf.dsl.translate.refusals import refuse
from pyebpf.dsl.translate.tuples import is_run_time

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyebpf.dsl.translate.frame import Frame, Handlers

# -- displays and comprehensions ---------------------------------------------------------------------------------------


def _tuple_display(f: Frame, node: ast.Tuple) -> tuple[object, ...]:
    return tuple(listed(f, node.elts))


def _list_display(f: Frame, node: ast.List) -> list[object]:
    elements = listed(f, node.elts)
    if is_run_time(elements):
        refuse(f, node)
    return elements


def listed(f: Frame, nodes: list[ast.expr], *following: ast.AST) -> list[object]:
    """The values of expressions, `*x` spread, as they are before `following` is evaluated."""
    elements: list[object] = []
    for number, each in enumerate(nodes, 1):
        found = spread(f, each) if isinstance(each, ast.Starred) else [f.expression(each)]
        elements.extend(all_taken_before(f, found, *nodes[number:], *following))
    return elements


def spread(f: Frame, node: ast.Starred) -> list[object]:
    """The values that `*x` stands for."""
    values = elements_of(f, f.expression(node.value), node)
    if values is None:
        refuse(f, node)
    return values


def _comprehension(f: Frame, node: ast.ListComp | ast.GeneratorExp) -> object:
    """A comprehension: by Python if all is known at compile time, else written out."""
    if not needs_events(f, node):
        return python_value(f, node)
    return tuple(comprehension(f, node))


def _set_or_dict(f: Frame, node: ast.Set | ast.Dict | ast.SetComp | ast.DictComp) -> object:
    """A set or a dictionary, known at compile time; intrinsics such as `enum()` may stand in it."""
    if not needs_events(f, node):
        return python_value(f, node)
    elements: list[object]
    match node:
        case ast.Set(elts=nodes):
            elements = listed(f, nodes)
        case ast.Dict(keys=keys, values=values):
            if None in keys:
                refuse(f, node)
            elements = [(f.expression(k), f.expression(v)) for k, v in zip(keys, values, strict=True) if k]
        case _:
            elements = comprehension(f, node)
    if is_run_time(elements):
        refuse(f, node)
    return compile_time(f, dict if isinstance(node, (ast.Dict, ast.DictComp)) else set, elements)


def comprehension(f: Frame, node: Comprehension) -> list[object]:
    """The elements of a comprehension over what has a known length; pairs of a dictionary's."""
    found: list[object] = []
    for _ in iterations(f, node):
        if isinstance(node, ast.DictComp):
            found.append(tuple(operands(f, [node.key, node.value])))
        else:
            found.append(taken_before(f, f.expression(node.elt), node))
        check_length(f, len(found), node)
    return found


def reduce_generator(f: Frame, function: object, node: ast.GeneratorExp, start: object) -> object:
    """`any(… for …)`, `all(… for …)`, `sum(… for …)`: no element is evaluated that Python would not."""
    if function is builtins.sum:
        # A name that no source can have; the iterations may stand under run-time tests.
        name = f"<sum {node.lineno} {node.col_offset}>"
        f.assign(name, start)
        for _ in iterations(f, node, filtered=True):
            f.assign(name, binary(f, ast.Add(), f.read(name), f.expression(node.elt)))
        return f.read(name)
    then, otherwise = Join(), Join()
    found, exhausted = (then, otherwise) if function is builtins.any else (otherwise, then)
    outer = f.depth
    f.depth += 1
    for _ in iterations(f, node, filtered=True):
        going = Join()
        branch(f, node.elt, *((found, going) if function is builtins.any else (going, found)))
        f.b.start(going)
    f.depth = outer
    f.b.jump(exhausted)
    return decided(f, then, otherwise)


def first_of(f: Frame, node: ast.GeneratorExp, *default: object) -> object:
    """`next(… for …)`: the first element; no other is evaluated. `default` is what stands in for it, if anything."""
    outer = f.depth
    paths = [(f.expression(node.elt), leave(f)) for _ in iterations(f, node, filtered=True)]
    if f.b.reachable:
        if not default:
            f.fail("there may be no first element: give next() a default, next(…, None)")
        paths.append((default[0], leave(f)))
    f.depth = outer
    return join_values(f, paths, Join(), "next()")


# -- functions ---------------------------------------------------------------------------------------------------------


def _elements(f: Frame, name: str, value: object) -> list[object]:
    found = elements_of(f, value)
    if found is None:
        f.fail(f"{name}() can't go over {describe(value)} at run time: write a `for` loop")
    return found


def _any(f: Frame, values: object) -> object:
    test = AnyOf(tuple(as_test(f, each) for each in _elements(f, "any", values)))
    return test if test.conditions else Always(holds=False)


def _all(f: Frame, values: object) -> object:
    test = All(tuple(as_test(f, each) for each in _elements(f, "all", values)))
    return test if test.conditions else Always(holds=True)


def _sum(f: Frame, values: object, start: object = 0) -> object:
    total = start
    for each in _elements(f, "sum", values):
        total = binary(f, ast.Add(), total, each)
    return total


def _enumerate(f: Frame, values: object, start: object = 0) -> tuple[object, ...]:
    found = _elements(f, "enumerate", values)
    return tuple((binary(f, ast.Add(), start, number), each) for number, each in enumerate(found))


def _zip(f: Frame, *values: object) -> tuple[object, ...]:
    return tuple(zip(*(_elements(f, "zip", each) for each in values), strict=False))


def _reversed(f: Frame, values: object) -> tuple[object, ...]:
    return tuple(reversed(_elements(f, "reversed", values)))


def _tuple(f: Frame, values: object) -> tuple[object, ...]:
    return tuple(_elements(f, "tuple", values))


OVER_SEQUENCES: dict[object, Callable[..., Any]] = {
    builtins.any: _any,
    builtins.all: _all,
    builtins.sum: _sum,
    builtins.enumerate: _enumerate,
    builtins.zip: _zip,
    builtins.reversed: _reversed,
    builtins.tuple: _tuple,
    builtins.list: _tuple,
}


HANDLERS: Handlers = {
    ast.Tuple: _tuple_display,
    ast.List: _list_display,
    ast.ListComp: _comprehension,
    ast.GeneratorExp: _comprehension,
    ast.Set: _set_or_dict,
    ast.Dict: _set_or_dict,
    ast.SetComp: _set_or_dict,
    ast.DictComp: _set_or_dict,
}
