"""Register allocation: right on random functions under pressure, and frugal."""

from __future__ import annotations

import random
import time

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from pyebpf.compiler import compile_module, compile_with_report, ir
from pyebpf.compiler.allocation_checker import check_allocation
from pyebpf.compiler.edges import allocate
from pyebpf.compiler.ir import Branch, Condition, Jump, Op, Return, ValueType
from pyebpf.compiler.selection import select
from pyebpf.errors import CompileError
from tests.compiler.random_ir import JIFFIES, random_module
from tests.compiler.support import CTX, NEWEST, OLDEST, Builder, seeded_module
from tests.compiler.test_compiled_code import interpreted


@settings(max_examples=40, suppress_health_check=list(HealthCheck))
@given(st.randoms(use_true_random=False), st.integers(5, 80), st.integers(2, 30), st.booleans())
def test_random_functions(chance: random.Random, size: int, pressure: int, old: bool) -> None:
    """The independent checker accepts every allocation, whatever the pressure."""
    module = random_module(chance.randrange, size=size, pressure=pressure)
    assert compile_module(module, OLDEST if old else NEWEST, check=True).instructions


def test_one_program_in_five_spills() -> None:
    """The random functions of these tests are hard enough: of 101 at least 21 keep a value in memory."""
    reports = [compile_with_report(seeded_module(seed), NEWEST, check=True) for seed in range(101)]
    assert sum(report.spilled for report in reports) >= 21


def alive_at_once(count: int, *, calls: bool) -> Builder:
    """`count` values loaded, a call perhaps, then all added up."""
    b = Builder()
    values = [b.load(n) for n in range(count)]
    if calls:
        b.emit(Op.CALL, imm=5, result=None)
    total = values[0]
    for value in values[1:]:
        total = b.emit(Op.ADD, b.emit(Op.MUL, total, b.const(3)), value)
    b.end(Return(total))
    return b


@pytest.mark.parametrize(
    ("count", "calls", "stores"), [(10, False, 0), (13, False, 3), (4, True, 0), (5, True, 1), (9, True, 5)]
)
def test_registers_are_used_before_memory(count: int, calls: bool, stores: int) -> None:
    """Ten registers for what lives between calls, four for what lives across one; beyond that one store a value.

    It is the values needed last that give way, the context not among them.
    """
    report = compile_with_report(alive_at_once(count, calls=calls).module(), NEWEST, check=True)
    assert (report.stores, report.loads) == (stores, stores)


def test_constants_are_never_kept() -> None:
    """Maps, slots and numbers are made again behind a call instead of being spilled."""
    b = Builder(slots=(ir.Slot("key", 8),))
    slot = b.emit(Op.SLOT, symbol="key", result=ValueType.POINTER)
    table = b.emit(Op.MAP, symbol="m", result=ValueType.MAP)
    big = b.const(0x1234_5678_9ABC_DEF0)
    others = [b.load(n) for n in range(4)]
    b.emit(Op.STORE, slot, big, result=None)
    for _ in range(3):
        b.emit(Op.CALL, table, slot, imm=1, result=None)
    total = big
    for value in others:
        total = b.emit(Op.XOR, total, value)
    b.end(Return(total))
    report = compile_with_report(b.module(), NEWEST, check=True)
    assert not report.spilled
    assert sum(i.op.name == "lddw_map" for i in report.code.instructions) == 3


def test_a_constant_in_a_register_is_not_kept_across_a_call() -> None:
    """It is made again behind the call, though registers that would last are free."""
    b = Builder()
    big = b.const(0x1234_5678_9ABC_DEF0)
    b.emit(Op.STORE, CTX, big, result=None)
    b.emit(Op.CALL, imm=JIFFIES, result=None)
    b.end(Return(big))
    made = "r0 = 0x123456789abcdef0 ll"
    assert b.text() == [made, "*(u64 *)(r1 + 0) = r0", f"call {JIFFIES}", made, "exit"]


def test_arguments_in_each_other_s_registers_are_exchanged() -> None:
    """Through r0, which is free before every call."""
    b = Builder((ir.Value(0), ir.Value(1)))
    b.end(Return(b.emit(Op.CALL, ir.Value(1), ir.Value(0), imm=JIFFIES)))
    assert b.text() == ["r0 = r1", "r1 = r2", "r2 = r0", f"call {JIFFIES}", "exit"]


def test_at_a_call_what_is_needed_last_gives_way() -> None:
    """Of five values and four registers it is the last one; the others stay where they are."""
    text = alive_at_once(5, calls=True).text()
    assert [line for line in text if line.startswith(("r6 = r", "r7 = r", "r8 = r", "r9 = r"))] == []


