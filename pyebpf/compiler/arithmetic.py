"""64-bit arithmetic as eBPF does it, on ints from 0 to 2^64-1: for the evaluator and for folding constants."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyebpf.compiler.ir import Condition, Op

if TYPE_CHECKING:
    from collections.abc import Callable

MASK = (1 << 64) - 1


def signed(number: int) -> int:
    """The s64 with the same bits."""
    return number - (1 << 64) if number >> 63 else number


def sign_extend(number: int, size: int) -> int:
    """The low `size` bytes, their highest bit repeated."""
    bits = 8 * size
    number &= (1 << bits) - 1
    return number | (MASK ^ ((1 << bits) - 1)) if number >> (bits - 1) else number


def swap(number: int, size: int) -> int:
    """The low `size` bytes in the other order."""
    return int.from_bytes((number & ((1 << 8 * size) - 1)).to_bytes(size, "little"), "big")


def _signed_quotient(a: int, b: int) -> int:
    if not b:
        return 0
    quotient = abs(signed(a)) // abs(signed(b))
    return (quotient if (a >> 63) == (b >> 63) else -quotient) & MASK


def _signed_remainder(a: int, b: int) -> int:
    if not b:
        return a
    remainder = abs(signed(a)) % abs(signed(b))
    return (-remainder if a >> 63 else remainder) & MASK


#: The function that each binary op computes.
BINARY: dict[Op, Callable[[int, int], int]] = {
    Op.ADD: lambda a, b: a + b & MASK,
    Op.SUB: lambda a, b: a - b & MASK,
    Op.MUL: lambda a, b: a * b & MASK,
    Op.UDIV: lambda a, b: a // b if b else 0,
    Op.UMOD: lambda a, b: a % b if b else a,
    Op.SDIV: _signed_quotient,
    Op.SMOD: _signed_remainder,
    Op.AND: lambda a, b: a & b,
    Op.OR: lambda a, b: a | b,
    Op.XOR: lambda a, b: a ^ b,
    Op.SHL: lambda a, b: a << (b & 63) & MASK,
    Op.LSHR: lambda a, b: a >> (b & 63),
    Op.ASHR: lambda a, b: signed(a) >> (b & 63) & MASK,
}

_COMPARISONS: dict[Condition, Callable[[int, int], bool]] = {
    Condition.EQ: lambda a, b: a == b,
    Condition.NE: lambda a, b: a != b,
    Condition.ULT: lambda a, b: a < b,
    Condition.ULE: lambda a, b: a <= b,
    Condition.UGT: lambda a, b: a > b,
    Condition.UGE: lambda a, b: a >= b,
    Condition.SLT: lambda a, b: signed(a) < signed(b),
    Condition.SLE: lambda a, b: signed(a) <= signed(b),
    Condition.SGT: lambda a, b: signed(a) > signed(b),
    Condition.SGE: lambda a, b: signed(a) >= signed(b),
    Condition.SET: lambda a, b: bool(a & b),
}


def compare(condition: Condition, left: int, right: int) -> bool:
    """Whether the relation holds."""
    return _COMPARISONS[condition](left, right)
