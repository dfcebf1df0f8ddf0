"""Functions that a script defines: the body stands in the place of each call, with variables of the function's own.

Parameters and the result have the types that are written. bpftrace 0.27 checks such functions, and has no way to call
them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from pyebpf.bpftrace import ast
from pyebpf.bpftrace.macros import MAX_CHAIN
from pyebpf.bpftrace.translate import casts, type_names
from pyebpf.bpftrace.translate.expressions import assign_variable, evaluate
from pyebpf.bpftrace.translate.values import Integer, Unknown
from pyebpf.bpftrace.value_types import Boolean, Number
from pyebpf.builder.ssa.function import Join
from pyebpf.dataclass import fields, replace
from pyebpf.errors import amount

if TYPE_CHECKING:
    from pyebpf.bpftrace.translate.body import Scope
    from pyebpf.bpftrace.translate.values import Value
    from pyebpf.bpftrace.value_types import ValueType


class Frame(NamedTuple):
    """A call that is being built: the function, where it returns to, and how many loops over maps it stands in."""

    function: ast.Function
    left: Join
    map_loops: int


def renamed(node: ast.Function) -> ast.Function:
    """A function whose variables are no other's: `$x` of `f` is `$x.f`."""
    found = _renamed(node, node.name)
    assert isinstance(found, ast.Function)
    return found


def _renamed(node: object, name: str) -> object:
    """A part of a function with its variables renamed."""
    if isinstance(node, tuple):
        return tuple([_renamed(each, name) for each in node])
    if not isinstance(node, ast.Node):
        return node
    if isinstance(node, ast.Variable):
        return replace(node, name=f"{node.name}.{name}")
    return replace(node, **{each.name: _renamed(getattr(node, each.name), name) for each in fields(node)})


def call(s: Scope, node: ast.Call, function: ast.Function) -> Value | None:
    """A call of a function."""
    from pyebpf.bpftrace.translate.statements import run_block

    count, wanted = len(node.arguments), len(function.parameters)
    if count != wanted:
        raise s.error(f"{node.name}() takes {amount(wanted, 'argument')}, not {count}", node)
    chain = [each.function.name for each in s.frames]
    if function.name in chain:
        raise s.error(f"the function {node.name} calls itself: {' > '.join([*chain, node.name])}: write a loop", node)
    if len(chain) >= MAX_CHAIN:
        raise s.error(f"functions call each other more than {MAX_CHAIN} deep: call fewer", node)
    values = [evaluate(s, each) for each in node.arguments]
    for parameter, value, given in zip(function.parameters, values, node.arguments, strict=True):
        _hold(s, parameter.variable.name, parameter.type, value, given)
    b, left, loops = s.p.b, Join(f"{node.name} left"), s.loops
    s.frames.append(Frame(function, left, len(s.map_loops)))
    s.loops = []
    run_block(s, function.body)
    s.loops = loops
    s.frames.pop()
    if b.reachable and not _is_void(function):
        place = ast.Node(function.body.end - 1, function.body.end)
        raise s.error(f"{node.name}() comes to its end without a result: write return", place)
    b.jump(left)
    b.start(left)
    if _is_void(function):
        return None
    name = _result(function)
    return s.storage.now(name) or Unknown(s.p)


def leave(s: Scope, node: ast.Return) -> None:
    """`return` in a function."""
    frame = s.frames[-1]
    function = frame.function
    if len(s.map_loops) != frame.map_loops:
        raise s.error(
            "return leaves no loop over a map in a function: set a variable, and return behind the loop", node
        )
    if _is_void(function):
        if node.value is not None:
            raise s.error(f"{function.name}() gives nothing, its result is void: leave the value out", node.value)
    elif node.value is None:
        raise s.error(f"{function.name}() has a result: return it", node)
    else:
        _hold(s, _result(function), function.result, evaluate(s, node.value), node.value)
    s.p.b.jump(frame.left)


def _hold(s: Scope, name: str, type_: ast.Type | ast.TypeOf, value: Value, node: ast.Expression) -> None:
    """Give a parameter, or the result, a value, as one of its type, which all has that the body assigns to it."""
    wanted: ValueType | None = type_names.value_type(s, type_)
    if isinstance(wanted, Number | Boolean):
        s.declared[name] = wanted
    if wanted is None or isinstance(value, Unknown):
        return
    s.variables.note(name, wanted)
    if isinstance(wanted, Number) and isinstance(value, Integer):
        value = casts.assigned(s, value, wanted, node)
    cast = ast.Cast(node.start, node.end, ast.TypeOf(0, 0, node), node)
    assign_variable(s, name, casts.converted(s, value, wanted, cast), node)


def _is_void(function: ast.Function) -> bool:
    return isinstance(function.result, ast.TypeName) and function.result.name == "void"


def _result(function: ast.Function) -> str:
    """The name of the variable that holds the result."""
    return f".{function.name}"
