"""Iteration that is written out: the elements that loops and comprehensions go over, in Python's order.

An iterator reads an element of an array in the iteration that takes it, however iterators are nested in one another:
`enumerate(reversed(a))`, `zip(a, (x + 1 for x in a))`. All else is read where the loop begins.
"""

from __future__ import annotations

import ast
from collections.abc import ItemsView, Iterable, KeysView, Mapping, ValuesView
from typing import TYPE_CHECKING, TypeAlias

from pyebpf.builder.ssa.function import Join
from pyebpf.builder.values.arrays import Array
from pyebpf.builder.values.entity import Entity, describe
from pyebpf.builder.values.kernel_objects import KernelArray
from pyebpf.builder.values.optional import Maybe
from pyebpf.builder.values.strings import String, StringSource
from pyebpf.builder.values.tuples import TupleReference
from pyebpf.dataclass import dataclass
from pyebpf.dsl.translate.compile_time import compile_time, needs_events
from pyebpf.dsl.translate.conditions import branch
from pyebpf.dsl.translate.expressions import binary
from pyebpf.dsl.translate.operands import all_taken_before, frozen
from pyebpf.dsl.translate.refusals import refuse
from pyebpf.dsl.translate.tuples import TupleValue, is_run_time
from pyebpf.dsl.tree import free_names
from pyebpf.dsl.unroll import Unrolled

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from pyebpf.dsl.translate.frame import Frame

Comprehension: TypeAlias = ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp

#: More iterations than this are a loop's work.
_MAX_ELEMENTS = 256
#: More iterations than this, written out, are surely a mistake.
MAX_UNROLLED = 4096


@dataclass(frozen=True)
class RunTimeIterator:
    """An iterator written where a loop begins, whose elements are read one by one."""

    elements: Iterator[object]


def iterated(f: Frame, node: ast.expr, assigned: Collection[str] = ()) -> object:
    """The value of an expression that iterations go over; a `RunTimeIterator` where Python makes an iterator.

    `assigned` are names that the iterations assign: a generator reads them anew for each element.
    """
    if isinstance(node, ast.GeneratorExp):
        if needs_events(f, node) or any(name.id in assigned for name in free_names(node)):
            return RunTimeIterator(_generator(f, node, assigned))
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        called = f.expression(node.func)
        found = None
        if called is enumerate or called is reversed or called is zip:
            found = _called(f, node, called, assigned)
        if found is not None:
            return found
    return f.expression(node)


def in_turn(f: Frame, value: object, *, backwards: bool = False) -> Iterator[object] | None:
    """The elements of an iterator or an array, each read in its iteration; None of anything else."""
    if isinstance(value, RunTimeIterator):
        return None if backwards else value.elements
    if isinstance(value, (Array, KernelArray)):
        length = value.length(f.p)
        check_length(f, length, None)
        order = range(length)
        return (value.item(f.p, index) for index in (reversed(order) if backwards else order))
    return None


def _called(f: Frame, node: ast.Call, called: object, assigned: Collection[str]) -> RunTimeIterator | None:
    """`enumerate(…)`, `reversed(…)` or `zip(…)`; None if Python computes it now, or refuses it."""
    given = [*node.args, *(each.value for each in node.keywords)]
    keywords = [each.arg for each in node.keywords]
    if called is enumerate:
        if not (1 <= len(given) <= 2 and keywords in ([], ["start"])):
            return None
    elif keywords or (called is reversed and len(given) != 1):
        return None
    f.b.where = f.at(node)
    values: list[object] = []
    for number, each in enumerate(given, 1):
        if isinstance(each, ast.Starred):
            spread = elements_of(f, f.expression(each.value), each)
            if spread is None:
                refuse(f, each)
        else:
            spread = [iterated(f, each, assigned)]
        values += all_taken_before(f, spread, *given[number:])
    if not any(isinstance(each, RunTimeIterator) or is_run_time(each) for each in values):
        return None
    # The iterations may change an array, whose elements are read in turn, but nothing else.
    turns = [in_turn(f, each, backwards=called is reversed) for each in values]
    if called is enumerate:
        start = values[1] if len(values) > 1 else 0
        return RunTimeIterator(_numbered(f, _either(f, values[0], turns[0], node), start))
    if called is reversed:
        backwards = turns[0]
        return RunTimeIterator(reversed(_elements(f, values[0], node)) if backwards is None else backwards)
    either = [_either(f, value, turn, node) for value, turn in zip(values, turns, strict=True)]
    return RunTimeIterator(zip(*either, strict=False))


def _numbered(f: Frame, elements: Iterable[object], start: object) -> Iterator[object]:
    for number, each in enumerate(elements):
        yield binary(f, ast.Add(), start, number), each


