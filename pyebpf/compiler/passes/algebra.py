"""Constant folding and algebra: a table of rewrites, each line its own proof.

`x s/ 2**k` and the like hold for all 64-bit operands; `tests/compiler` runs every rule on random ones.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyebpf.compiler.arithmetic import BINARY, MASK, compare, sign_extend, signed, swap
from pyebpf.compiler.ir import CONSTANTS, Branch, Condition, Jump, Op, ValueType
from pyebpf.compiler.passes.patterns import ANY, ANYTHING, BELOW, CONST, NUMBER, OF, POWER_OF_TWO, SAME
from pyebpf.compiler.passes.rewriting import EXCHANGED, INVERSE, Rewriter, rule, table

if TYPE_CHECKING:
    from pyebpf.compiler.ir import Function, Terminator, Value
    from pyebpf.compiler.passes.rewriting import Rule

_COMMUTATIVE = (Op.ADD, Op.MUL, Op.AND, Op.OR, Op.XOR)
_MASKS = {0xFF: 1, 0xFFFF: 2, 0xFFFF_FFFF: 4}
#: The result of each condition for equal operands.
_REFLEXIVE = frozenset({Condition.EQ, Condition.ULE, Condition.UGE, Condition.SLE, Condition.SGE})


def _fold(op: Op) -> Rule:
    return rule(op, (CONST("a"), CONST("b")), lambda r, a, b: r.const(BINARY[op](a, b)))


def _constant_last(op: Op) -> Rule:
    def exchange(r: Rewriter, a: int, b: Value) -> Value:
        return r.emit(op, b, r.const(a))

    return rule(op, (CONST("a"), ANY("b")), exchange)


def _rounding(r: Rewriter, x: Value, k: int) -> Value:
    """2**k - 1 if x is negative, else 0: what turns a floor into a quotient toward zero."""
    return r.emit(Op.LSHR, r.emit(Op.ASHR, x, r.const(63)), r.const(64 - k))


def _divide_signed(r: Rewriter, x: Value, k: int) -> Value | None:
    if k == 63:
        return None
    return r.emit(Op.ASHR, r.emit(Op.ADD, x, _rounding(r, x, k)), r.const(k))


def _remainder_signed(r: Rewriter, x: Value, k: int) -> Value | None:
    if k == 63:
        return None
    bias = _rounding(r, x, k)
    low = r.emit(Op.AND, r.emit(Op.ADD, x, bias), r.const((1 << k) - 1))
    return r.emit(Op.SUB, low, bias)


def _mask(r: Rewriter, x: Value, c: int) -> Value | None:
    # What only the compiler knows is said again: the mask may be there for the verifier.
    if c & (c + 1) == 0 and r.verified_bits(x) <= c.bit_length():
        return x
    return r.emit(Op.ZEXT, x, size=_MASKS[c]) if c in _MASKS else None


def _shift_left_twice(r: Rewriter, x: Value, a: int, b: int) -> Value:
    total = (a & 63) + (b & 63)
    return r.emit(Op.SHL, x, r.const(total)) if total < 64 else r.const(0)


def _shift_right_twice(r: Rewriter, x: Value, a: int, b: int) -> Value:
    total = (a & 63) + (b & 63)
    return r.emit(Op.LSHR, x, r.const(total)) if total < 64 else r.const(0)


def _extend_extended(r: Rewriter, x: Value, inner: int) -> Value:
    size = r.current.size
    return r.current.operands[0] if size >= inner else r.emit(Op.SEXT, x, size=size)


def _extend(r: Rewriter, x: Value) -> Value | None:
    definition = r.definitions.get(x.number)
    fits = definition is not None and definition.op is Op.LOAD and definition.signed
    if fits and definition is not None and definition.size <= r.current.size:
        return x
    return x if r.bits(x) < 8 * r.current.size else None


def _truncate(r: Rewriter, x: Value) -> Value | None:
    return x if r.verified_bits(x) <= 8 * r.current.size else None


def _truncate_extended(r: Rewriter, x: Value, inner: int) -> Value | None:
    return r.emit(Op.ZEXT, x, size=r.current.size) if r.current.size <= inner else None


def _swap_twice(r: Rewriter, x: Value, inner: int) -> Value | None:
    if inner != r.current.size:
        return None
    return x if inner == 8 else r.emit(Op.ZEXT, x, size=inner)


def _condition(r: Rewriter) -> Condition:
    condition = r.current.condition
    assert condition is not None
    return condition


def _known_comparison(condition: Condition, bits: int, c: int) -> bool | None:
    """Whether `x condition c` always or never holds, from how many bits x has."""
    if condition is Condition.SET:
        return None if c & ((1 << bits) - 1) else False
    least, most = 0, (1 << bits) - 1
    if bits == 64:
        if condition in (Condition.SLT, Condition.SLE, Condition.SGT, Condition.SGE):
            return None
    elif condition not in (Condition.EQ, Condition.NE):
        # Below 2^63 a number is the same signed and unsigned; above every such number the constant may be negative.
        signed_condition = condition in (Condition.SLT, Condition.SLE, Condition.SGT, Condition.SGE)
        c = signed(c) if signed_condition else c
    match condition:
        case Condition.EQ:
            return False if c > most else None
        case Condition.NE:
            return True if c > most else None
        case Condition.ULT | Condition.SLT:
            return True if most < c else False if least >= c else None
        case Condition.ULE | Condition.SLE:
            return True if most <= c else False if least > c else None
        case Condition.UGT | Condition.SGT:
            return True if least > c else False if most <= c else None
        case _:
            return True if least >= c else False if most < c else None


def _compare_constant(r: Rewriter, x: Value, c: int) -> Value | None:
    if x.type is not ValueType.SCALAR:
        return None
    known = _known_comparison(_condition(r), r.bits(x), c)
    return None if known is None else r.const(int(known))


def _unswapped(r: Rewriter, condition: Condition, x: Value, c: int) -> tuple[Value, int] | None:
    """`swap(x) == c` as `x == swap(c)`: bytes in network order are compared as they are."""
    definition = r.definitions.get(x.number)
    if condition not in (Condition.EQ, Condition.NE) or definition is None or definition.op is not Op.SWAP:
        return None
    (inner,), size = definition.operands, definition.size
    return (inner, swap(c, size)) if r.bits(inner) <= 8 * size and c >> 8 * size == 0 else None


def _compare_swapped(r: Rewriter, x: Value, c: int) -> Value | None:
    found = _unswapped(r, _condition(r), x, c)
    return None if found is None else r.emit(Op.COMPARE, found[0], r.const(found[1]), condition=_condition(r))


def _compare_exchanged(r: Rewriter, a: int, x: Value) -> Value:
    return r.emit(Op.COMPARE, x, r.const(a), condition=EXCHANGED[_condition(r)])


def _compare_same(r: Rewriter, **_: Value) -> Value | None:
    condition = _condition(r)
    return None if condition is Condition.SET else r.const(int(condition in _REFLEXIVE))


def _compare_comparison(r: Rewriter, a: Value, b: Value, c: int) -> Value | None:
    """`(a < b) != 0` is `a < b`, `(a < b) == 0` is `a >= b`."""
    condition = _condition(r)
    if c > 1 or condition not in (Condition.EQ, Condition.NE):
        return None
    x = r.current.operands[0]
    if (condition is Condition.NE) == (c == 0):
        return x
    inner = r.definitions[x.number].condition
    assert inner is not None
    return r.emit(Op.COMPARE, a, b, condition=INVERSE[inner]) if inner in INVERSE else None


def _offset_twice(r: Rewriter, p: Value, a: int, b: int) -> Value:
    return r.emit(Op.OFFSET, p, r.const(a + b), result=ValueType.POINTER)


def _offset_constant(r: Rewriter, p: Value, c: int) -> Value | None:
    """Into the address of a slot or of a map's value, if it stays inside."""
    definition = r.definitions.get(p.number)
    if definition is None or definition.op not in (Op.SLOT, Op.MAP_VALUE):
        return None
    imm = definition.imm + signed(c)
    most = r.slots[definition.symbol] if definition.op is Op.SLOT else 0x7FFF_FFFF
    if not 0 <= imm <= most:
        return None
    return r.emit(definition.op, result=ValueType.POINTER, symbol=definition.symbol, imm=imm)


