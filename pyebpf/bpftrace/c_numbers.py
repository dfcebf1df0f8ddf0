"""Numbers that C's definitions need: lengths of arrays, widths of bit-fields, values of an enum's constants."""

from __future__ import annotations

from operator import add, and_, eq, ge, gt, le, lshift, lt, mul, ne, or_, rshift, sub, xor
from typing import TYPE_CHECKING

from pyebpf.bpftrace import ast
from pyebpf.types import S64, U64

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyebpf.bpftrace.source import Source

_OPERATORS: Mapping[str, Callable[[int, int], int]] = {
    "+": add, "-": sub, "*": mul, "<<": lshift, ">>": rshift, "&": and_, "|": or_, "^": xor,
    "==": eq, "!=": ne, "<": lt, "<=": le, ">": gt, ">=": ge,
    "&&": lambda one, other: one != 0 and other != 0,
    "||": lambda one, other: one != 0 or other != 0,
}  # fmt: skip


def c_number(
    source: Source,
    node: ast.Expression,
    what: str,
    constants: Mapping[str, int],
    size: Callable[[ast.Type], int] | None = None,
) -> int:
    """The number that an expression of C's gives; `size` tells that of a type. Raises CompileError for another."""

    def known(node: ast.Expression) -> int:
        found: int | None = None
        match node:
            case ast.Integer(value=value):
                return value
            case ast.Identifier(name=name):
                found = constants.get(name)
            case ast.SizeOf(operand=ast.Type() as operand) if size is not None:
                found = size(operand)
            case ast.Conditional(test=test, then=then, otherwise=otherwise) if then is not None:
                found = known(then) if known(test) else known(otherwise)
            case ast.Unary(operator="-" | "~" | "!" as operator, value=operand):
                value = known(operand)
                found = -value if operator == "-" else ~value if operator == "~" else int(not value)
            case ast.Binary(operator=operator, left=left, right=right):
                found = computed(node, operator, known(left), known(right))
        if found is None:
            raise source.error(f"{what} is to be a number", node)
        if not S64.minimum <= found <= U64.maximum:
            raise source.error(f"this is {found}, and 64 bits do not hold that", node)
        return found

    def computed(node: ast.Binary, operator: str, left: int, right: int) -> int | None:
        if operator in ("<<", ">>") and not 0 <= right < 64:
            raise source.error(f"a shift by {right}: a number has 64 bits, give 0 to 63", node)
        if operator in ("/", "%"):
            if right == 0:
                raise source.error("division by zero", node)
            quotient = abs(left) // abs(right) * (1 if (left < 0) == (right < 0) else -1)  # rounded to zero
            return quotient if operator == "/" else left - right * quotient
        compute = _OPERATORS.get(operator)
        return None if compute is None else int(compute(left, right))

    return known(node)
