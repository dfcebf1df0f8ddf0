"""Slots that share memory: those that are never needed at the same time, in functions that would not fit otherwise."""

from __future__ import annotations

import random
import time

import pytest

from pyebpf.compiler import compile_with_report, ir
from pyebpf.compiler.ir import Branch, Condition, Jump, Op, Return, ValueType
from pyebpf.compiler.slots import share_slots
from pyebpf.errors import CompileError
from tests.compiler.support import NEWEST, Builder


def slots(*sizes: int) -> tuple[ir.Slot, ...]:
    return tuple(ir.Slot(f"s{index}", size) for index, size in enumerate(sizes))


def access(b: Builder, name: str) -> ir.Value:
    """Write a slot, and give its address."""
    address = b.emit(Op.SLOT, symbol=name, result=ValueType.POINTER)
    b.emit(Op.STORE, address, b.const(1), result=None)
    return address


def test_one_after_the_other() -> None:
    """The memory of a slot after its last access is the next one's; a larger one takes it, too."""
    b = Builder(slots=slots(16, 40, 8))
    for name in ("s0", "s1", "s2"):
        access(b, name)
        access(b, name)
    b.end(Return(b.const(0)))
    assert share_slots(b.function()) == ({"s0": -16, "s1": -40, "s2": -8}, 40)


def test_at_the_same_time() -> None:
    """Between the first access and the last no other slot is there, nor in an instruction that has both."""
    b = Builder(slots=slots(16, 40, 8))
    access(b, "s0")
    second = access(b, "s1")
    first = access(b, "s0")
    b.emit(Op.CALL, first, second, access(b, "s2"), imm=5, result=None)
    b.end(Return(b.const(0)))
    assert share_slots(b.function())[1] == 64


@pytest.mark.parametrize("way", ["stored", "kfunc", "local", "returned"])
def test_an_address_that_is_given_away(way: str) -> None:
    """Whoever has it may come back to it: the slot is needed everywhere."""
    b = Builder(slots=slots(16, 16, 16))
    given = access(b, "s0")
    if way == "stored":
        b.emit(Op.STORE, ir.Value(0), given, result=None)
    elif way != "returned":
        b.emit(Op.CALL_KFUNC if way == "kfunc" else Op.CALL_LOCAL, given, symbol="other", result=None)
    access(b, "s1")
    access(b, "s2")
    b.end(Return(given if way == "returned" else b.const(0)))
    offsets, size = share_slots(b.function())
    assert size == 32
    assert offsets["s1"] == offsets["s2"] != offsets["s0"]


def test_in_a_loop() -> None:
    """What two rounds may access is needed all through the loop; what comes before or after it is not."""
    b = Builder(slots=slots(16, 16, 16, 16))
    access(b, "s0")
    b.end(Jump(1))
    access(b, "s1")
    access(b, "s2")
    b.end(Branch(Condition.EQ, b.load(0), b.const(0), 2, 3))
    b.end(Jump(1))
    access(b, "s3")
    b.end(Return(b.const(0)))
    offsets, size = share_slots(b.function())
    assert size == 32
    assert offsets["s1"] != offsets["s2"]


def test_addresses_that_meet() -> None:
    """A block's parameter may be an address in either slot: both are needed up to there."""
    b = Builder(slots=slots(16, 16, 16))
    first, second = access(b, "s0"), access(b, "s1")
    b.end(Branch(Condition.EQ, b.load(0), b.const(0), 1, 2))
    b.end(Jump(3, (first,)))
    b.end(Jump(3, (b.emit(Op.OFFSET, second, b.const(8)),)))
    either = b.value(ValueType.POINTER)
    access(b, "s2")
    b.emit(Op.LOAD, either)
    b.end(Return(b.const(0)), [either])
    assert share_slots(b.function())[1] == 48


def test_only_what_would_not_fit_shares() -> None:
    """Functions that fit keep each slot apart; of the others those that still do not are refused as before."""

    def frame(*sizes: int, together: bool = False) -> int:
        b = Builder(slots=slots(*sizes))
        addresses = [access(b, f"s{index}") for index in range(len(sizes))]
        b.emit(Op.CALL, *(addresses if together else addresses[-1:]), imm=5, result=None)
        b.end(Return(b.const(0)))
        return compile_with_report(b.module(), NEWEST, check=True).frames[0]

    assert frame(240, 256) == 496
    assert frame(240, 256, 24) == 256
    with pytest.raises(CompileError, match="main needs 520 bytes of stack"):
        frame(240, 256, 24, together=True)


def test_random_slots_keep_what_they_hold() -> None:
    """Whatever the order of accesses, no slot is written where another one holds what is read later."""
    for seed in range(200):
        choose = random.Random(seed)
        b = Builder(slots=slots(*(choose.choice((1, 4, 8, 12, 24)) for _ in range(7))))
        order = [choose.randrange(7) for _ in range(20)]
        for index in order:
            access(b, f"s{index}")
        b.end(Return(b.const(0)))
        offsets, size = share_slots(b.function())
        sizes = {slot.name: slot.size for slot in b.slots}
        holds: dict[int, str] = {}
        for index in order:
            name = f"s{index}"
            bytes_ = range(offsets[name], offsets[name] + sizes[name])
            assert -size <= bytes_[0]
            assert bytes_[-1] < 0
            if name in holds.values():
                assert all(holds.get(each) == name for each in bytes_)
            holds.update(dict.fromkeys(bytes_, name))


def test_time_is_near_linear() -> None:
    """Eight times the slots, in as many blocks, take less than thirty times the time to share."""

    def seconds(count: int) -> float:
        b = Builder(slots=slots(*[8] * count))
        for number in range(count):
            here = len(b.blocks)
            b.end(Branch(Condition.EQ, access(b, f"s{number}"), b.const(0), here + 1, here + 2))
            b.end(Jump(here + 2))
        b.end(Return(b.const(0)))
        function = b.function()
        begin = time.process_time()
        assert share_slots(function)[1] == 8
        return time.process_time() - begin

    seconds(10)
    # The best of some: Python's collector, which other tests' objects keep busy, falls into any of them.
    few, many = (min(seconds(count) for _ in range(5)) for count in (300, 2_400))
    assert many < 30 * max(few, 0.001)
