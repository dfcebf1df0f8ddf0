"""`//` and `%`: Python's, rounding down, by unsigned divisions alone.

BPF divides unsigned numbers everywhere and signed ones, toward zero, only on newer kernels. Rounding down needs
neither: for a negative dividend, floor(a / d) = ~(~a / d), and ~a is not negative. So the same code, without
branches, serves every kernel, and it is right for -2^63 too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyebpf.builder.ssa import ranges
from pyebpf.compiler.ir import Op

if TYPE_CHECKING:
    from pyebpf.builder.program import ProgramBuilder
    from pyebpf.compiler import ir


def divide(
    p: ProgramBuilder, operator: str, dividend: ir.Value, divisor: ir.Value, literal: int | None, *, unsigned: bool
) -> ir.Value:
    """`//` or `%`, with the divisor's `literal` where it has one; by a run-time 0 they are 0 and the dividend."""
    b = p.b
    numerator, denominator = b.bounds(dividend), b.bounds(divisor)
    plain = unsigned or min(numerator[0], denominator[0]) >= 0
    if literal is not None and literal > 0 and literal & (literal - 1) == 0:
        value = _by_power_of_two(p, operator, dividend, literal, plain=plain)
    elif plain:
        value = b.binary(Op.UDIV if operator == "//" else Op.UMOD, dividend, divisor)
    elif denominator[0] > 0:
        value = _by_positive(p, operator, dividend, divisor)
    else:
        value = _by_any(p, operator, dividend, divisor)
    interval = ranges.remainder if operator == "%" else ranges.quotient
    found = interval(numerator, denominator, unsigned=unsigned)
    if found is not None:
        b.assume_bounds(value, *found)
    return value


def _by_power_of_two(p: ProgramBuilder, operator: str, dividend: ir.Value, divisor: int, *, plain: bool) -> ir.Value:
    """Shifting right and masking round down whatever the sign."""
    if operator == "%":
        return p.b.binary(Op.AND, dividend, p.b.const(divisor - 1))
    shift = p.b.const(divisor.bit_length() - 1)
    return p.b.binary(Op.LSHR if plain else Op.ASHR, dividend, shift)


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
