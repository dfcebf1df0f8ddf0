"""Statements."""

from __future__ import annotations

import ast
import functools
from contextlib import ExitStack
from typing import TYPE_CHECKING

from pyebpf.builder.ssa.conditions import Always
from pyebpf.builder.ssa.function import Join
from pyebpf.builder.values.entity import Entity, RunTimeValue, describe
from pyebpf.builder.values.integers import Int
from pyebpf.builder.values.lvalue import Lvalue
from pyebpf.builder.values.optional import Maybe
from pyebpf.builder.values.references import Reference
from pyebpf.builder.values.strings import StringSource
from pyebpf.dsl.translate.assigned import assigned_names, loop_targets
from pyebpf.dsl.translate.bodies import return_statement
from pyebpf.dsl.translate.calls import call
from pyebpf.dsl.translate.closures import define
from pyebpf.dsl.translate.conditions import branch, comparison, is_boolean
from pyebpf.dsl.translate.expressions import BINARY, binary
from pyebpf.dsl.translate.iteration import elements_of
from pyebpf.dsl.translate.operands import frozen, taken_before
from pyebpf.dsl.translate.refusals import refuse
from pyebpf.dsl.translate.tuples import TupleValue, is_run_time
from pyebpf.types import BOOL, CharArray

if TYPE_CHECKING:
    from pyebpf.builder.ssa.conditions import Test
    from pyebpf.dsl.translate.frame import Frame, Handlers

# -- assignment --------------------------------------------------------------------------------------------------------


def assign_target(f: Frame, target: ast.expr, value: object) -> None:
    """`target = value`."""
    match target:
        case ast.Name():
            f.assign(target.id, value)
        case ast.Attribute(value=owner_node, attr=attr):
            owner = f.expression(owner_node)
            if not isinstance(owner, Entity):
                f.fail(
                    f"{ast.unparse(owner_node)} is a Python object: a probe runs in the kernel and can't assign to "
                    "it; keep the value in a map"
                )
            owner.set_attribute(f.p, attr, value)
        case ast.Subscript(value=owner_node, slice=slice_node):
            owner = f.expression(owner_node)
            if isinstance(slice_node, ast.Slice):
                f.fail("a slice can't be assigned at run time: assign single elements", slice_node)
            index = f.expression(slice_node)
            if not isinstance(owner, Entity):
                f.fail(
                    f"{ast.unparse(owner_node)} is a Python object: a probe runs in the kernel and can't assign to "
                    "it; keep the value in a map"
                )
            owner.set_item(f.p, index, value)
        case ast.Tuple(elts=targets) | ast.List(elts=targets):
            for each, part in _unpacked(f, target, targets, value):
                assign_target(f, each, part)
        case _:
            refuse(f, target)


def _unpacked(f: Frame, node: ast.expr, targets: list[ast.expr], value: object) -> list[tuple[ast.expr, object]]:
    """Each target with the value that it is given; `*name` gets a tuple of what is left."""
    parts = elements_of(f, value, node)
    if parts is None:
        f.fail(f"{describe(value)} can't be unpacked into {len(targets)} names", node)
    starred = next((number for number, each in enumerate(targets) if isinstance(each, ast.Starred)), None)
    if len(parts) != len(targets) if starred is None else len(parts) < len(targets) - 1:
        f.fail(f"{len(parts)} values can't be unpacked into {len(targets)} names", node)
    if starred is None:
        return list(zip(targets, parts, strict=True))
    after = len(targets) - starred - 1
    found: list[tuple[ast.expr, object]] = list(zip(targets[:starred], parts, strict=False))
    collects = targets[starred]
    assert isinstance(collects, ast.Starred)
    found.append((collects.value, tuple(parts[starred : len(parts) - after])))
    return [*found, *zip(targets[starred + 1 :], parts[len(parts) - after :], strict=True)]


