"""Loops: run-time ones over `range` and by `while`, and those that are written out while compiling."""

from __future__ import annotations

import ast
import functools
from typing import TYPE_CHECKING

from pyebpf.builder.loops import counted_loop, limited_loop, range_loop
from pyebpf.builder.ssa.function import Join
from pyebpf.builder.values.entity import Entity, describe
from pyebpf.builder.values.integers import Int
from pyebpf.builder.values.restating import masked
from pyebpf.dsl.translate.assigned import assigned_names
from pyebpf.dsl.translate.bodies import pass_on, returned_from
from pyebpf.dsl.translate.bounds import MAX_COUNTED, bounded, leaves
from pyebpf.dsl.translate.conditions import branch
from pyebpf.dsl.translate.frame import LoopContext
from pyebpf.dsl.translate.iteration import elements_now, elements_of, in_turn, iterated
from pyebpf.dsl.translate.operands import frozen
from pyebpf.dsl.translate.statements import assign_target
from pyebpf.dsl.translate.tuples import TupleValue
from pyebpf.maps.for_each import for_each_loop

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyebpf.builder.values.entries import MapEntries
    from pyebpf.dsl.translate.frame import Frame, Handlers
    from pyebpf.errors import Location

_NO_WAY_OUT = "this `while` has no way out: leave it by `break` or `return`, or write a test that fails"


def _while(f: Frame, node: ast.While) -> None:
    """`while test:`, a run-time loop whatever its test."""
    if node.orelse:
        f.fail(
            "`else` of a loop can't be used in a probe: record in a local whether the loop was left by `break`",
            node.orelse[0],
        )
    names = assigned_names([node.test, *node.body])
    where = f.at(node)
    f.mark(names, f"is assigned in the `while` of line {node.lineno}", where)
    endless = isinstance(node.test, ast.Constant) and bool(node.test.value)
    if endless and not _has_way_out(node.body):
        f.fail(_NO_WAY_OUT, node.test)
    if leaves(node.body):
        _once(f, node, where)
        return
    ends = bounded(f, node)
    f.to_rvalue(names)
    if ends is not None:
        _restate(f, node.test)
    carried = f.carried(names)
    # One more than the iterations themselves: the test that ends them comes after the count.
    loops = counted_loop(f.p, MAX_COUNTED + 1, carried) if ends is not None else limited_loop(f.p, carried)
    with loops as loop:
        around = LoopContext(
            loop.exit,
            loop.latch,
            unrolled=False,
            depth=f.depth,
            carried=frozenset([*carried, *f.markers(names)]),
        )
        f.loops.append(around)
        f.depth += 1
        if ends is not None and ends.counter:
            counter = f.read(ends.counter)
            if isinstance(counter, Int):
                f.b.assume_bounds(counter.value, ends.low, ends.high)
        inside = Join()
        branch(f, node.test, inside, loop.exit)
        f.b.start(inside)
        f.block(node.body)
        f.depth -= 1
        f.loops.pop()
        f.b.where = where
    if endless and not around.is_left:
        f.fail(_NO_WAY_OUT, node.test)


def _restate(f: Frame, test: ast.expr) -> None:
    """Let verifiers see the bounds of the locals in a test, by which the loop is known to end."""
    for name in sorted({each.id for each in ast.walk(test) if isinstance(each, ast.Name)} & set(f.local_names)):
        value = f.read(name) if f.is_assigned(name) else None
        if isinstance(value, Int):
            restated = masked(f.p, value.value)
            if restated is not value.value:
                f.assign(name, Int(restated, value.type, value.loaded))


def _has_way_out(nodes: Iterable[ast.AST], *, inner: bool = False) -> bool:
    """Whether statements may leave the loop around them: by `return`, or by a `break` that is not an inner loop's."""
    for node in nodes:
        if isinstance(node, ast.Return) or (isinstance(node, ast.Break) and not inner):
            return True
        if isinstance(node, (ast.FunctionDef, ast.Lambda)):
            continue
        if _has_way_out(ast.iter_child_nodes(node), inner=inner or isinstance(node, (ast.For, ast.While))):
            return True
    return False


