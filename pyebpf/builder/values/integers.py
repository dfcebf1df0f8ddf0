"""Run-time integers: Python's arithmetic, wrapped to 64 bits.

An `Int` is signed (`s64`) or unsigned (`u64`); everything narrower is loaded into s64, where it fits exactly. What
may be said of its range travels as facts of the function being built and decides which instructions are needed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyebpf.builder.ssa import ranges
from pyebpf.builder.ssa.conditions import All, Any as AnyOf, Compare, Test
from pyebpf.builder.values.division import divide
from pyebpf.builder.values.entity import Entity, RunTimeValue, describe
from pyebpf.builder.values.methods import method_of
from pyebpf.builder.values.own_methods import check_own
from pyebpf.compiler.ir import Condition as Relation, Op
from pyebpf.types import BOOL, S64, U64, IntType

if TYPE_CHECKING:
    from collections.abc import Hashable

    from pyebpf.builder.program import ProgramBuilder
    from pyebpf.builder.ssa.environment import Interval
    from pyebpf.compiler import ir

_PLAIN = {"+": Op.ADD, "-": Op.SUB, "*": Op.MUL, "&": Op.AND, "|": Op.OR, "^": Op.XOR}

_NO_OPERATOR = {
    "/": "BPF has no fractions: write // for the quotient rounded down",
    "@": "there are no matrices here: write * for a product",
}

_NO_FLOATS = "multiply first, then divide by // (x * 3 // 2), or scale in user space"

_SIGNED = {
    "<": Relation.SLT,
    "<=": Relation.SLE,
    ">": Relation.SGT,
    ">=": Relation.SGE,
    "==": Relation.EQ,
    "!=": Relation.NE,
}
_UNSIGNED = {**_SIGNED, "<": Relation.ULT, "<=": Relation.ULE, ">": Relation.UGT, ">=": Relation.UGE}
MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "==": "==", "!=": "!="}

_HIGHEST_SHIFT = 63


class Int(RunTimeValue):
    """A number known only at run time.

    `type` is U64 or S64. `loaded` is the narrower type that it was loaded from or converted to, where one is known:
    it bounds what comparisons can find. `literal` is the number itself where the source wrote one.
    """

    __slots__ = ("literal", "loaded", "type", "value")

    def __init__(
        self, value: ir.Value, type_: IntType, loaded: IntType | None = None, literal: int | None = None
    ) -> None:
        self.value = value
        self.type = type_
        self.loaded = loaded
        self.literal = literal

    def describe(self) -> str:
        if self.literal is not None:
            return str(self.literal)
        name = (self.loaded or self.type).name
        return f"{'an' if name.startswith('s') else 'a'} {name}"

    @property
    def ssa_values(self) -> tuple[ir.Value, ...]:
        return (self.value,)

    @property
    def static_shape(self) -> Hashable:
        return ("int", self.type.name)

    def with_ssa_values(self, values: tuple[ir.Value, ...]) -> Int:
        return self if values == self.ssa_values else Int(values[0], self.type)

    def as_int(self, p: ProgramBuilder) -> Int:
        return self

    @property
    def limits(self) -> Interval:
        """Least and greatest number that the type can hold."""
        held = self.loaded or self.type
        return held.minimum, held.maximum

    # -- arithmetic ----------------------------------------------------------------------------------------------------

    def binary(self, p: ProgramBuilder, operator: str, other: object, *, reflected: bool = False) -> Int:
        if operator == "**":
            return self._power(p, other, reflected=reflected)
        if operator in _NO_OPERATOR:
            p.fail(_NO_OPERATOR[operator])
        second = number(p, other)
        if second is None:
            self._refuse(p, "binary", f"has no operator {operator} with {describe(other)}")
        left, right = (second, self) if reflected else (self, second)
        if operator in ("//", "%"):
            return _divide(p, operator, left, right)
        if operator in ("<<", ">>"):
            return _shift(p, operator, left, right)
        value = p.b.binary(_PLAIN[operator], left.value, right.value)
        found = ranges.arithmetic(operator, p.b.bounds(left.value), p.b.bounds(right.value))
        if found is not None:
            p.b.assume_bounds(value, *found)
        return Int(value, U64 if U64 in (left.type, right.type) else S64)

    def unary(self, p: ProgramBuilder, operator: str) -> Int:
        if operator == "+":
            return self
        if operator == "~":
            value = p.b.binary(Op.XOR, self.value, p.b.const(-1))
            low, high = p.b.bounds(self.value)
            p.b.assume_bounds(value, ~high, ~low)
            return Int(value, self.type)
        self._signed_only(p, "-x")
        value = p.b.emit(Op.NEG, self.value)
        low, high = p.b.bounds(self.value)
        if low > S64.minimum:
            p.b.assume_bounds(value, -high, -low)
        return Int(value, S64)

    def _power(self, p: ProgramBuilder, other: object, *, reflected: bool) -> Int:
        """`self ** n` for an n known at compile time; `2 ** self` where the result has 64 bits."""
        if reflected:
            low, high = p.b.bounds(self.value)
            if isinstance(other, int) and other == 2 and low >= 0 and high <= _HIGHEST_SHIFT:
                return constant(p, 1).binary(p, "<<", self)
            p.fail(
                f"{describe(other)} ** n with an n known only at run time: write 1 << n for a power of "
                "two, n being 0 to 63"
            )
        exponent = other.literal if isinstance(other, Int) else other
        if not isinstance(exponent, int) or not 0 <= exponent <= _HIGHEST_SHIFT:
            p.fail("x ** n takes an n from 0 to 63 that is known at compile time: write a product in a loop")
        result = Int(p.b.const(1), self.type, literal=1)
        factor = self
        while exponent:
            if exponent & 1:
                result = factor if result.literal == 1 else result.binary(p, "*", factor)
            exponent >>= 1
            if exponent:
                factor = factor.binary(p, "*", factor)
        return result

    def attribute(self, p: ProgramBuilder, name: str) -> Entity:
        return method_of(p, self, name, {"bit_length": self._bit_length, "bit_count": self._bit_count})

    def _magnitude(self, p: ProgramBuilder) -> ir.Value:
        """The number without its sign, as an unsigned one: also of the least that there is."""
        return self.value if self.type == U64 else self.absolute(p).value

    def _bit_length(self, p: ProgramBuilder) -> Int:
        """`x.bit_length()`: by bisection."""
        b = p.b
        rest, length = self._magnitude(p), b.const(0)
        for step in (32, 16, 8, 4, 2, 1):
            more = b.truth_value(Compare(Relation.UGE, rest, b.const(1 << step)))
            shift = b.binary(Op.MUL, more, b.const(step))
            rest, length = b.binary(Op.LSHR, rest, shift), b.binary(Op.ADD, length, shift)
        length = b.binary(Op.ADD, length, rest)
        b.assume_bounds(length, 0, self._most_bits(p))
        return Int(length, S64)

    def _bit_count(self, p: ProgramBuilder) -> Int:
        """`x.bit_count()`: sums of neighbouring bits, side by side."""
        b = p.b
        value = self._magnitude(p)
        for step, mask in ((1, 0x55), (2, 0x33), (4, 0x0F)):
            bits = b.const(int.from_bytes(bytes([mask]) * 8, "little"))
            upper = b.binary(Op.AND, b.binary(Op.LSHR, value, b.const(step)), bits)
            value = b.binary(Op.ADD, b.binary(Op.AND, value, bits), upper)
        ones = b.const(int.from_bytes(bytes([1]) * 8, "little"))
        count = b.binary(Op.LSHR, b.binary(Op.MUL, value, ones), b.const(56))
        b.assume_bounds(count, 0, self._most_bits(p))
        return Int(count, S64)

    def _most_bits(self, p: ProgramBuilder) -> int:
        """How many bits the number without its sign has at most."""
        low, high = p.b.bounds(self.value)
        return 64 if self.type == U64 and low < 0 else max(abs(low), abs(high)).bit_length()

    def absolute(self, p: ProgramBuilder) -> Int:
        """`abs(self)`, wrapped."""
        self._signed_only(p, "abs(x)")
        low, high = p.b.bounds(self.value)
        if low >= 0:
            return self
        sign = p.b.binary(Op.ASHR, self.value, p.b.const(63))
        value = p.b.binary(Op.SUB, p.b.binary(Op.XOR, self.value, sign), sign)
        if low > S64.minimum:
            p.b.assume_bounds(value, 0, max(-low, high))
        return Int(value, S64)

    def _signed_only(self, p: ProgramBuilder, what: str) -> None:
        if self.type == U64:
            p.fail(f"{what} of a u64 is not supported: write s64(x) first")

    # -- tests ---------------------------------------------------------------------------------------------------------

    def compare(self, p: ProgramBuilder, operator: str, other: object, *, reflected: bool = False) -> Test:
        if reflected:
            operator = MIRRORED[operator]
        if isinstance(other, int) and self.literal is None:
            self._decided(p, operator, int(other))
        second = number(p, other)
        if second is None:
            remedy = ": an IPv4 address is a number here, int(ip_address(…))" if _is_ipv4(other) else ""
            if isinstance(other, (str, bytes)) and not remedy:
                remedy = ": if it is the address of a text, compare user_string(…) or kernel_string(…) of it"
            self._refuse(p, "compare", f"cannot be compared with {describe(other)} by {operator}{remedy}")
        if self.literal is not None and second.literal is None:
            second._decided(p, MIRRORED[operator], self.literal)
        return relation(p, operator, self, second)

    def answer(self, operator: str, limit: int) -> bool | None:
        """The answer that a comparison has for everything the type can hold; None if it depends on the value."""
        return ranges.always(operator, *self.limits, limit)

    def _decided(self, p: ProgramBuilder, operator: str, limit: int) -> None:
        """Refuse a comparison that has the same answer for everything the type can hold."""
        low, high = self.limits
        answer = self.answer(operator, limit)
        if answer is not None:
            name = (self.loaded or self.type).name
            p.fail(
                f"{self.describe()} {operator} {limit} is {'always' if answer else 'never'} true: "
                f"{name} holds {low} to {high}"
            )

    def truth(self, p: ProgramBuilder) -> Test:
        return Compare(Relation.NE, self.value, p.b.const(0))

    # -- conversion ----------------------------------------------------------------------------------------------------

    def convert(self, p: ProgramBuilder, type_: IntType) -> Int | Test:
        if not isinstance(type_, IntType):
            self._refuse(p, "convert", f"cannot be converted to {type_}")
        if type_.is_bool:
            return self.truth(p)
        if type_.size == U64.size:
            return Int(self.value, S64 if type_.signed else U64)
        low, high = p.b.bounds(self.value)
        if type_.minimum <= low and high <= type_.maximum:
            return Int(self.value, S64, type_)
        value = p.b.emit(Op.SEXT if type_.signed else Op.ZEXT, self.value, size=type_.size)
        p.b.assume_bounds(value, type_.minimum, type_.maximum)
        return Int(value, S64, type_)


class Character(Int):
    """One byte of a string: a number that can also be compared with a one-byte literal."""

    __slots__ = ()

    def with_ssa_values(self, values: tuple[ir.Value, ...]) -> Int:
        return self if values == self.ssa_values else Character(values[0], self.type, self.loaded)

    @property
    def static_shape(self) -> Hashable:
        return "character"

    def describe(self) -> str:
        return "a character"

    def compare(self, p: ProgramBuilder, operator: str, other: object, *, reflected: bool = False) -> Test:
        if isinstance(other, str):
            raw = other.encode("utf-8", "surrogateescape")
            if len(raw) != 1:
                p.fail(f"a character is one byte and {other!r} is {len(raw)}: compare it with one")
            other = raw[0]
        return super().compare(p, operator, other, reflected=reflected)


def constant(p: ProgramBuilder, literal: int) -> Int:
    """Return a literal as a run-time number: s64, or u64 from 2^63 on."""
    if not S64.minimum <= literal <= U64.maximum:
        p.fail(f"{literal} does not fit 64 bits")
    return Int(p.b.const(literal), S64 if literal <= S64.maximum else U64, literal=int(literal))


def number(p: ProgramBuilder, operand: object) -> Int | None:
    """Return an operand as a number; None if it is nothing of the kind, an error if it is a float."""
    if isinstance(operand, Int):
        return operand
    if isinstance(operand, int):
        check_own(p, (operand,))
        return constant(p, operand)
    if isinstance(operand, Entity):
        found = operand.as_int(p) if hasattr(operand, "as_int") else None
        return found if isinstance(found, Int) else None
    if isinstance(operand, Test):
        return Int(p.b.truth_value(operand), S64, BOOL)
    if isinstance(operand, float):
        p.fail(f"{operand!r} is a float, and BPF has integers only: {_NO_FLOATS}")
    return None


def _is_ipv4(operand: object) -> bool:
    return isinstance(operand, str) and operand.count(".") == 3 and operand.replace(".", "").isdigit()


def _divide(p: ProgramBuilder, operator: str, left: Int, right: Int) -> Int:
    if right.literal == 0:
        p.fail(f"{left.describe()} {operator} 0: division by zero")
    type_ = U64 if U64 in (left.type, right.type) else S64
    if type_ == U64 and any(side.type == S64 and p.b.bounds(side.value)[0] < 0 for side in (left, right)):
        p.fail(
            f"{operator} of a u64 and an s64 that may be negative: write u64(x) to divide as unsigned, "
            "or s64(y) to divide as signed"
        )
    return Int(divide(p, operator, left.value, right.value, right.literal, unsigned=type_ == U64), type_)


def _shift(p: ProgramBuilder, operator: str, left: Int, right: Int) -> Int:
    count = right.literal
    if count is not None and not 0 <= count <= _HIGHEST_SHIFT:
        p.fail(f"shift by {count}: a constant count is 0 to 63 (one known only at run time is taken modulo 64)")
    low, high = p.b.bounds(left.value)
    if operator == "<<":
        value = p.b.binary(Op.SHL, left.value, right.value)
        type_ = U64 if U64 in (left.type, right.type) else S64
    else:
        # Of a number that is not negative both shifts say the same, and verifiers know more after the logical one.
        value = p.b.binary(Op.LSHR if left.type == U64 or low >= 0 else Op.ASHR, left.value, right.value)
        type_ = left.type
    least, most = p.b.bounds(right.value)
    counts = (least, most) if least >= 0 and most <= _HIGHEST_SHIFT else None
    found = ranges.shift(operator, (low, high), counts, unsigned=left.type == U64)
    if found is not None:
        p.b.assume_bounds(value, *found)
    return Int(value, type_)


def relation(p: ProgramBuilder, operator: str, left: Int, right: Int) -> Test:
    """`left operator right`, mathematically exact whatever the signs."""
    bounds = p.b.bounds
    if (left.type == U64 or bounds(left.value)[0] >= 0) and (right.type == U64 or bounds(right.value)[0] >= 0):
        return Compare(_UNSIGNED[operator], left.value, right.value)
    if left.type == right.type:
        return Compare(_SIGNED[operator], left.value, right.value)
    if left.type == U64:
        return relation(p, MIRRORED[operator], right, left)
    # s64 against u64: a negative number is below every unsigned one.
    zero = p.b.const(0)
    unsigned = Compare(_UNSIGNED[operator], left.value, right.value)
    if operator in ("<", "<=", "!="):
        return AnyOf((Compare(Relation.SLT, left.value, zero), unsigned))
    return All((Compare(Relation.SGE, left.value, zero), unsigned))


def choose(p: ProgramBuilder, operator: str, left: Int, right: Int) -> Int:
    """`left if left operator right else right`, for `<=` (the smaller) and `>=` (the greater)."""
    b = p.b
    (a, c), (d, e) = b.bounds(left.value), b.bounds(right.value)
    answer = b.variable(hint="chosen")
    with b.if_(relation(p, operator, left, right)):
        b.write(answer, b.emit(Op.REFINE, left.value))
    with b.else_():
        b.write(answer, b.emit(Op.REFINE, right.value))
    value = b.read_final(answer)
    type_ = U64 if U64 in (left.type, right.type) else S64
    if type_ == S64 or min(a, d) >= 0:
        pick = min if operator == "<=" else max
        b.assume_bounds(value, pick(a, d), pick(c, e))
    elif operator == "<=" and (d >= 0 if left.type == U64 else a >= 0):
        # The smaller of a u64 and of a number that is not negative is no more than that one.
        b.assume_bounds(value, 0, e if left.type == U64 else c)
    return Int(value, type_)


def read_int(p: ProgramBuilder, address: ir.Value, offset: int, type_: IntType) -> Int:
    """Load an integer as s64, or as u64 where it takes all of the 64 bits."""
    value = p.b.load(address, offset, type_.size, signed=type_.signed)
    if type_.big_endian and not p.keeps_byte_order:
        value = p.b.emit(Op.SWAP, value, size=type_.size)
    if type_.size < U64.size:
        p.b.assume_bounds(value, type_.minimum, type_.maximum)
    if type_.size == U64.size:
        return Int(value, S64 if type_.signed else U64)
    return Int(value, S64, type_)
