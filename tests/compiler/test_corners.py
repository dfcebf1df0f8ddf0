"""Every operation with every kind of constant, width and neighbour: where rules and encodings end.

Random functions seldom meet these; each test here was once the only one to notice some change to the source. A function
computes a row of values from the context's words and mixes them; the evaluator runs it as it stands, the interpreter
runs what both targets' compilers make of it.
"""

from __future__ import annotations

import struct

import pytest

from pyebpf.compiler import ir
from pyebpf.compiler.arithmetic import BINARY
from pyebpf.compiler.ir import Branch, Condition, Jump, Op, Return, ValueType
from pyebpf.compiler.passes.stores import store_early
from tests.compiler.random_ir import JIFFIES
from tests.compiler.support import CTX, MASK, NEWEST, OLDEST, Builder, run
from tests.compiler.test_compiled_code import interpreted

#: Ends of what fits an immediate, powers of two, masks, counts of shifts.
CONSTANTS = (
    0, 1, 2, 3, 31, 32, 33, 63, 64, 65, 127, 128, 255, 256, 0x7FFF, 0x8000, 0xFFFF, 0x1_0000, 0x7FFF_FFFF, 0x8000_0000,
    0xFFFF_FFFE, 0xFFFF_FFFF, 0x1_0000_0000, 1 << 62, (1 << 63) - 1, 1 << 63, -1, -2, -7, -8, -0x8000_0000,
    -0x8000_0001, -(1 << 63),
)  # fmt: skip
WORDS = (
    (0, 1, 2, 3), (MASK, MASK - 1, 1 << 63, (1 << 63) - 1), (255, 256, 128, 127), (0xFFFF, 0x1_0000, 0x8000, 0x7FFF),
    (0xFFFF_FFFF, 1 << 32, 0x8000_0000, 0x7FFF_FFFF), (0x0123_4567_89AB_CDEF, 0xFEDC_BA98_7654_3210, 64, 63),
)  # fmt: skip


class Mixer(Builder):
    """A function of one number that every value of a row counts in."""

    total: ir.Value | None = None

    def mix(self, *values: ir.Value) -> None:
        """At once, so that none lives longer than it must."""
        for value in values:
            if self.total is None:
                self.total = value
            else:
                product = self.emit(Op.MUL, self.total, self.const(0x9E37_79B9_7F4A_7C15))
                self.total = self.emit(Op.XOR, product, value)

    def done(self) -> ir.Module:
        """Return what was mixed."""
        assert self.total is not None
        self.end(Return(self.total))
        return self.module()


def agree(module: ir.Module) -> None:
    for words in WORDS:
        context = struct.pack("<8Q", *words, *reversed(words))
        expected = run(module, context)
        for target in (NEWEST, OLDEST):
            assert interpreted(module, target, context) == expected, (target is NEWEST, words)


@pytest.mark.parametrize("op", BINARY, ids=lambda op: op.name)
def test_an_operation_with_every_constant(op: Op) -> None:
    """On either side; and twice in a row, as rules join neighbours."""
    b = Mixer()
    word, other = b.load(0), b.load(1)
    for constant in CONSTANTS:
        b.mix(b.emit(op, word, b.const(constant)))
        b.mix(b.emit(op, b.const(constant), other))
        b.mix(b.emit(op, b.emit(op, other, b.const(7)), b.const(constant)))
    agree(b.done())


@pytest.mark.parametrize("condition", Condition, ids=lambda condition: condition.name)
@pytest.mark.parametrize("size", [1, 2, 4, 8])
def test_a_comparison_with_every_constant(condition: Condition, size: int) -> None:
    """Of a number of which so many bytes are known to be zero above."""
    b = Mixer()
    word = b.load(0, size=size)
    for constant in (*CONSTANTS, (1 << 8 * size) - 1, 1 << 8 * size & MASK, (1 << 8 * size) - 2):
        less = b.emit(Op.COMPARE, word, b.const(constant), condition=condition)
        b.mix(less, b.emit(Op.COMPARE, b.const(constant), word, condition=condition))
        b.mix(b.emit(Op.COMPARE, less, b.const(constant & 3), condition=Condition.EQ))
        b.mix(b.emit(Op.COMPARE, less, b.const(constant & 3), condition=Condition.NE))
    agree(b.done())