def _either(f: Frame, value: object, turns: Iterator[object] | None, node: ast.Call) -> Iterable[object]:
    return _elements(f, value, node) if turns is None else turns


def _elements(f: Frame, value: object, node: ast.Call) -> list[object]:
    """The elements, as they are now, of what is no iterator and no array."""
    if isinstance(value, RunTimeIterator):
        f.fail("an iterator can't be reversed, in Python either: write reversed(…) around the array itself", node)
    value = frozen(f.p, value)
    found = elements_of(f, value, node) if isinstance(value, (Maybe, TupleReference, TupleValue)) else None
    return elements_now(f, value, node) if found is None else found


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
        check_length(f, length, node)
        return [value.item(f.p, index) for index in range(length)]
    if isinstance(value, Unrolled):
        return value.values
    if isinstance(value, Entity):
        return None
    if isinstance(value, (set, frozenset)):
        f.fail("a set has no order, so the code would differ from run to run: use a tuple, or sorted(…)", node)
    found: list[object] = compile_time(f, list, value)
    check_length(f, len(found), node)
    return found


def check_length(f: Frame, length: int, node: ast.AST | None) -> None:
    """Refuse more iterations than are written out."""
    if length > _MAX_ELEMENTS:
        f.fail(f"{length} iterations are too many to unroll: write a `for` loop over range({length})", node)


def elements_now(f: Frame, values: object, place: ast.expr) -> list[object]:
    """The elements of what a `for` goes over while compiling."""
    why = f.why_run_time(place)
    if isinstance(values, Unrolled):
        values = values.values
    if isinstance(values, (String, StringSource)):
        f.fail(
            f"{describe(values)} can't be iterated over at run time: name it, and write for i in range(16): name[i]",
            place,
        )
    if isinstance(values, Entity):
        f.fail(
            f"{describe(values)} can't be iterated over at run time: a `for` in a probe goes over "
            "range(…), over a map, or over a tuple, list or "
            f"dict.items() known at compile time{why}",
            place,
        )
    if isinstance(values, (str, bytes)) or not isinstance(values, (Iterable, Mapping, ItemsView, KeysView, ValuesView)):
        f.fail(
            "a `for` in a probe goes over range(…), over a map, or over a tuple, list or dict.items(), not over "
            f"{values!r}",
            place,
        )
    if isinstance(values, (set, frozenset)):
        f.fail("a set has no order, so the code would differ from run to run: use a tuple, or sorted(…)", place)
    elements: list[object] = []
    iterator = compile_time(f, iter, values)
    missing = object()
    while (element := compile_time(f, next, iterator, missing)) is not missing:
        elements.append(element)
        if len(elements) > MAX_UNROLLED:
            f.fail(f"more than {MAX_UNROLLED} iterations cannot be unrolled: use `for … in range(n)`", place)
    return elements


# -- comprehensions ----------------------------------------------------------------------------------------------------


def iterations(f: Frame, node: Comprehension, *, filtered: bool = False) -> Iterator[None]:
    """The iterations of a comprehension, its targets bound in each; `filtered` if events may skip some."""
    return _iterations(f, node, 0, iterated(f, node.generators[0].iter), filtered=filtered)


def _generator(f: Frame, node: ast.GeneratorExp, assigned: Collection[str]) -> Iterator[object]:
    """The elements of a generator, each computed when it is taken; what it goes over is evaluated here."""
    over = iterated(f, node.generators[0].iter, assigned)
    return _computed_in_turn(f, node, _iterations(f, node, 0, over, filtered=False))


def _computed_in_turn(f: Frame, node: ast.GeneratorExp, each: Iterator[None]) -> Iterator[object]:
    outer, inner = len(f.targets), list[dict[str, object]]()
    while True:
        # The targets are the generator's own: what takes an element sees none of them.
        f.targets[outer:] = inner
        if next(each, each) is each:
            return
        value = frozen(f.p, f.expression(node.elt))
        inner = f.targets[outer:]
        del f.targets[outer:]
        yield value


def _iterations(f: Frame, node: Comprehension, number: int, over: object, *, filtered: bool) -> Iterator[None]:
    """The iterations of the generators from the `number`-th on."""
    generator = node.generators[number]
    if generator.is_async:
        f.fail("a probe can't wait: write `for` without `async`", generator.iter)
    values: Iterable[object] | None = in_turn(f, over)
    if values is None:
        elements = elements_of(f, over, generator.iter)
        if elements is None:
            refuse(f, node)
        values = all_taken_before(f, elements, node)
    for count, value in enumerate(values, 1):
        check_length(f, count, node)
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
            if number + 1 < len(node.generators):
                inner = iterated(f, node.generators[number + 1].iter)
                yield from _iterations(f, node, number + 1, inner, filtered=filtered)
            else:
                yield
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