def _refine_constant(r: Rewriter, x: Value) -> Value | None:
    definition = r.definitions.get(x.number)
    return x if definition is not None and definition.op in CONSTANTS else None


_ZERO, _ONE, _ONES = NUMBER(0), NUMBER(1), NUMBER(-1)
_, _X, _Y = ANYTHING, ANY("x"), ANY("y")

#: The rewrites, first match first.
RULES = (
    *(_fold(op) for op in BINARY),
    *(_constant_last(op) for op in _COMMUTATIVE),
    rule(Op.ADD, (_X, _ZERO), lambda _, x: x),  # x + 0  ->  x
    rule(Op.ADD, (OF(Op.ADD, _X, CONST("a")), CONST("b")), lambda r, x, a, b: r.emit(Op.ADD, x, r.const(a + b))),
    rule(Op.ADD, (_X, OF(Op.NEG, _Y)), lambda r, x, y: r.emit(Op.SUB, x, y)),  # x + -y  ->  x - y
    rule(Op.SUB, (_X, SAME("x")), lambda r, **_: r.const(0)),  # x - x  ->  0
    rule(Op.SUB, (_X, CONST("c")), lambda r, x, c: r.emit(Op.ADD, x, r.const(-c))),  # x - c  ->  x + -c
    rule(Op.SUB, (_ZERO, _X), lambda r, x: r.emit(Op.NEG, x)),  # 0 - x  ->  -x
    rule(Op.SUB, (_X, OF(Op.NEG, _Y)), lambda r, x, y: r.emit(Op.ADD, x, y)),  # x - -y  ->  x + y
    rule(Op.MUL, (_, _ZERO), lambda r: r.const(0)),  # x * 0  ->  0
    rule(Op.MUL, (_X, _ONE), lambda _, x: x),  # x * 1  ->  x
    rule(Op.MUL, (_X, _ONES), lambda r, x: r.emit(Op.NEG, x)),  # x * -1  ->  -x
    rule(Op.MUL, (_X, POWER_OF_TWO("k")), lambda r, x, k: r.emit(Op.SHL, x, r.const(k))),  # x * 2**k  ->  x << k
    rule(Op.UDIV, (_, _ZERO), lambda r: r.const(0)),  # x / 0  ->  0
    rule(Op.UDIV, (_X, _ONE), lambda _, x: x),  # x / 1  ->  x
    rule(Op.UDIV, (_X, POWER_OF_TWO("k")), lambda r, x, k: r.emit(Op.LSHR, x, r.const(k))),  # x / 2**k  ->  x >> k
    rule(Op.UMOD, (_X, _ZERO), lambda _, x: x),  # x % 0  ->  x
    rule(Op.UMOD, (_, _ONE), lambda r: r.const(0)),  # x % 1  ->  0
    rule(Op.UMOD, (_X, POWER_OF_TWO("k")), lambda r, x, k: r.emit(Op.AND, x, r.const((1 << k) - 1))),  # x & 2**k - 1
    rule(Op.SDIV, (_, _ZERO), lambda r: r.const(0)),  # x s/ 0  ->  0
    rule(Op.SDIV, (_X, _ONE), lambda _, x: x),  # x s/ 1  ->  x
    rule(Op.SDIV, (_X, _ONES), lambda r, x: r.emit(Op.NEG, x)),  # x s/ -1  ->  -x
    rule(Op.SDIV, (BELOW("x", 63), BELOW("y", 63)), lambda r, x, y: r.emit(Op.UDIV, x, y)),
    rule(Op.SDIV, (_X, POWER_OF_TWO("k")), _divide_signed),  # (x + (x s>> 63 >> 64 - k)) s>> k
    rule(Op.SMOD, (_X, _ZERO), lambda _, x: x),  # x s% 0  ->  x
    rule(Op.SMOD, (_, NUMBER(1, -1)), lambda r: r.const(0)),  # x s% ±1  ->  0
    rule(Op.SMOD, (BELOW("x", 63), BELOW("y", 63)), lambda r, x, y: r.emit(Op.UMOD, x, y)),
    rule(Op.SMOD, (_X, POWER_OF_TWO("k")), _remainder_signed),  # (x + b & 2**k - 1) - b, b = x s>> 63 >> 64 - k
    rule(Op.AND, (_, _ZERO), lambda r: r.const(0)),  # x & 0  ->  0
    rule(Op.AND, (_X, _ONES), lambda _, x: x),  # x & -1  ->  x
    rule(Op.AND, (_X, SAME("x")), lambda _, x: x),  # x & x  ->  x
    rule(Op.AND, (OF(Op.AND, _X, CONST("a")), CONST("b")), lambda r, x, a, b: r.emit(Op.AND, x, r.const(a & b))),
    rule(Op.AND, (_X, CONST("c")), _mask),  # x & 0xffff  ->  zext x; nothing if x has no other bits
    rule(Op.OR, (_X, _ZERO), lambda _, x: x),  # x | 0  ->  x
    rule(Op.OR, (_, _ONES), lambda r: r.const(-1)),  # x | -1  ->  -1
    rule(Op.OR, (_X, SAME("x")), lambda _, x: x),  # x | x  ->  x
    rule(Op.OR, (OF(Op.OR, _X, CONST("a")), CONST("b")), lambda r, x, a, b: r.emit(Op.OR, x, r.const(a | b))),
    rule(Op.XOR, (_X, _ZERO), lambda _, x: x),  # x ^ 0  ->  x
    rule(Op.XOR, (_X, SAME("x")), lambda r, **_: r.const(0)),  # x ^ x  ->  0
    rule(Op.XOR, (OF(Op.XOR, _X, CONST("a")), CONST("b")), lambda r, x, a, b: r.emit(Op.XOR, x, r.const(a ^ b))),
    rule(Op.SHL, (_X, NUMBER(0, 64)), lambda _, x: x),  # x << 0  ->  x
    rule(Op.SHL, (OF(Op.SHL, _X, CONST("a")), CONST("b")), _shift_left_twice),  # x << a + b
    rule(Op.LSHR, (_X, NUMBER(0, 64)), lambda _, x: x),  # x >> 0  ->  x
    rule(Op.LSHR, (OF(Op.LSHR, _X, CONST("a")), CONST("b")), _shift_right_twice),  # x >> a + b
    rule(Op.ASHR, (_X, NUMBER(0, 64)), lambda _, x: x),  # x s>> 0  ->  x
    rule(Op.ASHR, (BELOW("x", 63), _Y), lambda r, x, y: r.emit(Op.LSHR, x, y)),  # of what is not negative
    rule(Op.NEG, (CONST("a"),), lambda r, a: r.const(-a)),
    rule(Op.NEG, (OF(Op.NEG, _X),), lambda _, x: x),  # --x  ->  x
    rule(Op.NEG, (OF(Op.SUB, _X, _Y),), lambda r, x, y: r.emit(Op.SUB, y, x)),  # -(x - y)  ->  y - x
    rule(Op.SEXT, (CONST("a"),), lambda r, a: r.const(sign_extend(a, r.current.size))),
    rule(Op.SEXT, (OF(Op.SEXT, _X, size="inner"),), _extend_extended),  # the narrower of the two
    rule(Op.SEXT, (_X,), _extend),  # x, if its sign bit is clear or was extended by the load
    rule(Op.ZEXT, (CONST("a"),), lambda r, a: r.const(a & ((1 << 8 * r.current.size) - 1))),
    rule(Op.ZEXT, (_X,), _truncate),  # x, if it has no other bits
    rule(Op.ZEXT, (OF(Op.ZEXT, _X, size="inner"),), _truncate_extended),
    rule(Op.ZEXT, (OF(Op.SEXT, _X, size="inner"),), _truncate_extended),
    rule(Op.SWAP, (CONST("a"),), lambda r, a: r.const(swap(a, r.current.size))),
    rule(Op.SWAP, (OF(Op.SWAP, _X, size="inner"),), _swap_twice),
    rule(
        Op.COMPARE, (CONST("a"), CONST("b")), lambda r, a, b: r.const(int(compare(_condition(r), a & MASK, b & MASK)))
    ),
    rule(Op.COMPARE, (CONST("a"), _X), _compare_exchanged),
    rule(Op.COMPARE, (_X, SAME("x")), _compare_same),
    rule(Op.COMPARE, (OF(Op.COMPARE, ANY("a"), ANY("b")), CONST("c")), _compare_comparison),
    rule(Op.COMPARE, (_X, CONST("c")), _compare_constant),
    rule(Op.COMPARE, (_X, CONST("c")), _compare_swapped),
    rule(Op.OFFSET, (_X, _ZERO), lambda _, x: x),  # p + 0  ->  p
    rule(Op.OFFSET, (OF(Op.OFFSET, ANY("p"), CONST("a")), CONST("b")), _offset_twice),  # p + (a + b)
    rule(Op.OFFSET, (ANY("p"), CONST("c")), _offset_constant),
    rule(Op.FROM_BITS, (CONST("a"),), lambda r, a: r.const(a)),
    rule(Op.REFINE, (_X,), _refine_constant),  # of a constant nothing more can be known
)


