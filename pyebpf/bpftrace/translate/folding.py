"""Numbers that a script writes, computed with each other: exactly, or an error for more than 64 bits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyebpf.bpftrace import ast
from pyebpf.types import S64, U64

if TYPE_CHECKING:
    from pyebpf.bpftrace.translate.body import Scope


def folded(s: Scope, node: ast.Expression) -> int | None:
    """The value of a sum, difference, product or shift of numbers in a script; None of anything else."""
    if isinstance(node, ast.Integer):
        return node.value
    if not isinstance(node, ast.Unary | ast.Binary) or node.operator not in ("+", "-", "*", "<<", ">>"):
        return None
    known = s.script.folded
    if id(node) not in known:
        value = _negated(s, node) if isinstance(node, ast.Unary) else _combined(s, node)
        known[id(node)] = node, value
    return known[id(node)][1]


def _negated(s: Scope, node: ast.Unary) -> int | None:
    value = folded(s, node.value) if node.operator == "-" else None
    return None if value is None else _checked(s, -value, node)


def _combined(s: Scope, node: ast.Binary) -> int | None:
    left, right = folded(s, node.left), folded(s, node.right)
    if left is None or right is None:
        return None
    match node.operator:
        case "+":
            return _checked(s, left + right, node)
        case "-":
            return _checked(s, left - right, node)
        case "*":
            return _checked(s, left * right, node)
    if not 0 <= right < U64.size * 8:
        raise s.error(f"a shift by {right}: a number has 64 bits, give 0 to 63", node)
    if left < 0:
        return None
    return left >> right if node.operator == ">>" else left << right & U64.maximum


def check_relation(s: Scope, node: ast.Binary) -> None:
    """Refuse to compare two numbers of which only one is signed, since 64 bits do not hold both."""
    left, right = folded(s, node.left), folded(s, node.right)
    if left is not None and right is not None and min(left, right) < 0 and max(left, right) > S64.maximum:
        raise s.error(
            f"{left} and {right} are compared, and no number of 64 bits holds both: cast one, (uint64)-1", node
        )


def _checked(s: Scope, value: int, node: ast.Node) -> int:
    if value < S64.minimum:
        raise s.error(f"{value} is less than {S64.minimum}, the least number of 64 bits", node)
    if value > U64.maximum:
        raise s.error(f"{value} is greater than {U64.maximum}, the greatest number of 64 bits", node)
    return value
