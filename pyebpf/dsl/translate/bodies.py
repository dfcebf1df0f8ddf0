"""Bodies of functions: annotated locals, `return`, the end without one, and what a program may hand to the kernel."""

from __future__ import annotations

import ast
import functools
from typing import TYPE_CHECKING

from pyebpf.builder.values.entity import describe
from pyebpf.builder.values.integers import number
from pyebpf.builder.values.records import is_fresh
from pyebpf.builder.values.restating import restated_if_computed
from pyebpf.dsl.annotations import integer_type
from pyebpf.dsl.translate.names import RETURN
from pyebpf.dsl.tree import statements_within
from pyebpf.uapi.bpf import ProgramType

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyebpf.builder.ssa.environment import Variable
    from pyebpf.compiler import ir
    from pyebpf.dsl.translate.frame import Frame
    from pyebpf.maps.for_each import ForEachLoop
    from pyebpf.types import IntType

#: A return value that lets things go on, for the message about a path without one.
_VERDICTS = {
    ProgramType.XDP: "XDP_PASS",
    ProgramType.SCHED_CLS: "TC_ACT_OK",
    ProgramType.NETFILTER: "NF_ACCEPT",
    ProgramType.SK_SKB: "SK_PASS",
    ProgramType.SK_MSG: "SK_PASS",
    ProgramType.SK_LOOKUP: "SK_PASS",
    ProgramType.SK_REUSEPORT: "SK_PASS",
    # 1 lets it through, and 0 does not.
    ProgramType.CGROUP_SKB: "1",
    ProgramType.CGROUP_SOCK: "1",
    ProgramType.CGROUP_SOCK_ADDR: "1",
    ProgramType.CGROUP_DEVICE: "1",
    ProgramType.CGROUP_SYSCTL: "1",
    ProgramType.CGROUP_SOCKOPT: "1",
}


def body(f: Frame) -> None:
    """Translate a whole function; what happens at its end is the caller's business."""
    node = f.source.node
    if isinstance(node, ast.Lambda):
        f.b.where = f.at(node.body)
        value = f.expression(node.body)
        if f.returns is not None:
            f.assign(RETURN, value)
            f.b.jump(f.returns)
        return
    _annotations(f, node.body)
    statements = node.body
    first = statements[0]
    if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str):
        statements = statements[1:]
    f.block(statements)


def _annotations(f: Frame, statements: Sequence[ast.stmt]) -> None:
    """Collect the annotated locals: an annotation holds for every assignment to its name."""
    for node in _annotated_locals(tuple(statements)):
        assert isinstance(node.target, ast.Name)
        f.b.where = f.at(node)
        declared = declared_type(f, node.annotation)
        if declared is None:
            continue
        before = f.annotations.setdefault(node.target.id, declared)
        if before != declared:
            f.fail(
                f"{node.target.id} is annotated as {before.name} and as {declared.name}: choose one", node.annotation
            )


@functools.lru_cache(maxsize=256)
def _annotated_locals(statements: tuple[ast.stmt, ...]) -> list[ast.AnnAssign]:
    nodes = statements_within(statements)
    return [node for node in nodes if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)]


def declared_type(f: Frame, annotation: ast.expr) -> IntType | None:
    """The integer type that an annotation names; None for what says nothing here (`int`, `str`, a Struct)."""
    if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
        try:
            annotation = ast.parse(annotation.value, mode="eval").body
        except (SyntaxError, ValueError):  # Python never reads the text, and its sense is a checker's affair
            return None
    if not isinstance(annotation, (ast.Name, ast.Attribute)):
        return None
    if isinstance(annotation, ast.Name):
        return integer_type(f.scope.look_up(annotation.id, f.source))
    return integer_type(f.expression(annotation))


def return_statement(f: Frame, node: ast.Return) -> None:
    """`return` and `return value`."""
    value = None if node.value is None else f.expression(node.value)
    f.b.where = f.at(node)
    for around in f.loops:
        around.is_left = True
    if f.returns is not None:
        _return_inlined(f, value)
    else:
        _return(f, value, node)


def end_of_function(f: Frame) -> None:
    """Control reaches the end of a function that returns no value there."""
    if not f.b.reachable:
        return
    if f.returns is not None:
        _return_inlined(f, None)
        return
    node = f.source.node
    if f.is_subprogram:
        if f.result is not None:
            f.fail(
                f"{f.scope.function.__name__}: every path returns a value, and one reaches the end: end it "
                "with `return`",
                node,
            )
        _leave(f, f.b.const(0))
        return
    default = f.p.program_context.default_return(f.p.program_type)
    if default is None:
        f.p.fail(
            f"{f.scope.function.__name__}: every path of a program of this type returns a value, and one "
            f"reaches the end: end it with `{_last_return(f)}`",
            f.source.location,
        )
    _leave(f, f.b.const(default))


def _last_return(f: Frame) -> str:
    verdict = _VERDICTS.get(f.p.program_type)
    results = f.p.program_context.return_range
    if verdict is None and results is not None and results[0] == 0:
        verdict = str(min(results[1], 1))  # of control groups: 0 rejects, and 1 lets it happen
    return "return" if verdict is None else f"return {verdict}"


def _return_inlined(f: Frame, value: object) -> None:
    assert f.returns is not None
    f.gives_fresh &= is_fresh(value)
    f.assign(RETURN, value)
    f.b.jump(f.returns if f.for_each is None else f.for_each.returned)


def _leave(f: Frame, value: ir.Value) -> None:
    """Leave the program or subprogram; in a loop over a map, its body, to leave then."""
    loop = f.for_each
    if loop is None:
        f.b.ret(value)
    else:
        f.b.write(loop.result, value)
        f.b.jump(loop.returned)


def returned_from(f: Frame, loop: ForEachLoop) -> list[Variable]:
    """The variables of what has been returned in the body of a loop over a map."""
    return [loop.result] if f.returns is None else [*f.carried([RETURN]), *f.markers([RETURN])]


def pass_on(f: Frame, loop: ForEachLoop) -> None:
    """After a loop over a map: return what its body has returned, if it has."""
    if not loop.returns:
        return
    with f.b.if_(loop.has_returned()):
        loop.restore()
        if f.returns is None:
            _leave(f, f.b.read_final(loop.result))
        else:
            f.b.jump(f.returns if f.for_each is None else f.for_each.returned)


def _return(f: Frame, value: object, node: ast.Return) -> None:
    if f.is_subprogram:
        if value is None:
            if f.result is not None:
                f.fail("every path of a subprogram returns a value: return one here, too")
            _leave(f, f.b.const(0))
            return
        if f.result is None:
            f.fail("this subprogram is annotated to return nothing: annotate its result, `-> u64`", node.value)
        found = number(f.p, value)
        if found is None:
            f.fail(f"a subprogram returns an integer, not {describe(value)}", node.value)
        converted = number(f.p, found.convert(f.p, f.result))
        assert converted is not None
        _leave(f, converted.value)
        return
    default = f.p.program_context.default_return(f.p.program_type)
    if default is not None:
        if value is not None:
            f.fail(
                "a tracing probe returns nothing: write `return` alone, and keep values in maps or records", node.value
            )
        _leave(f, f.b.const(default))
        return
    if value is None:
        f.fail("every path of a program of this type returns a value: return one here, too")
    found = number(f.p, value)
    if found is None:
        f.fail(f"a program returns an integer, not {describe(value)}", node.value)
    f.p.program_context.check_result(f.p, found.value)
    _leave(f, found.value if f.p.program_context.return_range is None else restated_if_computed(f.p, found.value))