@pytest.mark.parametrize("condition", Condition, ids=lambda condition: condition.name)
def test_a_branch_on_every_constant(condition: Condition) -> None:
    """On the number, on a comparison of it, on some of its bits, on itself; with the constant on either side."""
    b = Builder()
    word, narrow = b.load(0), b.load(1, size=1)
    total = b.const(0)
    parameters: tuple[ir.Value, ...] = ()
    for number, constant in enumerate(CONSTANTS):
        left, right, relation = word, b.const(constant), condition
        match number % 5:
            case 0:
                left, right = right, left
            case 1:
                left = narrow
            case 2:
                left, right = b.emit(Op.COMPARE, word, right, condition=condition), b.const(number & 1)
                relation = (Condition.EQ, Condition.NE)[number >> 1 & 1]
            case 3:
                left, right = b.emit(Op.AND, word, right), b.const(0)
                relation = (Condition.EQ, Condition.NE)[number & 1]
        first = 3 * number
        b.end(Branch(relation, left, right, first + 1, first + 2), parameters)
        for step in (2 * number + 3, 5):
            b.end(Jump(first + 3, (b.emit(Op.ADD, b.emit(Op.MUL, total, b.const(31)), b.const(step)),)))
        total = b.value()
        parameters = (total,)
    b.end(Return(total), parameters)
    agree(b.module())


def test_extensions_of_extensions() -> None:
    """Of all widths, signed or not, of a word, of a narrower load, of bytes swapped, twice."""
    for size in (1, 2, 4):
        for signed in (False, True):
            b = Mixer()
            sources = [b.load(0), b.load(1, size=size, signed=signed), b.emit(Op.SWAP, b.load(2), size=4)]
            sources.append(b.emit(Op.AND, b.load(3), b.const((1 << 8 * size - 1) - 1)))
            for source in sources:
                b.mix(b.emit(Op.SWAP, b.emit(Op.SWAP, source, size=2 * size), size=2 * size))
                for first in (Op.SEXT, Op.ZEXT):
                    once = b.emit(first, source, size=size)
                    b.mix(once)
                    for second in (Op.SEXT, Op.ZEXT):
                        b.mix(*(b.emit(second, once, size=other) for other in (1, 2, 4)))
            agree(b.done())


@pytest.mark.parametrize("count", [1, 31, 32, 33, 62, 63])
def test_shifts_in_a_row(count: int) -> None:
    """Counts add up until nothing is left; a count is taken modulo 64 before."""
    b = Mixer()
    word = b.load(0)
    for op in (Op.SHL, Op.LSHR, Op.ASHR):
        for other in (0, 1, 63 - count, 64 - count, 65 - count, 63, 64, 64 + count):
            b.mix(b.emit(op, b.emit(op, word, b.const(count)), b.const(other)))
    agree(b.done())


def test_stored_bytes_of_what_was_masked_or_extended() -> None:
    """A store needs no mask that keeps all it stores, and every mask that does not."""
    masks = (0x7F, 0xFF, 0x1FF, 0x7FFF, 0xFFFF, 0x7FFF_FFFF, 0xFFFF_FFFF, 0xFF00_FF00_FF00, -1, -256)
    for size in (1, 2, 4, 8):
        b = Mixer()
        word = b.load(0)
        for number, mask in enumerate(masks):
            b.emit(Op.STORE, CTX, b.emit(Op.AND, word, b.const(mask)), result=None, size=size, imm=8 + 8 * (number % 7))
            if number % 7 == 6:
                word = b.emit(Op.XOR, b.load(1), b.load(2))
        for number, width in enumerate((1, 2, 4)):
            for half, op in enumerate((Op.SEXT, Op.ZEXT)):
                place = 32 + 8 * ((2 * number + half) % 4)
                b.emit(Op.STORE, CTX, b.emit(op, word, size=width), result=None, size=size, imm=place)
        b.mix(*(b.load(n) for n in range(8)))
        agree(b.done())


@pytest.mark.parametrize("size", [1, 2, 4])
def test_a_load_that_is_extended_in_two_ways(size: int) -> None:
    """Only a load of which every use is one and the same extension may do that itself."""
    for uses in ("sz", "zs", "s+", "+s", "z+", "ss", "s.", ".s"):
        b = Mixer()
        loaded = b.load(0, size=size)
        for use in uses:
            if use in "sz":
                b.mix(b.emit(Op.SEXT if use == "s" else Op.ZEXT, loaded, size=size))
            elif use == "+":
                b.mix(b.emit(Op.ADD, loaded, b.const(1)))
        if "." in uses:  # a terminator is a use, too
            b.emit(Op.STORE, CTX, b.total, result=None, imm=8)
            b.total = loaded
        agree(b.done())


