"""`count()`, `sum(n)`, `hist(n)` and their like, which are assigned to maps."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyebpf.aggregations.linear import MAX_STEPS
from pyebpf.bpftrace.translate.expressions import known_number, number
from pyebpf.bpftrace.translate.values import Integer
from pyebpf.bpftrace.value_types import Aggregate
from pyebpf.errors import amount

if TYPE_CHECKING:
    from pyebpf.bpftrace import ast
    from pyebpf.bpftrace.translate.body import Scope

#: The least and the greatest number of arguments of each.
AGGREGATIONS = {
    "count": (0, 0),
    "sum": (1, 1),
    "min": (1, 1),
    "max": (1, 1),
    "avg": (1, 1),
    "stats": (1, 1),
    "hist": (1, 2),
    "lhist": (4, 4),
    "tseries": (3, 4),
}
_MAX_BITS = 5


def aggregation(s: Scope, node: ast.Call) -> tuple[Aggregate, Integer] | None:
    """The aggregation that a call is, and what it adds; None if it is another function."""
    counts = AGGREGATIONS.get(node.name)
    if counts is None:
        return None
    if not counts[0] <= len(node.arguments) <= counts[1]:
        least, most = counts
        takes = amount(least, "argument") if least == most else f"{least} or {most} arguments"
        raise s.error(f"{node.name}() takes {takes}, not {len(node.arguments)}", node)
    if not node.arguments:
        return Aggregate("count"), Integer(s.p.b.const(1), signed=False)
    value = number(s, node.arguments[0])
    rest = [known_number(s, each) for each in node.arguments[1:]]
    if node.name == "hist":
        bits = rest[0] if rest else 0
        if not 0 <= bits <= _MAX_BITS:
            raise s.error(f"hist(n, {bits}): give 0 to {_MAX_BITS} bits", node.arguments[1])
        return Aggregate("hist", arguments=(bits,)), value
    if node.name == "lhist":
        least, greatest, step = rest
        if step < 1 or greatest - least < step:
            raise s.error("lhist(n, least, greatest, step) takes a step above 0, and a range of one or more", node)
        greatest -= (greatest - least) % step  # what is above the last whole step is above all
        if (greatest - least) // step > min(1000, MAX_STEPS):
            raise s.error("lhist() has at most 1000 steps", node)
        return Aggregate("lhist", arguments=(least, greatest, step)), value
    return Aggregate(node.name, value.signed and not _is_natural(value)), value


def _is_natural(value: Integer) -> bool:
    return value.literal is not None and value.literal >= 0