def _assign(f: Frame, node: ast.Assign) -> None:
    value = taken_before(f, f.expression(node.value), *node.targets)
    if isinstance(value, tuple) and is_run_time(value) and any(isinstance(t, ast.Tuple) for t in node.targets):
        # `a, b = b, a`: every value is taken before any name is bound, or any entry written.
        named = all(isinstance(each, ast.Name) for t in node.targets for each in getattr(t, "elts", [t]))
        value = tuple(_taken(f, part, named=named) for part in value)
    elif len(node.targets) > 1 and isinstance(value, RunTimeValue):
        value = value.local(f.p)
    for target in node.targets:
        assign_target(f, target, value)


def _taken(f: Frame, part: object, *, named: bool) -> object:
    """A value before the others are assigned: what stands in memory that they may write is copied."""
    if not isinstance(part, RunTimeValue):
        return part
    if isinstance(part, Reference) and not named and not part.lvalue.may_be_null(f.p):
        slot = f.b.slot(-(-part.type.size // 8) * 8, name="swapped")
        f.p.store_value(f.b.slot_address(slot), 0, part.type, part)
        return f.p.load_value(Lvalue(base=f.b.slot_address(slot)), part.type)
    return part.local(f.p)


def _annotated(f: Frame, node: ast.AnnAssign) -> None:
    if node.value is None:
        return
    value = f.expression(node.value)
    if isinstance(value, StringSource) and value.size is None:
        # `name: char[32] = …` tells the size of a string that is still to be read.
        declared = f.expression(node.annotation) if isinstance(node.annotation, ast.Subscript) else None
        value = value.sized(declared.length) if isinstance(declared, CharArray) else value
    assign_target(f, node.target, value)


def _augmented(f: Frame, node: ast.AugAssign) -> None:
    target, sign = node.target, BINARY[type(node.op)][0]
    if isinstance(target, ast.Name):
        f.assign(target.id, binary(f, node.op, f.expression(target), f.expression(node.value)))
        return
    owner_node = target.value
    owner = f.expression(owner_node)
    if not isinstance(owner, Entity):
        f.fail(
            f"{ast.unparse(owner_node)} is a Python object: a probe runs in the kernel and can't assign to "
            "it; keep the value in a map",
            target,
        )
    if isinstance(owner, Maybe):
        owner = owner.to_rvalue(f.p)
    # Read before the right side is evaluated, as Python does: a function called there may change what is read. What
    # other processors share is read by the operation itself.
    own = not owner.is_shared(f.p)
    if isinstance(target, ast.Attribute):
        if own:
            before = owner.attribute(f.p, target.attr)
            owner.set_attribute(f.p, target.attr, binary(f, node.op, before, f.expression(node.value)))
        else:
            owner.augment_attribute(f.p, target.attr, sign, f.expression(node.value))
        return
    if isinstance(target.slice, ast.Slice):
        f.fail("a slice can't be assigned at run time: assign single elements", target.slice)
    index = taken_before(f, f.expression(target.slice), node.value)
    if own:
        before = owner.item(f.p, index)
        owner.set_item(f.p, index, binary(f, node.op, before, f.expression(node.value)))
    else:
        owner.augment_item(f.p, index, sign, f.expression(node.value))


def _delete(f: Frame, node: ast.Delete) -> None:
    for target in node.targets:
        if not isinstance(target, ast.Subscript):
            f.fail("only an entry of a map can be deleted: `del m[k]`", target)
        owner = f.expression(target.value)
        if not isinstance(owner, Entity):
            f.fail(f"{ast.unparse(target.value)} is not a map: `del` deletes an entry of a map", target)
        if isinstance(target.slice, ast.Slice):
            f.fail("a slice can't be deleted at run time: delete single entries", target.slice)
        owner.delete_item(f.p, f.expression(target.slice))


# -- control flow ------------------------------------------------------------------------------------------------------


def _if(f: Frame, node: ast.If) -> None:
    then, otherwise, end = Join(), Join(), Join()
    branch(f, node.test, then, otherwise)
    f.b.where = f.at(node)
    _choose(
        f,
        [(then, node.body), (otherwise, node.orelse)],
        end,
        f"is assigned under the run-time `if` of line {node.lineno}",
    )


def _choose(f: Frame, bodies: list[tuple[Join, list[ast.stmt]]], end: Join, what: str) -> None:
    """Bodies of which a condition selects one. Where only one can come, there is no run-time condition."""
    taken = [(join, statements) for join, statements in bodies if join.edges]
    run_time = len(taken) > 1
    if run_time:
        where = f.b.where
        assert where is not None
        for _, statements in taken:
            if statements:
                f.mark(_rebound_names(statements), what, where)
    f.depth += run_time
    for join, statements in taken:
        f.b.start(join)
        f.block(statements)
        f.b.jump(end)
    f.depth -= run_time
    f.b.start(end)


def _rebound_names(statements: list[ast.stmt]) -> list[str]:
    """Names that the statements assign, but for targets of loops, which decide for themselves."""
    targets = loop_targets(statements)
    return [name for name in assigned_names(statements) if name not in targets]


def _match(f: Frame, node: ast.Match) -> None:
    subject = f.expression(node.subject)
    subject = frozen(f.p, subject)
    if isinstance(subject, RunTimeValue):
        subject = subject.local(f.p)
        if isinstance(subject, Int) and is_boolean(node.subject):
            subject = Int(subject.value, subject.type, BOOL)
    end = Join()
    bodies: list[tuple[Join, list[ast.stmt]]] = []
    for case in node.cases:
        if not f.b.reachable:
            break
        body_join, following = Join(), Join()
        matched = Join()
        f.b.where = f.at(case.pattern)
        _pattern(f, case.pattern, subject, matched, following)
        f.b.start(matched)
        if case.guard is not None and f.b.reachable:
            branch(f, case.guard, body_join, following)
        else:
            f.b.jump(body_join)
        bodies.append((body_join, case.body))
        f.b.start(following)
    bodies.append((_here(f), []))
    f.b.where = f.at(node)
    _choose(f, bodies, end, f"is assigned under the run-time `match` of line {node.lineno}")


def _here(f: Frame) -> Join:
    join = Join()
    f.b.jump(join)
    return join


def _pattern(f: Frame, pattern: ast.pattern, subject: object, then: Join, otherwise: Join) -> None:
    match pattern:
        case ast.MatchValue(value=value):
            f.b.branch(comparison(f, ast.Eq(), subject, f.expression(value)), then, otherwise)
        case ast.MatchSingleton(value=None):
            f.b.branch(comparison(f, ast.Is(), subject, None), then, otherwise)
        case ast.MatchSingleton(value=value):
            f.b.branch(_is_bool(f, subject, wanted=bool(value)), then, otherwise)
        case ast.MatchOr(patterns=patterns):
            for each in patterns[:-1]:
                following = Join()
                _pattern(f, each, subject, then, following)
                f.b.start(following)
            _pattern(f, patterns[-1], subject, then, otherwise)
        case ast.MatchAs(pattern=inner, name=name):
            matched = Join()
            if inner is None:
                f.b.jump(matched)
            else:
                _pattern(f, inner, subject, matched, otherwise)
            f.b.start(matched)
            if name is not None:
                _capture(f, pattern, name, subject)
            f.b.jump(then)
        case ast.MatchSequence(patterns=patterns) if isinstance(subject, (tuple, TupleValue)):
            _sequence_pattern(f, pattern, patterns, subject, then, otherwise)
        case _:
            refuse(f, pattern)


def _is_bool(f: Frame, subject: object, *, wanted: bool) -> Test:
    """`case True:`, which Python compares by `is`: a condition, a field of type bool, or what is known now."""
    if not isinstance(subject, Entity):
        return Always(subject is wanted)
    if not isinstance(subject, Int) or subject.loaded != BOOL:
        f.fail(
            f"`case {wanted}` is for conditions and fields of type bool, and {describe(subject)} is neither: write "
            f"`case {int(wanted)}` to compare the number"
        )
    return comparison(f, ast.Eq(), subject, int(wanted))


def _capture(f: Frame, pattern: ast.pattern, name: str, value: object) -> None:
    """Bind a name that a pattern captures: other patterns may bind it otherwise."""
    f.b.where = f.at(pattern)
    f.depth += 1
    f.assign(name, value)
    f.depth -= 1


def _sequence_pattern(
    f: Frame,
    pattern: ast.pattern,
    patterns: list[ast.pattern],
    subject: TupleValue | tuple[object, ...],
    then: Join,
    otherwise: Join,
) -> None:
    """`case (a, 1, *_):` of a tuple, whose length is known."""
    elements = subject.elements if isinstance(subject, TupleValue) else subject
    starred = next((number for number, each in enumerate(patterns) if isinstance(each, ast.MatchStar)), None)
    if len(elements) != len(patterns) if starred is None else len(elements) < len(patterns) - 1:
        f.b.jump(otherwise)
        return
    pairs: list[tuple[ast.pattern, object]] = list(zip(patterns, elements, strict=False))
    if starred is not None:
        after = len(patterns) - starred - 1
        star = patterns[starred]
        assert isinstance(star, ast.MatchStar)
        if star.name is not None:
            _capture(f, pattern, star.name, tuple(elements[starred : len(elements) - after]))
        ends = zip(patterns[starred + 1 :], elements[len(elements) - after :], strict=True)
        pairs = [*pairs[:starred], *ends]
    for each, element in pairs:
        following = Join()
        _pattern(f, each, element, following, otherwise)
        f.b.start(following)
    f.b.jump(then)


def _with(f: Frame, node: ast.With) -> None:
    held: list[tuple[str, Entity]] = []
    with ExitStack() as stack:
        for each in node.items:
            f.b.where = f.at(each.context_expr)
            called = each.context_expr.func if isinstance(each.context_expr, ast.Call) else None
            manager: object = None
            if called is None or isinstance(f.expression(called), Entity):
                manager = f.expression(each.context_expr)
            if not isinstance(manager, Entity):
                f.fail("a probe cannot use Python's context managers: write the statements without `with`")
            value = manager.enter(f.p)
            leave = functools.partial(manager.leave, f.p)
            stack.enter_context(f.b.region(leave, no_calls=manager.no_calls))
            if each.optional_vars is not None:
                assign_target(f, each.optional_vars, value)
                if isinstance(each.optional_vars, ast.Name) and isinstance(value, Entity):
                    held.append((each.optional_vars.id, value))
        f.block(node.body)
        f.b.where = f.at(node)
    for name, entity in held:
        f.end(name, entity)


def _pass(_f: Frame, _node: ast.Pass) -> None:
    """Do nothing, as written."""


# -- expression statements ---------------------------------------------------------------------------------------------


def _expression_statement(f: Frame, node: ast.Expr) -> None:
    value = node.value
    if isinstance(value, ast.Call):
        call(f, value, statement=True)
        return
    if isinstance(value, ast.Constant) and value.value is Ellipsis:
        f.fail("`...` has no meaning in a probe: write `pass`")
    if isinstance(value, (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)):
        f.fail("the result of this comprehension is not used: write a `for` loop")
    if isinstance(value, (ast.Await, ast.Yield, ast.YieldFrom)):
        refuse(f, value)
    if isinstance(value, ast.Constant) and isinstance(value.value, str):
        f.fail("a string alone has no effect: write a comment, `# …`")
    if isinstance(value, ast.Compare) and isinstance(value.ops[0], ast.Eq):
        f.fail("this comparison has no effect: write `=` to assign")
    f.fail("this expression has no effect: assign it, or leave it out")


HANDLERS: Handlers = {
    ast.FunctionDef: define,
    ast.Assign: _assign,
    ast.AnnAssign: _annotated,
    ast.AugAssign: _augmented,
    ast.Delete: _delete,
    ast.If: _if,
    ast.Match: _match,
    ast.With: _with,
    ast.Return: return_statement,
    ast.Pass: _pass,
    ast.Expr: _expression_statement,
}