@pytest.mark.parametrize("size", [1, 2, 4, 8])
def test_constants_stored(size: int) -> None:
    """As an immediate where the instruction's 32 bits, extended, give those bytes."""
    b = Mixer(slots=(ir.Slot("row", 8 * len(CONSTANTS)),))
    row = b.emit(Op.SLOT, symbol="row", result=ValueType.POINTER)
    for number, constant in enumerate(CONSTANTS):
        b.emit(Op.STORE, row, b.const(constant), result=None, size=size, imm=8 * number)
    for number in range(len(CONSTANTS)):
        b.mix(b.emit(Op.LOAD, row, size=size, imm=8 * number))
    agree(b.done())


def test_an_access_as_far_as_its_offset_reaches_and_farther() -> None:
    """16 bits reach 32767: one byte more is an addition before the access."""
    for offset in (0x7FFF, 0x8000, -0x8000, -0x8001):
        b = Builder()
        far = b.emit(Op.OFFSET, CTX, b.const(-offset), result=ValueType.POINTER)
        b.end(Return(b.emit(Op.LOAD, b.emit(Op.REFINE, far, result=ValueType.POINTER), size=1, imm=offset)))
        context = bytes([77, *range(63)])
        assert run(b.module(), context)[0] == 77
        text = b.text()
        assert ("+ 32767)" in "".join(text) or "- 32768)" in "".join(text)) == (-0x8000 <= offset <= 0x7FFF), text


@pytest.mark.parametrize("size", [4, 8])
@pytest.mark.parametrize("name", ["add", "and", "or", "xor", "xchg"])
def test_atomic_operations(name: str, size: int) -> None:
    """With and without their old value."""
    b = Mixer(slots=(ir.Slot("cell", 16),))
    cell = b.emit(Op.SLOT, symbol="cell", result=ValueType.POINTER)
    b.emit(Op.STORE, cell, b.load(0), result=None)
    b.emit(Op.STORE, cell, b.load(1), result=None, imm=8)
    b.emit(Op.ATOMIC, cell, b.load(2), result=None, symbol=name, size=size)
    old = b.emit(Op.ATOMIC, cell, b.load(3), symbol=name, size=size, imm=8)
    b.mix(old, b.emit(Op.LOAD, cell), b.emit(Op.LOAD, cell, imm=8))
    agree(b.done())


def stored_late(*, between: str) -> Builder:
    """A value, a call, something that touches the slot where the value is then stored, and all that was read."""
    b = Builder(slots=(ir.Slot("a", 24),))
    slot = b.emit(Op.SLOT, symbol="a", result=ValueType.POINTER)
    for place in range(0, 24, 8):
        b.emit(Op.STORE, slot, b.load(2), result=None, imm=place)
    value = b.load(0)
    b.emit(Op.CALL, imm=JIFFIES, result=None)
    inner = b.emit(Op.SLOT, symbol="a", imm=8, result=ValueType.POINTER)
    match between:
        case "through an offset":
            far = b.emit(Op.OFFSET, slot, b.emit(Op.AND, b.load(3), b.const(0)), result=ValueType.POINTER)
            seen = b.emit(Op.LOAD, far, imm=8)
        case "first byte":
            seen = b.emit(Op.LOAD, slot, imm=8, size=1)
        case "last byte":
            seen = b.emit(Op.LOAD, slot, imm=11, size=1)
        case "through another address":
            seen = b.emit(Op.LOAD, inner, size=4)
        case _:
            seen = b.emit(Op.LOAD, slot, imm=12, size=4)
    b.emit(Op.STORE, slot, value, result=None, imm=8, size=4)
    b.end(Return(b.emit(Op.ADD, b.emit(Op.MUL, seen, b.const(31)), b.emit(Op.LOAD, inner))))
    return b


@pytest.mark.parametrize(
    "between", ["through an offset", "first byte", "last byte", "through another address", "beside"]
)
def test_a_store_moves_up_past_what_does_not_touch_its_bytes(between: str) -> None:
    """Not past a read of any of them, whichever way the address was made."""
    b = stored_late(between=between)
    before = b.function()
    after = store_early(before)
    assert (after == before) == (between != "beside")
    context = struct.pack("<8Q", *range(0x1111, 0x8889, 0x1111))
    assert run(ir.Module((after,)), context) == run(ir.Module((before,)), context)


def test_what_outlives_one_call_is_loaded_where_it_lasts() -> None:
    """Into r6 at once, not moved there before the call."""
    b = Builder()
    word = b.load(0)
    b.emit(Op.CALL, imm=JIFFIES, result=None)
    b.end(Return(word))
    assert b.text() == ["r6 = *(u64 *)(r1 + 0)", f"call {JIFFIES}", "r0 = r6", "exit"]