def test_a_spilled_value_is_stored_behind_its_definition() -> None:
    """Once, and never between a check and the use that relies on it."""
    b = alive_at_once(7, calls=True)
    text = b.text()
    stores = [index for index, line in enumerate(text) if line.startswith("*(u64 *)(r10")]
    assert len(stores) == 3
    for index in stores:
        register = text[index].rsplit(" ", 1)[1]
        assert text[index - 1].startswith(f"{register} = *(u64 *)(r1 +")


def test_a_refined_value_is_stored_behind_its_check() -> None:
    """Linux 6.1 forgets what it learned in a register of a value that was stored before: REFINE stores it anew."""
    b = Builder()
    index = b.load(0)
    b.end(Branch(Condition.UGE, index, b.const(64), 1, 2))
    b.end(Return(b.const(0)))
    refined = b.emit(Op.REFINE, index)
    values = [b.load(n) for n in range(1, 6)]
    b.emit(Op.CALL, imm=5, result=None)
    total = values[0]
    for value in values[1:]:
        total = b.emit(Op.ADD, total, value)
    b.end(Return(b.emit(Op.MUL, total, refined)))
    text = b.text()
    check = next(number for number, line in enumerate(text) if line.startswith("if "))
    assert all(number > check for number, line in enumerate(text) if line.startswith("*(u64 *)(r10"))


def test_slots_are_shared() -> None:
    """Values never alive together share a spill slot: three phases of one pressure need one phase's slots."""
    b = Builder()
    total = b.load(0)
    for _ in range(3):
        values = [b.load(n) for n in range(8)]
        b.emit(Op.CALL, imm=5, result=None)
        for value in values:
            total = b.emit(Op.ADD, b.emit(Op.MUL, total, b.const(3)), value)
    b.end(Return(total))
    report = compile_with_report(b.module(), NEWEST, check=True)
    # The context and the total live on, eight values come and go: ten at once, four of them in registers.
    assert report.slots == 6
    assert report.stores > 3 * 4


def test_a_loop_keeps_its_values_in_registers() -> None:
    """Counter, sum and bound stay in r6 to r9 around a loop with a call: no move, no memory inside."""
    b = Builder()
    bound = b.emit(Op.AND, b.load(0), b.const(15))
    zero = b.const(0)
    b.end(Jump(1, (zero, zero)))
    counter, total = b.value(), b.value()
    b.end(Branch(Condition.ULT, counter, bound, 2, 3), [counter, total])
    now = b.emit(Op.CALL, imm=5)
    more = b.emit(Op.ADD, total, now)
    b.end(Jump(1, (b.emit(Op.ADD, counter, b.const(1)), more)))
    b.end(Return(total))
    text = b.text()
    start, end = text.index("call 5"), next(n for n, line in enumerate(text) if line.startswith("if "))
    assert [line.split(" ", 1)[1] for line in text[start + 1 : end] if "goto" not in line] == ["+= r0", "+= 1"]
    assert not any("r10" in line for line in text)


def test_what_goes_around_a_loop_is_made_where_the_loop_wants_it() -> None:
    """Two numbers loaded between calls: each straight into the register that it has at the loop's beginning."""
    b = Builder()
    b.end(Jump(1, (b.load(0), b.load(1))))
    first, second = b.value(), b.value()
    b.end(Branch(Condition.EQ, first, second, 2, 3), [first, second])
    b.emit(Op.CALL, imm=JIFFIES, result=None)
    for place, value in enumerate((first, second), 2):
        b.emit(Op.STORE, CTX, value, result=None, imm=8 * place)
    low, high = b.load(4), b.load(5)
    b.emit(Op.CALL, imm=JIFFIES, result=None)
    b.end(Jump(1, (high, low)))
    b.end(Return(first))
    text = b.text()
    loop = text[text.index(f"call {JIFFIES}") :]
    assert [line for line in loop if line.startswith(("r6 = r", "r7 = r", "r8 = r", "r9 = r"))] == []


def crowded(kind: str) -> Builder:
    """An operation on two values spilled at a call, where all registers hold what is needed soon again."""
    b = Builder()

    def mixed(values: list[ir.Value]) -> ir.Value:
        total = values[0]
        for value in values[1:]:
            total = b.emit(Op.XOR, b.emit(Op.MUL, total, b.const(3)), value)
        return total

    at_memory = kind in ("store", "atomic")
    left = b.load(0)
    if at_memory:
        left = b.emit(Op.OFFSET, CTX, b.emit(Op.AND, left, b.const(0xF8)), result=ValueType.POINTER)
    right = b.load(1)
    near = [b.load(n) for n in range(4)]
    b.emit(Op.CALL, imm=JIFFIES, result=None)
    values = [mixed(near), *(b.load(n) for n in range(8))]
    values.append(mixed(values))
    match kind:
        case "arithmetic":
            values.append(b.emit(Op.SUB, left, right))
        case "comparison":
            values.append(b.emit(Op.COMPARE, left, right, condition=Condition.SLT))
        case "store":
            b.emit(Op.STORE, left, right, result=None, imm=8)
        case "atomic":
            values.append(b.emit(Op.ATOMIC, left, right, symbol="add", imm=8))
        case _:
            b.end(Branch(Condition.SLT, left, right, 1, 2))
            b.end(Return(b.const(7)))
    total = mixed([right, *values] if at_memory else [right, *values, left])
    if at_memory:
        b.emit(Op.STORE, left, total, result=None)
    b.end(Return(total))
    return b


