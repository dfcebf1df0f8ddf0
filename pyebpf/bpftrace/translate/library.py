"""Functions of bpftrace's library that ask the kernel's BTF: `container_of`, `kfunc_exist`, `kfunc_allowed`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyebpf.bpftrace import ast
from pyebpf.bpftrace.translate.expressions import evaluate, known_text
from pyebpf.bpftrace.translate.values import Condition, Unknown
from pyebpf.builder.ssa.conditions import Always
from pyebpf.errors import NotFound
from pyebpf.uapi.bpf import ProgramType

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyebpf.bpftrace.translate.body import Scope
    from pyebpf.bpftrace.translate.values import Value

#: Programs that may call functions of the kernel's own for tracing: bpf_prog_type_to_kfunc_hook() knows them.
_CALLERS = frozenset({ProgramType.TRACING})
#: Those that may since Linux 6.12, which brought the function of this name, too.
_LATER_CALLERS = frozenset({ProgramType.TRACEPOINT, ProgramType.PERF_EVENT})
_SINCE = "kfunc:bpf_copy_from_user_str"


def _arguments(s: Scope, node: ast.Call, count: int) -> Sequence[ast.Expression]:
    from pyebpf.bpftrace.translate.functions import arguments

    return arguments(s, node, count, count)


def _container(s: Scope, node: ast.Call) -> Value:
    """`container_of($pointer, typeof(struct T), member)`: the struct that a pointer leads into."""
    first, type_, member = _arguments(s, node, 3)
    target = type_.operand if isinstance(type_, ast.TypeOf) else type_
    if isinstance(target, ast.Identifier):
        target = ast.TypeName(target.start, target.end, target.name)
    if not isinstance(target, ast.TypeName):
        raise s.error(
            "container_of() takes a pointer, a type and a member: container_of($p, typeof(struct T), m)", type_
        )
    path, at = [], member
    while isinstance(at, ast.FieldAccess):
        path.append(at.name)
        at = at.value
    if not isinstance(at, ast.Identifier):
        raise s.error("container_of() takes the name of a member", member)
    path.append(at.name)
    if isinstance(evaluate(s, first), Unknown):
        return Unknown(s.p)
    start, end = node.start, node.end
    number = ast.Cast(start, end, ast.TypeName(start, end, "uint64"), first)
    offset = ast.OffsetOf(member.start, member.end, target, tuple(reversed(path)))
    place = ast.Binary(start, end, "-", number, offset)
    return evaluate(s, ast.Cast(start, end, ast.PointerType(start, end, target), place))


def _exists(s: Scope, node: ast.Call) -> Value:
    """`kfunc_exist("name")`: whether the kernel has such a function, one that programs may not call among them."""
    (first,) = _arguments(s, node, 1)
    name = known_text(s, first)
    try:
        s.p.target.function(name)
    except NotFound:
        return Condition(Always(s.p.target.has(f"kfunc:{name}")))
    return Condition(Always(holds=True))


def _allowed(s: Scope, node: ast.Call) -> Value:
    """`kfunc_allowed("name")`: whether this probe may call it."""
    (first,) = _arguments(s, node, 1)
    return Condition(Always(may_call(s, known_text(s, first))))


def may_call(s: Scope, name: str) -> bool:
    """Whether this probe's program may call a function of the kernel's own."""
    kind, target = s.p.program_type, s.p.target
    may = kind in _CALLERS or (kind in _LATER_CALLERS and target.has(_SINCE))
    return may and target.has(f"kfunc:{name}")


LIBRARY: dict[str, Callable[[Scope, ast.Call], Value | None]] = {
    "container_of": _container,
    "kfunc_exist": _exists,
    "kfunc_allowed": _allowed,
}
