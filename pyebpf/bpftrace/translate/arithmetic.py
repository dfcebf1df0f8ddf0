"""C's operators on numbers of 64 bits, and comparisons of texts."""

from __future__ import annotations

import operator as operators
from typing import TYPE_CHECKING, Any

from pyebpf.bpftrace.translate.values import Condition, Integer, Reference, Text, literal_text
from pyebpf.bpftrace.value_types import Number
from pyebpf.builder.ssa.conditions import Always, Compare, Test, negate
from pyebpf.compiler.ir import Condition as Relation, Op
from pyebpf.types import S64, U64, CharFactory

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyebpf.bpftrace import ast
    from pyebpf.bpftrace.translate.body import Scope
    from pyebpf.bpftrace.translate.values import Value
    from pyebpf.builder.program import ProgramBuilder
    from pyebpf.compiler import ir

_OPS = {
    "+": Op.ADD,
    "-": Op.SUB,
    "*": Op.MUL,
    "/": Op.UDIV,
    "%": Op.UMOD,
    "&": Op.AND,
    "|": Op.OR,
    "^": Op.XOR,
    "<<": Op.SHL,
    ">>": Op.LSHR,
}
_SIGNED_OPS = {"/": Op.SDIV, "%": Op.SMOD, ">>": Op.ASHR}
RELATIONS = {
    "==": (Relation.EQ, Relation.EQ),
    "!=": (Relation.NE, Relation.NE),
    "<": (Relation.SLT, Relation.ULT),
    "<=": (Relation.SLE, Relation.ULE),
    ">": (Relation.SGT, Relation.UGT),
    ">=": (Relation.SGE, Relation.UGE),
}

_HOLDS: dict[str, Callable[[Any, Any], bool]] = {
    "==": operators.eq,
    "!=": operators.ne,
    "<": operators.lt,
    "<=": operators.le,
    ">": operators.gt,
    ">=": operators.ge,
}


def is_signed(left: Integer, right: Integer) -> bool:
    """Whether an operation is signed: if either side is, but a literal takes the other's sign if it is not negative."""
    if left.type.flexible and (left.literal or 0) >= 0:
        return right.signed
    if right.type.flexible and (right.literal or 0) >= 0:
        return left.signed
    return left.signed or right.signed


def binary(p: ProgramBuilder, operator: str, left: Integer, right: Integer) -> Integer:
    """`left operator right`, wrapped to 64 bits. A difference is always signed, a shift has the sign of its left."""
    signed = left.signed if operator in ("<<", ">>") else is_signed(left, right)
    if left.literal is not None and right.literal is not None:
        found = _known(operator, left.literal, right.literal)
        if found is not None:
            is_cast = not (left.type.least and right.type.least)
            signed = signed or (is_cast and operator == "-")
            wrapped = _of_64_bits(found, signed=found <= S64.maximum or (is_cast and signed))
            sure = left.sure and right.sure
            made = Integer(p.b.const(wrapped), signed=signed or wrapped < 0, literal=wrapped, sure=sure)
            if is_cast or max(left.literal, right.literal) > S64.maximum:
                made.type = Number(made.signed)  # a cast gave it its size, or 63 bits are too few for it
            return made
    op = _SIGNED_OPS.get(operator) if signed else None
    value = p.b.binary(op or _OPS[operator], left.value, right.value)
    return Integer(value, signed=signed or operator == "-")


def _known(operator: str, left: int, right: int) -> int | None:
    """The result for two literals; None where it is better computed at run time."""
    match operator:
        case "+":
            return left + right
        case "-":
            return left - right
        case "*":
            return left * right
        case "/" if right:
            quotient = abs(left) // abs(right)
            return quotient if (left < 0) is (right < 0) else -quotient
        case "%" if right:
            return abs(left) % abs(right) * (-1 if left < 0 else 1)
        case "&":
            return left & right
        case "|":
            return left | right
        case "^":
            return left ^ right
        case "<<" if 0 <= right < 64:
            return left << right
        case ">>" if 0 <= right < 64:
            return left >> right
    return None


