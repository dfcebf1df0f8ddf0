"""`//` and `%`: Python's, rounding down, by unsigned divisions alone.

BPF divides unsigned numbers everywhere and signed ones, toward zero, only on newer kernels. Rounding down needs
neither: for a negative dividend, floor(a / d) = ~(~a / d), and ~a is not negative. So the same code, without
branches, serves every kernel, and it is right for -2^63 too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyebpf.builder import ranges
from pyebpf.compiler.ir import Op
from pyebpf.types import S64, U64

if TYPE_CHECKING:
    from pyebpf.builder.integers import Int
    from pyebpf.builder.program import ProgramBuilder
    from pyebpf.compiler import ir
    from pyebpf.types import IntType

__all__ = ["divide"]


def divide(p: ProgramBuilder, operator: str, left: Int, right: Int) -> Int:
    """`left // right` or `left % right`; by a run-time 0 they are 0 and the dividend."""
    if right.literal == 0:
        p.fail(f"{left.describe()} {operator} 0: nothing is divided by zero")
    b = p.b
    least = (b.bounds(left.value)[0], b.bounds(right.value)[0])
    type_ = U64 if U64 in (left.type, right.type) else S64
    if type_ == U64 and any(side.type == S64 and low < 0 for side, low in zip((left, right), least, strict=True)):
        p.fail(
            f"{operator} of a u64 and an s64 that may be negative: write u64(x) to divide as unsigned, "
            "or s64(y) to divide as signed"
        )
    plain = type_ == U64 or min(least) >= 0
    if right.literal is not None and right.literal > 0 and right.literal & (right.literal - 1) == 0:
        value = _by_power_of_two(p, operator, left, right.literal, plain=plain)
    elif plain:
        value = b.binary(Op.UDIV if operator == "//" else Op.UMOD, left.value, right.value)
    elif least[1] > 0:
        value = _by_positive(p, operator, left.value, right.value)
    else:
        value = _by_any(p, operator, left.value, right.value)
    dividend, divisor = b.bounds(left.value), b.bounds(right.value)
    if operator == "%":
        found = ranges.remainder(dividend, divisor, unsigned=type_ == U64)
    else:
        found = ranges.quotient(dividend, divisor, unsigned=type_ == U64)
    if found is not None:
        b.assume_bounds(value, *found)
    return _number(value, type_)


def _number(value: ir.Value, type_: IntType) -> Int:
    from pyebpf.builder.integers import Int

    return Int(value, type_)


def _by_power_of_two(p: ProgramBuilder, operator: str, left: Int, divisor: int, *, plain: bool) -> ir.Value:
    """Shifting right and masking round down whatever the sign."""
    if operator == "%":
        return p.b.binary(Op.AND, left.value, p.b.const(divisor - 1))
    shift = p.b.const(divisor.bit_length() - 1)
    return p.b.binary(Op.LSHR if plain else Op.ASHR, left.value, shift)


def _by_positive(p: ProgramBuilder, operator: str, dividend: ir.Value, divisor: ir.Value) -> ir.Value:
    """The divisor is above 0, the dividend may be negative: `negative` is then all ones."""
    b = p.b
    negative = b.binary(Op.ASHR, dividend, b.const(63))
    magnitude = b.binary(Op.XOR, dividend, negative)
    if operator == "//":
        return b.binary(Op.XOR, b.binary(Op.UDIV, magnitude, divisor), negative)
    rest = b.binary(Op.XOR, b.binary(Op.UMOD, magnitude, divisor), negative)
    return b.binary(Op.ADD, rest, b.binary(Op.AND, negative, divisor))


def _by_any(p: ProgramBuilder, operator: str, dividend: ir.Value, divisor: ir.Value) -> ir.Value:
    """Both may be negative: change both signs where the divisor is, then divide by its magnitude."""
    b = p.b
    sign = b.binary(Op.ASHR, divisor, b.const(63))
    size = b.binary(Op.SUB, b.binary(Op.XOR, divisor, sign), sign)
    flipped = b.binary(Op.XOR, dividend, sign)
    turned = b.binary(Op.SUB, flipped, sign)
    # Turning the sign of -2^63 gives 2^63, which is no negative number although its top bit is set: there `flipped`,
    # 2^63 - 1, has none.
    negative = b.binary(Op.ASHR, b.binary(Op.AND, turned, flipped), b.const(63))
    if operator == "//":
        # By 0 the quotient is 0: then `negative` must not turn it into -1.
        some = b.binary(Op.ASHR, b.emit(Op.NEG, size), b.const(63))
        negative = b.binary(Op.AND, negative, some)
        return b.binary(Op.XOR, b.binary(Op.UDIV, b.binary(Op.XOR, turned, negative), size), negative)
    rest = b.binary(Op.XOR, b.binary(Op.UMOD, b.binary(Op.XOR, turned, negative), size), negative)
    rest = b.binary(Op.ADD, rest, b.binary(Op.AND, negative, size))
    return b.binary(Op.SUB, b.binary(Op.XOR, rest, sign), sign)
