"""Python's functions over sequences in a probe: comprehensions, `any`, `all`, `sum`, `enumerate`, `zip`.

Their iterations are written out: over constants, tuples and arrays, whose length is known.
"""

from __future__ import annotations

import ast
import builtins
from typing import TYPE_CHECKING, Any, TypeAlias

from pyebpf.builder.ssa.conditions import All, Always, Any as AnyOf
from pyebpf.builder.ssa.function import Join
from pyebpf.builder.values.arrays import Array
from pyebpf.builder.values.entity import Entity, describe
from pyebpf.builder.values.kernel_objects import KernelArray
from pyebpf.builder.values.optional import Maybe
from pyebpf.builder.values.tuples import TupleReference
from pyebpf.dsl.translate.choices import join_values, leave
from pyebpf.dsl.translate.compile_time import compile_time, needs_events, python_value
from pyebpf.dsl.translate.conditions import as_test, branch, decided
from pyebpf.dsl.translate.expressions import binary
from pyebpf.dsl.translate.operands import all_taken_before, operands, taken_before
from pyebpf.dsl.translate.refusals import refuse
from pyebpf.dsl.translate.tuples import TupleValue, is_run_time
from pyebpf.dsl.unroll import Unrolled

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from pyebpf.dsl.translate.frame import Frame, Handlers

Comprehension: TypeAlias = ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp

#: More iterations than this are a loop's work.
_MAX_ELEMENTS = 256


def elements_of(f: Frame, value: object, node: ast.AST | None = None) -> list[object] | None:
    """The elements of a tuple, an array or what Python holds now; None of what has no known length."""
    if isinstance(value, Maybe):
        value = value.to_rvalue(f.p)
    if isinstance(value, TupleReference):
        value = value.taken(f.p)
    if isinstance(value, TupleValue):
        return list(value.elements)
    if isinstance(value, (Array, KernelArray)):
        length = value.length(f.p)
        _bounded(f, length, node)
        return [value.item(f.p, index) for index in range(length)]
    if isinstance(value, Unrolled):
        return value.values
    if isinstance(value, Entity):
        return None
    if isinstance(value, (set, frozenset)):
        f.fail("a set has no order, so the code would differ from run to run: use a tuple, or sorted(…)", node)
    found: list[object] = compile_time(f, list, value)
    _bounded(f, len(found), node)
    return found


def _bounded(f: Frame, length: int, node: ast.AST | None) -> None:
    if length > _MAX_ELEMENTS:
        f.fail(f"{length} iterations are too many to unroll: write a `for` loop over range({length})", node)


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

    def add() -> None:
        if isinstance(node, ast.DictComp):
            found.append(tuple(operands(f, [node.key, node.value])))
        else:
            found.append(taken_before(f, f.expression(node.elt), node))
        _bounded(f, len(found), node)

    _each_iteration(f, node, 0, add, filtered=False)
    return found


def _each_iteration(f: Frame, node: Comprehension, number: int, action: Callable[[], None], *, filtered: bool) -> None:
    """Run `action` for each iteration of the generators from the `number`-th on, with their targets bound."""
    if number == len(node.generators):
        action()
        return
    generator = node.generators[number]
    if generator.is_async:
        f.fail("a probe can't wait: write `for` without `async`", generator.iter)
    over = f.expression(generator.iter)
    values: Iterable[object] | None = lazily(f, over)
    if values is None:
        elements = elements_of(f, over, generator.iter)
        if elements is None:
            refuse(f, node)
        values = all_taken_before(f, elements, node)
    for value in values:
        if not f.b.reachable:
            return
        targets: dict[str, object] = {}
        _bind(f, generator.target, value, targets)
        f.targets.append(targets)
        following = Join()
        outer = f.depth
        for test in generator.ifs:
            chosen = Join()
            before = len(following.edges)
            branch(f, test, chosen, following)
            if chosen.edges and len(following.edges) > before:
                if not filtered:
                    f.fail(
                        "the number of elements that pass this test is known only at run time: write a `for` loop", test
                    )
                f.depth += 1
            f.b.start(chosen)
        if f.b.reachable:
            _each_iteration(f, node, number + 1, action, filtered=filtered)
        f.b.jump(following)
        f.b.start(following)
        f.depth = outer
        f.targets.pop()


def _bind(f: Frame, target: ast.expr, value: object, targets: dict[str, object]) -> None:
    match target:
        case ast.Name(id=name):
            targets[name] = value
        case ast.Tuple(elts=inner) | ast.List(elts=inner):
            parts = elements_of(f, value, target)
            if parts is None or len(parts) != len(inner):
                f.fail(f"{describe(value)} can't be unpacked into {len(inner)} names", target)
            for each, part in zip(inner, parts, strict=True):
                _bind(f, each, part, targets)
        case _:
            f.fail("the target of a comprehension in a probe is a name, or a tuple of names", target)


def reduce_generator(f: Frame, function: object, node: ast.GeneratorExp, start: object) -> object:
    """`any(… for …)`, `all(… for …)`, `sum(… for …)`: no element is evaluated that Python would not."""
    if function is builtins.sum:
        # A name that no source can have; the iterations may stand under run-time tests.
        name = f"<sum {node.lineno} {node.col_offset}>"
        f.assign(name, start)

        def add() -> None:
            f.assign(name, binary(f, ast.Add(), f.read(name), f.expression(node.elt)))

        _each_iteration(f, node, 0, add, filtered=True)
        return f.read(name)
    then, otherwise = Join(), Join()
    found, exhausted = (then, otherwise) if function is builtins.any else (otherwise, then)

    def ask() -> None:
        going = Join()
        branch(f, node.elt, *((found, going) if function is builtins.any else (going, found)))
        f.b.start(going)

    outer = f.depth
    f.depth += 1
    _each_iteration(f, node, 0, ask, filtered=True)
    f.depth = outer
    f.b.jump(exhausted)
    return decided(f, then, otherwise)


def first_of(f: Frame, node: ast.GeneratorExp, *default: object) -> object:
    """`next(… for …)`: the first element; no other is evaluated. `default` is what stands in for it, if anything."""
    paths: list[tuple[object, Join]] = []

    def take() -> None:
        paths.append((f.expression(node.elt), leave(f)))

    outer = f.depth
    _each_iteration(f, node, 0, take, filtered=True)
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


def lazily(f: Frame, value: object, *, backwards: bool = False) -> Iterator[object] | None:
    """The elements of an array, each read in its iteration; None of anything else."""
    if isinstance(value, (Array, KernelArray)):
        length = value.length(f.p)
        _bounded(f, length, None)
        order = range(length)
        return (value.item(f.p, index) for index in (reversed(order) if backwards else order))
    return None


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
