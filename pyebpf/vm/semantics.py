"""Semantics of each operation, as Python expressions over unsigned integers: one row for each name of the table.

`d` and `s` stand for the destination and the second operand, a register or a constant; registers hold 0 to 2^64 - 1.
A 32-bit operation's constant is given modulo 2^32. Results are already reduced to the register's 64 bits.

Source: RFC 9669 sections 4 and 5 (division by zero gives 0, the remainder then is the dividend, the most negative
number divided by -1 is itself, shift counts are taken modulo the width); kernel/bpf/core.c.
"""

from __future__ import annotations

M = "0xffffffffffffffff"
W = "0xffffffff"
H = "0x8000000000000000"
HW = "0x80000000"


def divide_signed(dividend: int, divisor: int, bits: int) -> int:
    """Quotient toward zero of two's complements of `bits`, as one; 0 if the divisor is 0."""
    mask, sign = (1 << bits) - 1, 1 << (bits - 1)
    a, b = ((dividend & mask) ^ sign) - sign, ((divisor & mask) ^ sign) - sign
    if b == 0:
        return 0
    quotient = abs(a) // abs(b)
    return (quotient if (a < 0) == (b < 0) else -quotient) & mask


def modulo_signed(dividend: int, divisor: int, bits: int) -> int:
    """Remainder that has the dividend's sign; the dividend if the divisor is 0."""
    mask, sign = (1 << bits) - 1, 1 << (bits - 1)
    a, b = ((dividend & mask) ^ sign) - sign, ((divisor & mask) ^ sign) - sign
    if b == 0:
        return a & mask
    remainder = abs(a) % abs(b)
    return (-remainder if a < 0 else remainder) & mask


BINARY: dict[str, str] = {
    "add64": f"(d + s) & {M}",
    "sub64": f"(d - s) & {M}",
    "mul64": f"(d * s) & {M}",
    "div64": "d // s if s else 0",
    "sdiv64": "divide_signed(d, s, 64)",
    "or64": "d | s",
    "and64": "d & s",
    "lsh64": f"(d << (s & 63)) & {M}",
    "rsh64": "d >> (s & 63)",
    "mod64": "d % s if s else d",
    "smod64": "modulo_signed(d, s, 64)",
    "xor64": "d ^ s",
    "mov64": "s",
    "arsh64": f"(((d ^ {H}) - {H}) >> (s & 63)) & {M}",
    "movsx8to64": f"(((s & 0xff) ^ 0x80) - 0x80) & {M}",
    "movsx16to64": f"(((s & 0xffff) ^ 0x8000) - 0x8000) & {M}",
    "movsx32to64": f"(((s & {W}) ^ {HW}) - {HW}) & {M}",
    "add32": f"(d + s) & {W}",
    "sub32": f"(d - s) & {W}",
    "mul32": f"(d * s) & {W}",
    "div32": f"(d & {W}) // (s & {W}) if s & {W} else 0",
    "sdiv32": "divide_signed(d, s, 32)",
    "or32": f"(d | s) & {W}",
    "and32": f"d & s & {W}",
    "lsh32": f"(d << (s & 31)) & {W}",
    "rsh32": f"(d & {W}) >> (s & 31)",
    "mod32": f"(d & {W}) % (s & {W}) if s & {W} else d & {W}",
    "smod32": "modulo_signed(d, s, 32)",
    "xor32": f"(d ^ s) & {W}",
    "mov32": f"s & {W}",
    "arsh32": f"(((d & {W} ^ {HW}) - {HW}) >> (s & 31)) & {W}",
    "movsx8to32": f"(((s & 0xff) ^ 0x80) - 0x80) & {W}",
    "movsx16to32": f"(((s & 0xffff) ^ 0x8000) - 0x8000) & {W}",
}
"""Operations of two operands; `movsx` and `mov` read only the second."""

_SWAPS = {
    16: "(d & 0xff) << 8 | d >> 8 & 0xff",
    32: f"from_bytes((d & {W}).to_bytes(4, 'little'), 'big')",
    64: "from_bytes(d.to_bytes(8, 'little'), 'big')",
}

UNARY: dict[str, str] = {
    "neg64": f"-d & {M}",
    "neg32": f"-d & {W}",
    # A little-endian machine: `le` cuts off the upper bits, `be` swaps.
    "le16": "d & 0xffff",
    "le32": f"d & {W}",
    "le64": "d",
    **{f"{name}{bits}": swap for name in ("be", "bswap") for bits, swap in _SWAPS.items()},
}
"""Operations of one register."""

_CONDITIONS = {
    "jeq": ("{a} == {b}", False),
    "jne": ("{a} != {b}", False),
    "jset": ("{a} & {b}", False),
    "jgt": ("{a} > {b}", False),
    "jge": ("{a} >= {b}", False),
    "jlt": ("{a} < {b}", False),
    "jle": ("{a} <= {b}", False),
    "jsgt": ("{a} > {b}", True),
    "jsge": ("{a} >= {b}", True),
    "jslt": ("{a} < {b}", True),
    "jsle": ("{a} <= {b}", True),
}


def _condition(text: str, *, signed: bool, narrow: bool) -> str:
    # Flipping the sign bits turns an unsigned comparison into the signed one.
    flip = f" ^ {HW if narrow else H}" if signed else ""
    a, b = (f"(({each} & {W}){flip})" if narrow else f"({each}{flip})" for each in "ds")
    return text.format(a=a, b=b)


CONDITIONS: dict[str, str] = {
    name + suffix: _condition(text, signed=signed, narrow=bool(suffix))
    for suffix in ("", "32")
    for name, (text, signed) in _CONDITIONS.items()
}
"""When a conditional jump is taken."""

ATOMICS: dict[str, str] = {
    "add": "(old + s) & mask",
    "or": "old | s",
    "and": "old & s",
    "xor": "old ^ s",
    "xchg": "s",
    "cmpxchg": "s if old == r0 else old",
}
"""What an atomic operation leaves in memory: `old` is what was there, `s` the operand, `r0` R0, each cut to `mask`."""
