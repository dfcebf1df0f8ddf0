"""Rewrite operations that the target's instruction set lacks with instructions that it has.

Signed division, sign-extending moves and sign-extending loads came together (Linux commit 7dd41be0a5f2 and its
series, in v6.6), but each is asked for by itself: distributions backport. No expansion branches, so none costs the
verifier a state.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyebpf.compiler.ir import Op
from pyebpf.compiler.passes.patterns import ANY
from pyebpf.compiler.passes.rewriting import Rewriter, rule, table
from pyebpf.dataclass import replace

if TYPE_CHECKING:
    from pyebpf.compiler.features import Features
    from pyebpf.compiler.ir import Function, Value


def _magnitude(r: Rewriter, x: Value) -> tuple[Value, Value]:
    """The sign of x as 0 or -1, and |x|, which is below or equal to 2^63."""
    sign = r.emit(Op.ASHR, x, r.const(63))
    return sign, r.emit(Op.SUB, r.emit(Op.XOR, x, sign), sign)


def _signed_quotient(r: Rewriter, x: Value, y: Value) -> Value:
    """|x| / |y|, negated if the signs differ; by 0 it is 0, as it shall be."""
    sign_x, size_x = _magnitude(r, x)
    sign_y, size_y = _magnitude(r, y)
    sign = r.emit(Op.XOR, sign_x, sign_y)
    return r.emit(Op.SUB, r.emit(Op.XOR, r.emit(Op.UDIV, size_x, size_y), sign), sign)


def _signed_remainder(r: Rewriter, x: Value, y: Value) -> Value:
    """|x| % |y| with the sign of x; by 0 it is x."""
    sign, size_x = _magnitude(r, x)
    _, size_y = _magnitude(r, y)
    return r.emit(Op.SUB, r.emit(Op.XOR, r.emit(Op.UMOD, size_x, size_y), sign), sign)


def _shift_sign(r: Rewriter, x: Value, size: int) -> Value:
    """Up until the sign is the highest bit, and down again."""
    distance = r.const(64 - 8 * size)
    return r.emit(Op.ASHR, r.emit(Op.SHL, x, distance), distance)


def _load_unsigned(r: Rewriter, p: Value) -> Value | None:
    load = r.current
    if not load.signed or load.size == 8:
        return None
    assert load.result is not None
    low = replace(load, signed=False, result=replace(load.result, number=r.fresh()))
    r.keep(low)
    assert low.result is not None
    assert p is load.operands[0]
    return r.emit(Op.SEXT, low.result, size=load.size)


#: Features that the target may lack, and what to write instead.
LACKING = {
    "isa:sdiv": (
        rule(Op.SDIV, (ANY("x"), ANY("y")), _signed_quotient),
        rule(Op.SMOD, (ANY("x"), ANY("y")), _signed_remainder),
    ),
    "isa:ldsx": (rule(Op.LOAD, (ANY("p"),), _load_unsigned),),
    "isa:movsx": (rule(Op.SEXT, (ANY("x"),), lambda r, x: _shift_sign(r, x, r.current.size)),),
}


def legalize(function: Function, target: Features) -> Function:
    """Replace the ops that `target` lacks."""
    # A target may have to try a feature out: ask for what the function uses only.
    used = {
        instruction.op
        for block in function.blocks
        for instruction in block.instructions
        if instruction.op is not Op.LOAD or (instruction.signed and instruction.size < 8)
    }
    asked = {feature: entries for feature, entries in LACKING.items() if used & {entry.op for entry in entries}}
    lacking = [feature for feature in asked if not target.has(feature)]
    if "isa:ldsx" in lacking and "isa:movsx" not in asked and not target.has("isa:movsx"):
        lacking.append("isa:movsx")
    rules = [entry for feature in lacking for entry in LACKING[feature]]
    if not rules:
        return function
    return Rewriter(function, table(*rules)).run()
