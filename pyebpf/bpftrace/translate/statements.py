"""Statements of a block."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyebpf.bpftrace import ast
from pyebpf.bpftrace.described import described
from pyebpf.bpftrace.translate import arithmetic, casts, maps, script_functions, type_names
from pyebpf.bpftrace.translate.aggregations import aggregation
from pyebpf.bpftrace.translate.expressions import (
    assign_variable,
    combined,
    condition,
    evaluate,
    known_number,
    number,
    perform,
)
from pyebpf.bpftrace.translate.growth import MAX_UNROLL
from pyebpf.bpftrace.translate.map_loops import for_map
from pyebpf.bpftrace.translate.series import series
from pyebpf.bpftrace.translate.values import Integer, Text, Unknown
from pyebpf.bpftrace.value_types import Boolean, Number, String
from pyebpf.builder.drop_counters import count_drop
from pyebpf.builder.loops import CUT_OFF, limited_loop, most_iterations, range_loop
from pyebpf.builder.ssa.conditions import Always, Compare
from pyebpf.builder.ssa.function import Join, Loop
from pyebpf.compiler.ir import Condition as Relation, Op
from pyebpf.dataclass import replace
from pyebpf.types import S64

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyebpf.bpftrace.translate.body import Scope

#: Iterations of a `while` where the kernel does not end loops itself: one that goes on is left, and counted as a drop.
MAX_ITERATIONS = 1024


def run_block(s: Scope, block: ast.Block) -> None:
    """Build the statements of a block."""
    begun = s.p.b.reachable
    for each in block.all_statements:
        if begun and not s.p.b.reachable and not s.asking:
            s.script.unreachable[each.start] = each
            break
        run_statement(s, each)


def run_statement(s: Scope, node: ast.Statement) -> None:
    """Build a statement."""
    if not s.p.b.reachable and not s.asking:
        return
    run = _STATEMENTS.get(type(node))
    if run is None:
        raise s.error("this statement is not supported yet: write it another way", node)
    s.p.b.where = s.script.source.location(node)
    run(s, node)


def _expression(s: Scope, node: ast.ExpressionStatement) -> None:
    value = node.value
    if isinstance(value, ast.Increment) and not isinstance(value.target, ast.Variable):
        maps.augment(s, value.target, value.operator[0], _one(s))
        return
    if isinstance(value, ast.If):
        _if(s, value)
        return
    perform(s, value)


def _if(s: Scope, node: ast.If) -> None:
    """`if` whose value nobody takes."""
    b, test = s.p.b, condition(s, node.test)
    if isinstance(test, Always) and not s.script.asks_everywhere:
        _branch(s, node.then if test.holds else node.otherwise)
        return
    with b.if_(test):
        _branch(s, node.then)
    if node.otherwise is not None:
        with b.else_():
            _branch(s, node.otherwise)


def _branch(s: Scope, node: ast.Block | ast.If | None) -> None:
    if isinstance(node, ast.If):
        _if(s, node)
    elif node is not None:
        run_block(s, node)


def _one(s: Scope) -> Integer:
    return Integer(s.p.b.const(1), signed=True, literal=1)


def _assignment(s: Scope, node: ast.Assignment) -> None:
    operator, target = node.operator.removesuffix("="), node.target
    if isinstance(node.value, ast.Block) and isinstance(node.value.value, ast.Call):  # of count() and its like, too
        for each in node.value.statements:
            run_statement(s, each)
        node = replace(node, value=node.value.value)
    if isinstance(target, ast.Variable):
        value = evaluate(s, node.value)
        if operator:
            value = combined(s, operator, evaluate(s, target), value, node)
        if not isinstance(value, Unknown):
            assign_variable(s, target.name, value, node)
        return
    if isinstance(node.value, ast.Call) and node.value.name == "tseries" and not operator:
        series(s, target, node.value)
        return
    if isinstance(node.value, ast.Call):
        found = aggregation(s, node.value)
        if found is not None:
            if operator:
                raise s.error(f"{node.value.name}() is assigned by =", node)
            maps.gather(s, target, *found)
            return
    if not operator:
        maps.assign(s, target, evaluate(s, node.value), node.value)
    else:
        maps.augment(s, target, operator, number(s, node.value))


def _discard(s: Scope, node: ast.Discard) -> None:
    perform(s, node.value)


def _let(s: Scope, node: ast.Let) -> None:
    name, type_ = node.variable.name, None
    s.let.add(name)
    if node.type is not None and not type_names.is_structs(s, node.type):
        type_ = type_names.value_type(s, node.type)
        if type_ is None:
            return
        if isinstance(type_, Number | Boolean) or (isinstance(type_, String) and isinstance(node.type, ast.ArrayType)):
            s.declared[name] = type_
        if not s.variables.note(name, type_):
            held = described(s.variables.types[name])
            raise s.error(f"${node.variable.written} holds {held} elsewhere, and {described(type_)} here", node)
    if node.value is None:  # one of that name in a block before was another
        s.storage.declare(name)
        return
    value = evaluate(s, node.value)
    if isinstance(value, Unknown):
        return
    is_cut = isinstance(s.declared.get(name), Number | Boolean) and isinstance(value, Integer)
    if type_ is not None and not is_cut and not isinstance(value, Text):
        value = casts.converted(
            s, value, type_, ast.Cast(node.start, node.end, ast.TypeOf(0, 0, node.value), node.value)
        )
    assign_variable(s, name, value, node)


def _unroll(s: Scope, node: ast.Unroll) -> None:
    count = known_number(s, node.count)
    if not 1 <= count <= MAX_UNROLL:
        raise s.error(f"unroll({count}): give 1 to {MAX_UNROLL}", node.count)
    for _ in range(count):
        run_block(s, node.body)


def _while(s: Scope, node: ast.While) -> None:
    _endless(s, lambda loop: _iteration(s, node, loop))


def _endless(s: Scope, iteration: Callable[[Any], None]) -> None:
    """Build a loop that its body leaves; the kernel, or a count, ends one that goes on for ever."""
    p, b = s.p, s.p.b
    if p.target.has("isa:may_goto"):
        with limited_loop(p) as loop:
            iteration(loop)
        return
    counter = b.variable(hint="iteration")
    b.write(counter, b.const(0))
    left = Join("loop left")
    with b.loop(list(b.environment.values)):
        done = b.read(counter)
        assert done is not None
        inside, spent, again = Join("body"), Join("cut off"), Join("next iteration")
        b.branch(Compare(Relation.ULT, done, b.const(MAX_ITERATIONS)), inside, spent)
        b.start(spent)
        count_drop(p, CUT_OFF)
        b.jump(left)
        b.start(inside)
        iteration(Loop(left, again))
        b.jump(again)
        b.start(again)
        if b.reachable:
            b.write(counter, b.binary(Op.ADD, done, b.const(1)))
    b.start(left)
    b.forget(counter)


def _iteration(s: Scope, node: ast.While, loop: Any) -> None:
    b = s.p.b
    with b.if_(condition(s, node.test)):
        s.loops.append(loop)
        run_block(s, node.body)
        s.loops.pop()
    with b.else_():
        b.break_(loop)


def _for(s: Scope, node: ast.For) -> None:
    if not isinstance(node.over, ast.Range):
        for_map(s, node, node.over)
        return
    first, stop = number(s, node.over.first), number(s, node.over.stop)
    p = s.p
    sure = first.sure and stop.sure
    if stop.literal is None or first.literal is None or not sure or _is_longer(s, first, stop, node.over):
        _count_up(s, node, first, stop)
        return
    signed = max(first.literal, stop.literal) <= S64.maximum
    start = first.literal if signed else 0
    with range_loop(p, start, start + stop.literal - first.literal, 1, forgets=True) as (loop, index):
        at = index.value if signed else p.b.binary(Op.ADD, index.value, first.value)
        assign_variable(s, node.variable.name, Integer(at, signed=signed), node.variable)
        s.loops.append(loop)
        if first.literal >= 0:
            s.natural.add(node.variable.name)
        run_block(s, node.body)
        s.natural.discard(node.variable.name)
        s.loops.pop()


def _is_longer(s: Scope, first: Integer, stop: Integer, node: ast.Range) -> bool:
    """Whether a range of known length has more numbers than the kernel goes over, so that it ends the loop there."""
    limit, count = most_iterations(s.p.target), (stop.literal or 0) - (first.literal or 0)
    if count > limit and not s.p.target.has("isa:may_goto"):
        raise s.error(f"this range has {count} numbers, and this kernel goes over {limit} at most: take fewer", node)
    return count > limit


def _count_up(s: Scope, node: ast.For, first: Integer, stop: Integer) -> None:
    """Build a loop over a range whose borders are known at run time only, and do not change in it."""
    b, signed = s.p.b, arithmetic.is_signed(first, stop)
    position = b.variable(hint="position")
    b.write(position, b.binary(Op.SUB, first.value, b.const(1)))

    def iteration(loop: Any) -> None:
        before = b.read(position)
        assert before is not None
        number = b.binary(Op.ADD, before, b.const(1))
        b.write(position, number)
        with b.if_(Compare(Relation.SLT if signed else Relation.ULT, number, stop.value)):
            at = Integer(number, signed=signed) if first.sure and stop.sure else Unknown(s.p)
            assign_variable(s, node.variable.name, at, node.variable)
            s.loops.append(loop)
            run_block(s, node.body)
            s.loops.pop()
        with b.else_():
            b.break_(loop)

    _endless(s, iteration)
    b.forget(position)


def _break(s: Scope, node: ast.Break) -> None:
    if not s.loops:
        raise s.error("break is for loops", node)
    s.p.b.break_(s.loops[-1])


def _continue(s: Scope, node: ast.Continue) -> None:
    if not s.loops:
        raise s.error("continue is for loops", node)
    s.p.b.continue_(s.loops[-1])


def _return(s: Scope, node: ast.Return) -> None:
    if s.frames:
        script_functions.leave(s, node)
        return
    if node.value is not None:  # a probe's value is nobody's
        evaluate(s, node.value)
    s.leave()


_STATEMENTS: dict[type[ast.Statement], Callable[[Scope, Any], None]] = {
    ast.ExpressionStatement: _expression,
    ast.Assignment: _assignment,
    ast.Discard: _discard,
    ast.Let: _let,
    ast.Unroll: _unroll,
    ast.While: _while,
    ast.For: _for,
    ast.Break: _break,
    ast.Continue: _continue,
    ast.Return: _return,
}