def _once(f: Frame, node: ast.While, where: Location) -> None:
    """A `while` whose body is never gone through twice: an `if`."""
    inside, end = Join(), Join("end of loop")
    branch(f, node.test, inside, end)
    f.loops.append(LoopContext(end, Join(), unrolled=False, depth=f.depth))
    f.depth += 1
    f.b.start(inside)
    f.block(node.body)
    f.depth -= 1
    f.loops.pop()
    f.b.where = where
    f.b.start(end)


def _for(f: Frame, node: ast.For) -> None:
    """`for target in …`: over `range` or a map at run time, over what Python holds now once for each element."""
    if node.orelse:
        f.fail(
            "`else` of a loop can't be used in a probe: record in a local whether the loop was left by `break`",
            node.orelse[0],
        )
    bounds = _range_bounds(f, node.iter)
    if bounds is not None:
        _range(f, node, *bounds)
        return
    values = iterated(f, node.iter, assigned_names(node.body))
    f.b.where = f.at(node.iter)
    each = in_turn(f, values)
    if each is not None:
        _unrolled(f, node, each)
        return
    if isinstance(values, range):
        _range(f, node, values.start, values.stop, values.step)
        return
    entries = values.entries(f.p) if isinstance(values, Entity) else None
    if entries is not None:
        _walk(f, node, entries)
        return
    # What the body changes is as it was where the loop began.
    values = frozen(f.p, values)
    if isinstance(values, TupleValue):
        values = values.elements
    _unrolled(f, node, elements_now(f, values, node.iter))


def _range_bounds(f: Frame, node: ast.expr) -> tuple[object, object, object] | None:
    """Start, stop and step of a `range(…)` written here; None for anything else."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, (ast.Name, ast.Attribute)):
        return None
    if f.expression(node.func) is not range:
        return None
    if node.keywords or not 1 <= len(node.args) <= 3:
        f.fail("range() takes one to three numbers: range(stop), range(start, stop), range(start, stop, step)", node)
    for each in node.args:
        if isinstance(each, ast.Starred):
            f.fail("`*` can't spread values here: write each one", each)
    values = [f.expression(each) for each in node.args]
    if len(values) == 1:
        return 0, values[0], 1
    return values[0], values[1], values[2] if len(values) > 2 else 1


def _range(f: Frame, node: ast.For, start: object, stop: object, step: object) -> None:
    if not isinstance(node.target, ast.Name):
        f.fail("range() gives one number at a time: use one name as the target", node.target)
    names = assigned_names([node.target, *node.body])
    where = f.at(node)
    f.mark(names, f"is assigned in the run-time `for` of line {node.lineno}", where)
    f.b.where = f.at(node.iter)
    f.to_rvalue(names)
    carried = f.carried(names)
    markers = f.markers(names)
    with range_loop(f.p, start, stop, step, carried) as (loop, index):
        around = LoopContext(
            loop.exit,
            loop.latch,
            unrolled=False,
            depth=f.depth,
            carried=frozenset([*carried, *markers]),
        )
        f.loops.append(around)
        f.depth += 1
        f.b.where = f.at(node.target)
        f.assign(node.target.id, index)
        f.block(node.body)
        f.depth -= 1
        f.loops.pop()
        f.b.where = where


def _walk(f: Frame, node: ast.For, entries: MapEntries) -> None:
    """A loop over a map, whose body is a function of its own."""
    names = assigned_names([node.target, *node.body])
    where = f.at(node)
    f.mark(names, f"is assigned in the `for` over a map of line {node.lineno}", where)
    f.to_rvalue(names)
    carried = f.carried(names)
    read = dict.fromkeys(
        each.id for statement in node.body for each in ast.walk(statement) if isinstance(each, ast.Name)
    )
    known = [*f.carried(read), *f.markers([*names, *read])]
    returned = functools.partial(returned_from, f)
    changes = any(map(_may_remove, node.body))
    with for_each_loop(f.p, entries, carried, known, returned, changes=changes) as (for_each, element):
        around = LoopContext(
            for_each.loop.exit,
            for_each.loop.latch,
            unrolled=False,
            depth=f.depth,
            carried=frozenset([*carried, *f.markers(names)]),
            for_each=for_each,
        )
        f.loops.append(around)
        f.depth += 1
        f.b.where = f.at(node.target)
        if entries.view != "items" and isinstance(node.target, (ast.Tuple, ast.List)):
            f.fail(f"this goes over the map's {entries.view}, one at a time: write {entries.table.map_name}.items()")
        assign_target(f, node.target, element)
        f.block(node.body)
        f.depth -= 1
        f.loops.pop()
        f.b.where = where
    f.b.where = where
    pass_on(f, for_each)


def _may_remove(node: ast.AST) -> bool:
    """Whether a statement of a loop's body may take out, or replace, an entry of a map; what it calls is not seen."""
    match node:
        case ast.Delete() | ast.Subscript(ctx=ast.Store()) | ast.Attribute(attr="pop"):
            return True
        case _:
            return any(map(_may_remove, ast.iter_child_nodes(node)))