@pytest.mark.parametrize("kind", ["arithmetic", "comparison", "store", "atomic", "branch"])
def test_bringing_one_operand_leaves_the_other(kind: str) -> None:
    """However far its next use may be: what an operation reads has to be in registers at once."""
    assert compile_with_report(crowded(kind).module(), NEWEST, check=True).stores >= 5


def test_an_address_exchanged_with_itself() -> None:
    """One register is address, operand and result; or the address lives on, and the result has its own."""
    for lives_on in (False, True):
        b = Builder(slots=(ir.Slot("cell", 8),))
        cell = b.emit(Op.REFINE, b.emit(Op.OFFSET, CTX, b.const(8), result=ValueType.POINTER), result=ValueType.POINTER)
        number = b.emit(Op.ATOMIC, cell, cell, symbol="xchg")
        if lives_on:
            b.emit(Op.STORE, cell, number, result=None, imm=8)
        b.end(Return(number))
        context = bytes(range(64))
        returned, after = interpreted(b.module(), NEWEST, context)
        assert returned == int.from_bytes(context[8:16], "little")
        assert after[16:24] == context[8:16] if lives_on else after[16:] == context[16:]


def test_a_block_with_one_way_to_it_may_have_parameters() -> None:
    """They are defined on entry, beside what lives through: the allocator does not count on tidied flow."""
    b = Builder()
    first, second = b.load(0), b.load(1)
    b.end(Jump(1, (first, second)))
    left, right = b.value(), b.value()
    b.end(Return(b.emit(Op.SUB, b.emit(Op.MUL, left, right), first)), [left, right])
    allocated = allocate(select(b.function(), {}, 0))
    check_allocation(allocated)
    assert allocated.stores == 0


def test_a_frame_too_large_names_what_is_large() -> None:
    """The error has the size, the records in it, and what to do."""
    b = Builder(slots=(ir.Slot("small", 8), ir.Slot("event", 400), ir.Slot("path", 112)))
    records = [b.emit(Op.SLOT, symbol=name, result=ir.ValueType.POINTER) for name in ("small", "event", "path")]
    b.emit(Op.CALL, *records, imm=5, result=None)
    b.end(Return(b.const(0)))
    with pytest.raises(CompileError) as caught:
        compile_module(b.module(), NEWEST)
    assert str(caught.value) == (
        "main needs 520 bytes of stack, and a BPF function has 512; the largest records are event (400 bytes), "
        "path (112 bytes), small (8 bytes): keep large records in a map or build them where they are emitted"
    )


def test_spills_count_towards_the_frame() -> None:
    """With 480 bytes of records four spills fit and five don't."""
    for count, fits in ((8, True), (9, False)):
        b = alive_at_once(count, calls=True)
        b.slots = (ir.Slot("event", 480),)
        if fits:
            assert compile_with_report(b.module(), NEWEST, check=True).frames == (512,)
        else:
            with pytest.raises(CompileError, match="needs 520 bytes of stack, 40 of them for values that found no reg"):
                compile_module(b.module(), NEWEST)


def chain_of(sizes: dict[str, int], last: str = "") -> ir.Module:
    """Functions that each call the next one; `last` is what the last of them calls."""
    functions = []
    names = list(sizes)
    for name, following in zip(names, [*names[1:], last], strict=True):
        b = Builder((ir.Value(0),), (ir.Slot("record", sizes[name]),))
        result = b.emit(Op.CALL_LOCAL, ir.Value(0), symbol=following) if following else ir.Value(0)
        b.end(Return(result))
        functions.append(b.function(name))
    return ir.Module(tuple(functions))


def test_call_chains_share_the_stack() -> None:
    """Frames along a chain of calls count together, rounded up to 32 bytes as Linux 6.1 does."""
    compile_module(chain_of({"main": 224, "first": 192, "second": 65}), NEWEST)
    with pytest.raises(CompileError) as caught:
        compile_module(chain_of({"main": 224, "first": 192, "second": 97}), NEWEST)
    assert str(caught.value) == (
        "the calls main (224) → first (192) → second (128) need 544 bytes of stack together, and a BPF program has "
        "512: keep large records in a map"
    )


