"""The evaluator: exact 64-bit arithmetic, and the verifier's refusals."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, strategies as st

from pyebpf.compiler import ir
from pyebpf.compiler.arithmetic import BINARY, compare, sign_extend, swap
from pyebpf.compiler.evaluator import EvaluationError, MapHandle, Pointer, Region, evaluate
from pyebpf.compiler.ir import Branch, Condition, Jump, MayGoto, Op, Return, Value, ValueType
from tests.compiler.support import CTX, MASK, Builder

WORD = st.integers(0, MASK) | st.sampled_from([0, 1, 2, 63, 64, 1 << 31, 1 << 32, 1 << 63, MASK, MASK - 1])


def s64(number: int) -> int:
    return number - (1 << 64) if number >> 63 else number


def truncated(a: int, b: int) -> int:
    """C's quotient: toward zero."""
    return -(-a // b) if (a < 0) != (b < 0) else a // b


@given(WORD, WORD)
def test_binary_ops_are_those_of_the_instruction_set(a: int, b: int) -> None:
    """Every two-operand op gives what RFC 9669 says, division by 0 and the most negative number included."""
    sa, sb = s64(a), s64(b)
    expected = {
        Op.ADD: a + b,
        Op.SUB: a - b,
        Op.MUL: a * b,
        Op.UDIV: a // b if b else 0,
        Op.UMOD: a % b if b else a,
        Op.SDIV: truncated(sa, sb) if b else 0,
        Op.SMOD: sa - sb * truncated(sa, sb) if b else sa,
        Op.AND: a & b,
        Op.OR: a | b,
        Op.XOR: a ^ b,
        Op.SHL: a << b % 64,
        Op.LSHR: a >> b % 64,
        Op.ASHR: sa >> b % 64,
    }
    assert {op: run(a, b) for op, run in BINARY.items()} == {op: value & MASK for op, value in expected.items()}


@given(WORD, WORD)
def test_conditions(a: int, b: int) -> None:
    """Signed and unsigned relations, and the test of common bits."""
    sa, sb = s64(a), s64(b)
    expected = [a == b, a != b, a < b, a <= b, a > b, a >= b, sa < sb, sa <= sb, sa > sb, sa >= sb, a & b != 0]
    assert [compare(condition, a, b) for condition in Condition] == expected


def test_extension_and_swapping() -> None:
    """Extension repeats the highest bit; a swap reverses the low bytes and clears the others."""
    assert sign_extend(0x1234_80, 1) == MASK - 0x7F
    assert sign_extend(0x1234_7F, 1) == 0x7F
    assert swap(0x1122_3344_5566_7788, 4) == 0x8877_6655
    assert swap(0x1122_3344_5566_7788, 8) == 0x8877_6655_4433_2211


def outcome(b: Builder, *arguments: Any, **more: Any) -> Any:
    return evaluate(b.module(), arguments or (Pointer(Region.of("ctx", bytes(16)), 0),), **more)


def slot_access(imm: int, size: int, *, store: bool = False) -> Builder:
    b = Builder(slots=(ir.Slot("key", 6),))
    slot = b.emit(Op.SLOT, symbol="key", result=ValueType.POINTER)
    if store:
        b.emit(Op.STORE, slot, b.const(7), imm=imm, size=size, result=None)
    b.end(Return(b.emit(Op.LOAD, slot, imm=imm, size=size)))
    return b


REFUSED = {
    r"load %1 size 4: read of 4 bytes at 0 of key, not all written$": lambda: outcome(slot_access(0, 4)),
    r"load %1 size 4 imm 4: read of 4 bytes at 4 of key, which has 6$": lambda: outcome(slot_access(4, 4)),
    r"store %1, %2 size 4 imm 3: write of 4 bytes at 3 of key, which has 6$": lambda: outcome(
        slot_access(3, 4, store=True)
    ),
    r"load %1 size 4 imm -1: read of 4 bytes at -1 of key": lambda: outcome(slot_access(-1, 4)),
}


@pytest.mark.parametrize("message", REFUSED)
def test_bounds_and_initialisation(message: str) -> None:
    """An access outside memory or to unwritten bytes says which instruction, place and region."""
    with pytest.raises(EvaluationError, match=message):
        REFUSED[message]()


def test_null_and_arithmetic_on_addresses() -> None:
    """NULL can't be read through, an address can't be multiplied, and read-only memory not be written."""
    b = Builder()
    b.end(Return(b.load(0)))
    with pytest.raises(EvaluationError, match="access through NULL"):
        outcome(b, 0)
    b = Builder()
    stored = b.emit(Op.STORE, CTX, b.const(1), result=None)
    b.end(Return(b.emit(Op.LOAD, stored)))
    with pytest.raises(EvaluationError, match="write to ctx, which is read-only"):
        outcome(b, Pointer(Region.of("ctx", bytes(8), writable=False), 0))
    b = Builder((Value(0),))
    b.end(Return(b.emit(Op.MUL, Value(0), Value(0))))
    with pytest.raises(EvaluationError, match="arithmetic on an address"):
        outcome(b, Pointer(Region.of("ctx", bytes(8)), 0))


def test_an_endless_loop_ends() -> None:
    """The step limit stops it."""
    b = Builder()
    b.end(Jump(1))
    b.end(Jump(1))
    with pytest.raises(EvaluationError, match="main block 1: no end in sight"):
        outcome(b, step_limit=1009)


def test_addresses_survive_in_memory() -> None:
    """An address stored to the stack is an address when read back, and no longer one when part of it is overwritten."""
    for spoil, expected in ((False, 0x0706_0504_0302_0100), (True, None)):
        b = Builder(slots=(ir.Slot("p", 8),))
        slot = b.emit(Op.SLOT, symbol="p", result=ValueType.POINTER)
        b.emit(Op.STORE, slot, CTX, result=None)
        if spoil:
            b.emit(Op.STORE, slot, b.const(0), imm=3, size=1, result=None)
        again = b.emit(Op.LOAD, slot, result=ValueType.POINTER)
        b.end(Return(b.emit(Op.LOAD, again)))
        context = Pointer(Region.of("ctx", bytes(range(8))), 0)
        if expected is None:
            with pytest.raises(EvaluationError, match="access through NULL"):
                outcome(b, context)
        else:
            assert outcome(b, context) == expected


def test_helpers_and_callbacks() -> None:
    """A helper gets its arguments and may call back into the program; kernel functions go by name."""
    b = Builder()
    function = b.emit(Op.FUNCTION, symbol="step", result=ValueType.POINTER)
    table = b.emit(Op.MAP, symbol="counts", result=ValueType.MAP)
    total = b.emit(Op.CALL, b.const(5), function, table, imm=181)
    more = b.emit(Op.CALL_KFUNC, total, symbol="bpf_double", imm=7)
    b.end(Return(b.emit(Op.CALL_LOCAL, more, symbol="step")))
    step = Builder((Value(0),))
    step.end(Return(step.emit(Op.MUL, Value(0), step.const(3))))
    module = ir.Module((b.function(), step.function("step")))

    def loop(evaluator: Any, count: int, callback: MapHandle, handle: MapHandle) -> int:
        assert handle == MapHandle("counts")
        return sum(evaluator.call(callback.name, (i,)) for i in range(count))

    answer = evaluate(module, [0], helpers={181: loop}, kfuncs={"bpf_double": lambda _, x: 2 * x})
    assert answer == 3 * 2 * 3 * (0 + 1 + 2 + 3 + 4)
    with pytest.raises(EvaluationError, match="no helper 181 was given"):
        evaluate(module, [0])


def test_recursion_stops_where_the_kernel_stops() -> None:
    """The ninth frame is refused."""
    b = Builder((Value(0),))
    b.end(Return(b.emit(Op.CALL_LOCAL, Value(0), symbol="main")))
    with pytest.raises(EvaluationError, match="more than 8 deep"):
        outcome(b, 1)


def test_values_of_maps_are_addressed() -> None:
    """MAP_VALUE points into the region that the caller gives; comparison of its addresses goes by offset."""
    b = Builder()
    first = b.emit(Op.MAP_VALUE, symbol="state", imm=4, result=ValueType.POINTER)
    end = b.emit(Op.MAP_VALUE, symbol="state", imm=8, result=ValueType.POINTER)
    b.emit(Op.ATOMIC, first, b.const(41), symbol="add", size=4, result=None)
    b.end(Branch(Condition.ULT, first, end, 1, 2))
    b.end(Return(b.emit(Op.LOAD, first, size=4)))
    b.end(Return(b.const(0)))
    state = Region.of("state", bytes.fromhex("0000000001000000"))
    assert outcome(b, values={"state": state}) == 42


def test_the_budget_of_loops_is_spent_by_each_call_of_its_own() -> None:
    """`may_goto` stays in the loop `loop_limit` times, in every call of a function anew."""
    callee = Builder((Value(0),))
    callee.end(Jump(1, (callee.const(0),)))
    rounds = callee.value()
    callee.end(MayGoto(3, 2), [rounds])
    callee.end(Jump(1, (callee.emit(Op.ADD, rounds, callee.const(1)),)))
    callee.end(Return(rounds))
    main = Builder()
    calls = [main.emit(Op.CALL_LOCAL, main.const(0), symbol="spin") for _ in range(2)]
    main.end(Return(main.emit(Op.ADD, *calls)))
    module = ir.Module((main.function(), callee.function("spin")))
    context = Pointer(Region.of("ctx", bytes(64)), 0)
    assert evaluate(module, [context], loop_limit=41) == 82
    with pytest.raises(EvaluationError, match="no end in sight"):
        evaluate(module, [context])
