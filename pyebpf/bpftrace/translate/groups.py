"""Tuples and records: made, compared, taken apart."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyebpf.bpftrace.translate import arithmetic
from pyebpf.bpftrace.translate.values import Condition, Group, Unknown, arranged

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyebpf.bpftrace import ast
    from pyebpf.bpftrace.translate.body import Scope
    from pyebpf.bpftrace.translate.values import Value

#: Values of a tuple at most, with those of the tuples in it: each is in a place of its own.
MAX_VALUES = 500


def tuple_of(s: Scope, node: ast.Tuple) -> Value:
    """`(a, b)`."""
    return _group(s, node, node.elements)


def record_of(s: Scope, node: ast.Record) -> Value:
    """`(name = a, other = b)`."""
    return _group(s, node, [each.value for each in node.fields], [each.name for each in node.fields])


def _group(s: Scope, node: ast.Node, elements: Sequence[ast.Expression], names: Sequence[str] = ()) -> Group:
    from pyebpf.bpftrace.translate.expressions import evaluate
    from pyebpf.bpftrace.translate.members import kept

    found = Group([kept(s, evaluate(s, each), each) for each in elements], names)
    if found.size > MAX_VALUES:
        raise s.error(
            f"{found.size} values are too many: a tuple has {MAX_VALUES} at most, with those in its tuples", node
        )
    return found


def element(s: Scope, node: ast.TupleAccess) -> Value:
    """`tuple.1`."""
    from pyebpf.bpftrace.translate.expressions import evaluate

    value = evaluate(s, node.value)
    if isinstance(value, Unknown):
        return value
    if not isinstance(value, Group) or node.index >= len(value.elements):
        has = f"a tuple of {len(value.elements)}" if isinstance(value, Group) else value.type.name
        raise s.error(f"this is {has}: it has no element {node.index}", node)
    return value.elements[node.index]


def compare(s: Scope, operator: str, left: Group, right: Group, node: ast.Node) -> Value:
    """`==` and `!=` of two: all elements are equal, or not all."""
    from pyebpf.bpftrace.translate.expressions import combined

    if len(left.elements) != len(right.elements):
        raise s.error("these tuples have different numbers of elements", node)
    if set(left.names) != set(right.names):
        raise s.error("these records have different fields", node)
    p = s.p
    ordered = arranged(right, left.type)
    assert isinstance(ordered, Group)
    right = ordered
    answer = p.b.variable(hint="equal")
    p.b.write(answer, p.b.const(1))
    for one, other in zip(left.elements, right.elements, strict=True):
        test = combined(s, "!=", one, other, node).truth(p)
        assert test is not None
        with p.b.if_(test):
            p.b.write(answer, p.b.const(0))
    return Condition(arithmetic.is_set(p, p.b.read_final(answer), holds=operator == "=="))
