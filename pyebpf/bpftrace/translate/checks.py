"""Functions that ask what is known of an expression, and those that complain."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyebpf.bpftrace import ast
from pyebpf.bpftrace.events import Action
from pyebpf.bpftrace.formats import parse_format
from pyebpf.bpftrace.translate import arithmetic, maps
from pyebpf.bpftrace.translate.expressions import assign_variable, condition, evaluate, known_format
from pyebpf.bpftrace.translate.type_names import asked
from pyebpf.bpftrace.translate.values import Condition, Integer, Text, Unknown
from pyebpf.bpftrace.value_types import Address, Array, Number, String
from pyebpf.builder.ssa.conditions import Always, negate

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyebpf.bpftrace.translate.body import Scope
    from pyebpf.bpftrace.translate.values import Value
    from pyebpf.bpftrace.value_types import ValueType


def _is(test: Callable[[ValueType], bool]) -> Callable[[Scope, ast.Call], Value]:
    """A question about an expression's type, whose answer is known when the script is compiled."""

    def build(s: Scope, node: ast.Call) -> Value:
        from pyebpf.bpftrace.translate.functions import arguments

        (first,) = arguments(s, node, 1, 1)
        return Condition(Always(test(asked(s, first).type)))

    return build


def _is_literal(s: Scope, node: ast.Call) -> Value:
    from pyebpf.bpftrace.translate.functions import arguments

    (first,) = arguments(s, node, 1, 1)
    return Condition(Always(isinstance(first, ast.Integer | ast.String | ast.Boolean)))


def _complain(s: Scope, node: ast.Call) -> None:
    """`errorf` and `warnf`: as printf, to standard error, with the place in the script."""
    from pyebpf.bpftrace.translate.functions import formatted, send

    action, values = formatted(s, node)
    source = s.script.source
    word = "ERROR" if node.name == "errorf" else "WARNING"
    lines = [f"\n{source.place(each)}: {word}: {source.marked('expanded from', each)}" for each in node.places]
    text = f"{source.place(node)}: {word}: "
    send(s, Action("complain", action.types, action.format, text=text, trace="".join(lines)), values)


def warn(s: Scope, node: ast.Node, message: str) -> None:
    """Warn at run time, as bpftrace does: with the line of the script, and what is meant marked below it."""
    from pyebpf.bpftrace.translate.functions import send

    source = s.script.source
    lines = parse_format(source.marked(message, node).replace("%", "%%"))
    send(s, Action("warn", format=lines, text=f"{source.place(node)}: WARNING: "), ())


def _assert(s: Scope, node: ast.Call) -> None:
    """`assert(condition, text)`: ends the script with the status 1 where it does not hold."""
    from pyebpf.bpftrace.translate.functions import arguments, send
    from pyebpf.bpftrace.translate.values import constant

    first, message = arguments(s, node, 2, 2)
    with s.p.b.if_(negate(condition(s, first))):
        text = evaluate(s, message)
        if not isinstance(text, Text | Unknown):
            raise s.error("assert() takes a condition and a text", message)
        where = s.script.source.place(node)
        layout = parse_format("assert failed: %s\n")
        send(s, Action("complain", (text.type,), layout, text=f"{where}: ERROR: "), (text,))
        status = constant(s.p, 1)
        send(s, Action("exit", (status.type,)), (status,))
        s.leave()


def _fail(s: Scope, node: ast.Call) -> None:
    """`fail(format, …)`: an error when the script is compiled, unless nothing comes here."""
    if s.p.b.reachable:
        raise s.error(_literal_text(s, node, node.arguments), node)


def _static_assert(s: Scope, node: ast.Call) -> None:
    from pyebpf.bpftrace.translate.functions import arguments

    first, _ = arguments(s, node, 2, 2)
    test = condition(s, first)
    if not isinstance(test, Always):
        raise s.error("this is not known when the script is compiled: write assert()", first)
    if not test.holds and s.p.b.reachable:
        raise s.error(_literal_text(s, node, node.arguments[1:]), node)


def _literal_text(s: Scope, node: ast.Call, given: tuple[ast.Expression, ...]) -> str:
    """A format applied to values that are known."""
    if not given:
        raise s.error(f"{node.name}() takes a format", node)
    try:
        layout = parse_format(known_format(s, given[0]))
    except ValueError as error:
        raise s.error(str(error), given[0]) from None
    values: list[object] = []
    types: list[ValueType] = []
    for each in given[1:]:
        value = evaluate(s, each)
        known: object = value.literal if isinstance(value, Integer) else None
        if isinstance(value, Text) and isinstance(value.source, bytes):
            known = value.source.decode("utf-8", "surrogateescape")
        if known is None:
            raise s.error(f"{node.name}() takes values that are known when the script is compiled", each)
        values.append(known)
        types.append(value.type)
    if len(values) != len(layout.specifiers):
        raise s.error(layout.mismatch(len(values)), node)
    return layout.apply(tuple(values), tuple(types), _Plain())  # type: ignore[arg-type]  # literals have no names


class _Plain:
    """Names for literals: texts as they are."""

    @staticmethod
    def shown(text: str) -> str:
        return text


def _find(s: Scope, node: ast.Call) -> Value:
    """`find(@map, key, $variable)`: whether there is an entry, whose value the variable gets then."""
    from pyebpf.bpftrace.translate.functions import arguments

    first, key, variable = arguments(s, node, 3, 3)
    if not isinstance(first, ast.Map) or not isinstance(variable, ast.Variable):
        raise s.error("find() takes a map, a key and a variable", node)
    access = ast.MapAccess(node.start, node.end, first, key)
    test = maps.has_entry(s, access)
    if test is None:
        return Unknown(s.p)
    b = s.p.b
    answer = b.variable(hint="found")
    b.write(answer, b.const(0))
    with b.if_(test):
        b.write(answer, b.const(1))
        assign_variable(s, variable.name, maps.read(s, access), node)
    found = b.read_final(answer)
    b.assume_bounds(found, 0, 1)
    return Condition(arithmetic.is_set(s.p, found))


CHECKS: dict[str, Callable[[Scope, ast.Call], Value | None]] = {
    "is_str": _is(lambda type_: isinstance(type_, String)),
    "is_ptr": _is(lambda type_: isinstance(type_, Address)),
    "is_array": _is(lambda type_: isinstance(type_, Array)),
    "is_integer": _is(lambda type_: isinstance(type_, Number)),
    "is_unsigned_integer": _is(lambda type_: isinstance(type_, Number) and not type_.signed),
    "is_literal": _is_literal,
    "errorf": _complain,
    "warnf": _complain,
    "assert": _assert,
    "static_assert": _static_assert,
    "fail": _fail,
    "find": _find,
}