def _unrolled(f: Frame, node: ast.For, elements: Iterable[object]) -> None:
    """Each iteration written out; the target is known in each, whatever stands around the loop."""
    targets = assigned_names([node.target])
    run_time_targets = [name for name in targets if f.times.is_run_time(f.key, name)]
    end, sure = Join(), True
    for element in elements:
        if not f.b.reachable:
            break
        again = Join()
        around = LoopContext(end, again, unrolled=True, depth=f.depth)
        f.loops.append(around)
        f.b.where = f.at(node.target)
        _bind(f, node.target, element, run_time_targets)
        f.block(node.body)
        f.b.jump(again)
        f.b.start(again)
        f.loops.pop()
        if around.leaves_early:
            sure = False
            # Some events skip a part of the iterations: nothing assigned in them is known any more.
            names = [name for name in assigned_names(node.body) if name not in targets]
            f.mark(
                names, f"is assigned in the `for` of line {node.lineno}, which a run-time condition leaves", f.at(node)
            )
    f.b.jump(end)
    f.b.start(end)
    if f.depth or not sure:
        # Which iteration was the last, or whether there was one, is known on each event only.
        for name in targets:
            f.forget(name)


def _bind(f: Frame, target: ast.expr, element: object, run_time: list[str]) -> None:
    match target:
        case ast.Name(id=name) if name in run_time:
            f.assign(name, element)
        case ast.Name(id=name):
            f.bind_constant(name, frozen(f.p, element))
        case ast.Tuple(elts=targets) | ast.List(elts=targets):
            parts = elements_of(f, element, target)
            if parts is None:
                f.fail(f"{describe(element)} can't be unpacked into {len(targets)} names", target)
            if len(parts) != len(targets):
                f.fail(f"{len(parts)} values can't be unpacked into {len(targets)} names", target)
            for each, part in zip(targets, parts, strict=True):
                _bind(f, each, part, run_time)
        case _:
            f.fail("the target of a `for` in a probe is a name, or a tuple of names", target)


def _leave_loop(f: Frame, node: ast.Break | ast.Continue) -> None:
    """`break` and `continue`."""
    around = f.loops[-1]
    f.b.where = f.at(node)
    if around.unrolled and f.depth > around.depth:
        around.leaves_early = True
    around.is_left |= isinstance(node, ast.Break)
    f.b.jump(around.latch if isinstance(node, ast.Continue) else around.exit)


HANDLERS: Handlers = {
    ast.While: _while,
    ast.For: _for,
    ast.Break: _leave_loop,
    ast.Continue: _leave_loop,
}