def unary(p: ProgramBuilder, operator: str, value: Integer) -> Integer:
    """`-x` and `~x`, in 64 bits; the latter of a literal is unsigned, as bpftrace has it."""
    literal = value.literal if value.type.flexible else None
    if operator == "-" and literal is not None and -literal >= S64.minimum:
        return Integer(p.b.const(-literal), signed=True, literal=-literal, sure=value.sure)
    found = p.b.emit(Op.NEG, value.value) if operator == "-" else p.b.binary(Op.XOR, value.value, p.b.const(-1))
    return Integer(found, signed=value.signed if literal is None else operator == "-")


def compare(operator: str, left: Integer, right: Integer) -> Test:
    """A comparison of numbers: signed if either is."""
    by_sign = is_signed(left, right)
    if left.literal is not None and right.literal is not None and left.sure and right.sure:
        one, other = [_of_64_bits(each, signed=by_sign) for each in (left.literal, right.literal)]
        return Always(_HOLDS[operator](one, other))
    signed, unsigned = RELATIONS[operator]
    return Compare(signed if by_sign else unsigned, left.value, right.value)


def _of_64_bits(literal: int, *, signed: bool) -> int:
    """A literal as its 64 bits are taken at run time."""
    bits = literal & U64.maximum
    return bits - (1 << 64) if signed and bits > S64.maximum else bits


def is_set(p: ProgramBuilder, value: ir.Value, *, holds: bool = True) -> Test:
    """Whether a number is not 0, or is."""
    return Compare(Relation.NE if holds else Relation.EQ, value, p.b.const(0))


def step(pointer: Reference) -> int:
    """Bytes from one element to the next that a pointer leads to; 1 where nothing is known of them."""
    target = pointer.type.target
    return 1 if target is None or isinstance(target, CharFactory) else max(target.size, 1)


def moved(p: ProgramBuilder, operator: str, pointer: Reference, distance: Integer) -> Reference:
    """A pointer some elements further on, or back."""
    size = step(pointer)
    offset = p.b.binary(Op.MUL, distance.value, p.b.const(size)) if size > 1 else distance.value
    value = p.b.binary(Op.ADD if operator == "+" else Op.SUB, pointer.value, offset)
    return Reference(value, pointer.type.target, pointer.type.space)


def compare_texts(p: ProgramBuilder, operator: str, left: Text, right: Text) -> Test:
    """`==` and `!=` of two strings."""
    if isinstance(left.source, bytes):
        left, right = right, left
    if isinstance(left.source, bytes):
        assert isinstance(right.source, bytes)
        return Always((left.source == right.source) is (operator == "=="))
    kept = left.kept(p)
    if isinstance(right.source, bytes):
        if len(right.source) >= left.size:
            return Always(operator == "!=")
        same = kept.compare(p, "==", right.source)
    else:
        same = kept.compare(p, "==", right.kept(p))
    return same if operator == "==" else negate(same)


def of_texts(s: Scope, operator: str, left: Text, right: Text, node: ast.Node) -> Value:
    """`left operator right` of two strings: those that are known have an order, and are joined by `+`."""
    if operator in ("==", "!="):
        return Condition(compare_texts(s.p, operator, left, right))
    one, other = left.source, right.source
    if isinstance(one, bytes) and isinstance(other, bytes):
        if operator == "+":
            return literal_text(one + other)
        if operator in RELATIONS:
            return Condition(Always(_HOLDS[operator](one, other)))
    instead = "str_concat() joins them" if operator == "+" else "== and != compare them, and strncmp()"
    raise s.error(f"strings that a probe reads have no {operator}: {instead}", node)


def begins_with(p: ProgramBuilder, text: Text, prefix: bytes) -> Test:
    """Whether a string begins with bytes."""
    from pyebpf.builder.values.arrays import equal_bytes

    if len(prefix) >= text.size:
        return Always(holds=False)
    return equal_bytes(p, text.kept(p).lvalue, prefix)