def test_recursion_and_depth() -> None:
    """Calls that go round, or more than eight frames deep, are refused before the verifier does."""
    with pytest.raises(
        CompileError, match=r"^first calls itself \(first → second → first\), and BPF has no recursion$"
    ):
        compile_module(chain_of({"main": 8, "first": 8, "second": 8}, "first"), NEWEST)
    compile_module(chain_of({f"f{n}": 8 for n in range(8)}), NEWEST)
    with pytest.raises(CompileError, match=r"^f0: calls go 9 frames deep, and BPF allows 8$"):
        compile_module(chain_of({f"f{n}": 8 for n in range(9)}), NEWEST)


def test_many_parameters_of_a_loop() -> None:
    """More loop-carried variables than registers: some live in memory all the way round."""
    for count in (11, 17, 31):
        b = Builder()
        start = [b.load(n % 4) for n in range(count)]
        b.end(Jump(1, (b.const(0), *start)))
        counter = b.value()
        carried = [b.value() for _ in range(count)]
        b.end(Branch(Condition.ULT, counter, b.const(5), 2, 3), [counter, *carried])
        rotated = [*carried[1:], b.emit(Op.ADD, carried[0], counter)]
        b.end(Jump(1, (b.emit(Op.ADD, counter, b.const(1)), *rotated)))
        total = carried[0]
        for value in carried[1:]:
            total = b.emit(Op.ADD, b.emit(Op.MUL, total, b.const(31)), value)
        b.emit(Op.STORE, CTX, total, result=None)
        b.end(Return(total))
        assert compile_with_report(b.module(), NEWEST, check=True).slots >= count - 10


def test_a_slot_that_a_constant_is_due_in_is_no_register() -> None:
    """All ten registers are kept around the loop, and what moves from slot to slot finds none of them free."""
    b = Builder()
    start = [b.load(n % 4) for n in range(12)]
    b.end(Jump(1, (b.const(0), *start)))
    counter = b.value()
    carried = [b.value() for _ in start]
    b.end(Branch(Condition.ULT, counter, b.const(5), 2, 3), [counter, *carried])
    b.end(Jump(1, (b.emit(Op.ADD, counter, b.const(1)), *carried[1:-1], carried[0], b.const(77))))
    total = carried[0]
    for value in carried[1:]:
        total = b.emit(Op.ADD, b.emit(Op.MUL, total, b.const(31)), value)
    b.end(Return(total))
    assert compile_with_report(b.module(), NEWEST, check=True).slots == 3 + 2


def test_a_constant_in_memory_is_written_through_a_free_register() -> None:
    """Of seven numbers alive across a call three begin in memory; r0 has what is needed before the call only."""
    b = Builder()
    b.end(Jump(1, (b.load(0), *(b.const(n) for n in range(10, 17)))))
    early = b.value()
    carried = [b.value() for _ in range(7)]
    b.emit(Op.STORE, CTX, early, result=None, imm=16)
    b.emit(Op.CALL, imm=JIFFIES, result=None)
    total = carried[0]
    for value in carried[1:]:
        total = b.emit(Op.ADD, b.emit(Op.MUL, total, b.const(31)), value)
    b.end(Branch(Condition.ULT, total, b.const(5), 2, 3), [early, *carried])
    b.end(Jump(1, (b.load(1), *carried[1:], total)))
    b.end(Return(total))
    text = b.text()
    assert text[0] == "r0 = *(u64 *)(r1 + 0)"
    entry = text[1 : text.index(next(line for line in text if line.startswith("goto")))]
    assert not any(line.startswith("r0 = ") for line in entry)


def test_time_is_near_linear() -> None:
    """Twenty thousand instructions take seconds, and eight times the program less than thirty times the time."""

    def seconds(count: int) -> float:
        chance = random.Random(7)
        b = Builder()
        pool = [b.load(n) for n in range(8)]
        for number in range(count // 2):
            left, right = chance.sample(pool, 2)
            # A factor of its own for each, or else equal values would cancel out and leave nothing to do.
            scaled = b.emit(Op.MUL, left, b.const(2 * number + 3))
            pool[number % 8] = b.emit(chance.choice((Op.ADD, Op.XOR, Op.SUB)), scaled, right)
            if number % 50 == 49:
                here = len(b.blocks)
                b.end(Branch(Condition.ULT, pool[0], pool[1], here + 1, here + 2))
                b.end(Jump(here + 2))
        total = pool[0]
        for value in pool[1:]:
            total = b.emit(Op.XOR, total, value)
        b.end(Return(total))
        module = b.module()
        begin = time.process_time()
        code = compile_module(module, NEWEST)
        assert len(code.instructions) > count // 2
        return time.process_time() - begin

    seconds(100)
    short, long = seconds(2_500), seconds(20_000)
    assert long < 10
    assert long < 30 * max(short, 0.01)