_TABLE = table(*RULES)


def _branch(r: Rewriter, branch: Branch) -> Terminator:
    """Fold a branch: on a comparison, on constants, to one place."""
    condition, left, right = branch.condition, branch.left, branch.right
    then, otherwise = branch.then, branch.otherwise
    while True:
        a, b = r.number(left), r.number(right)
        if a is not None and b is None:
            condition, left, right, a, b = EXCHANGED[condition], right, left, b, a
        if then == otherwise:
            return Jump(then, (), branch.where)
        holds: bool | None = None
        if a is not None and b is not None:
            holds = compare(condition, a, b)
        elif left.number == right.number and condition is not Condition.SET:
            holds = condition in _REFLEXIVE
        elif b is not None and left.type is ValueType.SCALAR:
            # From what it is known to verifiers: the test may be there for them.
            holds = _known_comparison(condition, r.verified_bits(left), b)
        if holds is not None:
            return Jump(then if holds else otherwise, (), branch.where)
        inner = r.definitions.get(left.number)
        if inner is None or b is None or condition not in (Condition.EQ, Condition.NE):
            break
        unswapped = _unswapped(r, condition, left, b)
        if unswapped is not None:
            left, right = unswapped[0], r.const(unswapped[1])
            continue
        # A comparison's 1 or 0 tested again: test what it compared. Whether it equals more than 1 is known by now.
        if inner.op is not Op.COMPARE:
            break
        if (condition is Condition.NE) != (b == 0):
            then, otherwise = otherwise, then
        assert inner.condition is not None
        condition, (left, right) = inner.condition, inner.operands
    if left is branch.left and right is branch.right:
        return branch
    return Branch(condition, left, right, then, otherwise, branch.where)


def simplify(function: Function) -> Function:
    """Fold constants, apply the rules, drop block parameters that are always the same, test comparisons directly."""
    return Rewriter(function, _TABLE, _branch).run()
