"""Passes keep the meaning of every function, and do what each is there for."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from pyebpf.compiler import compile_with_report, ir, passes
from pyebpf.compiler.checker import check_function, check_module
from pyebpf.compiler.evaluator import Pointer, Region, evaluate
from pyebpf.compiler.ir import Branch, Condition, Jump, Op, Return, ValueType
from pyebpf.compiler.passes import PASSES, run_passes
from pyebpf.compiler.passes.algebra import RULES, simplify
from pyebpf.compiler.passes.flow import tidy_flow
from pyebpf.compiler.passes.rewriting import Rewriter, rule, table
from pyebpf.compiler.passes.stores import store_early
from pyebpf.compiler.printer import function_text
from pyebpf.dataclass import replace
from tests.compiler.random_ir import INTERESTING, random_module
from tests.compiler.support import CTX, NEWEST, OLDEST, Builder, contexts, run, seeded_module


def ops(function: ir.Function) -> list[Op]:
    return [instruction.op for block in function.blocks for instruction in block.instructions]


@settings(max_examples=40, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_every_pass_keeps_the_meaning(data: st.DataObject) -> None:
    """After each pass the function is valid, and returns and stores what it did before."""
    chance = data.draw(st.randoms(use_true_random=False))
    target = data.draw(st.sampled_from([NEWEST, OLDEST]))
    module = random_module(chance.randrange, size=30, may_goto=target is NEWEST)
    context = contexts(data.draw(st.integers(0, 1 << 20)))
    budget = data.draw(st.sampled_from([0, 1, 3, 1000]))
    expected = run(module, context, budget)
    functions = module.functions
    for name, change in PASSES:
        functions = tuple(change(function, target) for function in functions)
        check_module(ir.Module(functions), name)
        assert run(ir.Module(functions), context, budget) == expected, name


def test_every_rule_fires_and_holds() -> None:
    """Each line of the table of rewrites applies to some random expression and keeps its value."""
    fired = dict.fromkeys(range(len(RULES)), 0)

    def counting(index: int, entry: Any) -> Any:
        def result(rewriter: Rewriter, **bindings: Any) -> Any:
            value = entry.result(rewriter, **bindings)
            fired[index] += value is not None
            return value

        return rule(entry.op, entry.patterns, result)

    counted = table(*(counting(index, entry) for index, entry in enumerate(RULES)))
    for seed in range(701):
        b = expression(random.Random(seed))
        context = contexts(seed)
        before = run(b.module(), context)
        after = Rewriter(b.function(), counted).run()
        check_function(after)
        assert run(ir.Module((after,)), context) == before, seed
    assert [RULES[index].op for index, count in fired.items() if not count] == []


def expression(chance: random.Random) -> Builder:
    """Straight-line arithmetic over few values and many constants of the kinds that rules look for."""
    b = Builder(slots=(ir.Slot("s", 16),))
    pool = [b.load(0), b.load(1), b.load(2, size=4), b.load(3, size=2, signed=True)]
    slot = b.emit(Op.SLOT, symbol="s", result=ValueType.POINTER)
    for place in (0, 8):
        b.emit(Op.STORE, slot, pool[0], imm=place, result=None)
    pointers = [CTX, slot]
    small = (0, 1, -1, 2, 3, 8, 63, 64, 0xFF, 0xFFFF, 0xFFFF_FFFF)
    arithmetic = (
        Op.ADD, Op.SUB, Op.MUL, Op.UDIV, Op.UMOD, Op.SDIV, Op.SMOD, Op.AND, Op.OR, Op.XOR, Op.SHL, Op.LSHR, Op.ASHR,
    )  # fmt: skip
    for _ in range(47):
        left = chance.choice(pool[-5:])
        constant = b.const(chance.choice(small) if chance.random() < 0.8 else chance.choice(INTERESTING))
        right = chance.choice((constant, constant, chance.choice(pool[-4:]), left))
        if chance.random() < 0.1:
            left = constant
        match chance.randrange(8):
            case 0 | 1 | 2 | 3:
                pool.append(b.emit(chance.choice(arithmetic), left, right))
            case 4:
                size = chance.choice((1, 2, 4))
                pool.append(b.emit(chance.choice((Op.SEXT, Op.ZEXT)), left, size=size))
            case 5:
                pool.append(b.emit(chance.choice((Op.NEG, Op.REFINE, Op.FROM_BITS)), left))
                pool.append(b.emit(Op.SWAP, left, size=chance.choice((2, 4, 8))))
            case 6:
                pool.append(b.emit(Op.COMPARE, left, right, condition=chance.choice(list(Condition))))
            case _:
                base = chance.choice(pointers)
                pointers.append(
                    b.emit(Op.OFFSET, base, b.const(chance.choice((0, 4, 8, -4))), result=ValueType.POINTER)
                )
    total = pool[0]
    for value in pool[1:]:
        total = b.emit(Op.ADD, b.emit(Op.MUL, total, b.const(1_000_003)), value)
    b.end(Return(total))
    return b


def simplified(b: Builder, target: Any = NEWEST) -> ir.Function:
    return run_passes(b.function(), target, check=True)


@pytest.mark.parametrize(
    ("op", "number", "expected"),
    [
        (Op.MUL, 8, [Op.SHL]),
        (Op.UDIV, 16, [Op.LSHR]),
        (Op.UMOD, 4096, [Op.AND]),
        (Op.SDIV, 8, [Op.ASHR, Op.LSHR, Op.ADD, Op.ASHR]),
        (Op.AND, 0xFFFF_FFFF, [Op.ZEXT]),
        (Op.ADD, 0, []),
        (Op.SDIV, -1, [Op.NEG]),
        (Op.SUB, 5, [Op.ADD]),
    ],
)
def test_arithmetic_with_a_constant(op: Op, number: int, expected: list[Op]) -> None:
    """Powers of two, neutral and absorbing elements."""
    b = Builder()
    b.end(Return(b.emit(op, b.load(0), b.const(number))))
    assert [each for each in ops(simplified(b)) if each is not Op.CONST] == [Op.LOAD, *expected]


def test_extensions_go_into_loads() -> None:
    """Sign extension of a load is a signed load; zero extension of what is narrow enough is nothing."""
    b = Builder()
    narrow = b.load(0, size=4)
    wide = b.emit(Op.SEXT, narrow, size=4)
    same = b.emit(Op.ZEXT, b.load(1, size=2), size=4)
    b.end(Return(b.emit(Op.ADD, wide, same)))
    function = simplified(b)
    assert ops(function) == [Op.LOAD, Op.LOAD, Op.ADD]
    assert [i.signed for i in function.blocks[0].instructions[:2]] == [True, False]


def test_constant_offsets_go_into_accesses() -> None:
    """A chain of offsets becomes the access's own."""
    b = Builder()
    far = b.emit(
        Op.OFFSET, b.emit(Op.OFFSET, CTX, b.const(16), result=ValueType.POINTER), b.const(4), result=ValueType.POINTER
    )
    b.end(Return(b.emit(Op.LOAD, far, imm=4, size=4)))
    (load,) = simplified(b).blocks[0].instructions
    assert (load.operands, load.imm) == ((CTX,), 24)


def test_refine_survives() -> None:
    """A refined value stays a value of its own, whatever it refines: it is what is stored behind the check."""
    b = Builder()
    number = b.load(0)
    limit = b.const(10)
    b.end(Branch(Condition.ULT, number, limit, 1, 2))
    first = b.emit(Op.REFINE, number)
    second = b.emit(Op.REFINE, number)
    b.end(Return(b.emit(Op.MUL, first, second)))
    b.end(Return(limit))
    assert ops(simplified(b)).count(Op.REFINE) == 2


def test_a_decided_branch_goes() -> None:
    """A comparison of constants, or one that the width of a load decides, leaves one way."""
    b = Builder()
    byte = b.load(0, size=1)
    b.end(Branch(Condition.UGT, byte, b.const(255), 1, 2))
    b.end(Return(b.const(1)))
    b.end(Return(b.const(2)))
    function = simplified(b)
    assert len(function.blocks) == 1
    assert ops(function) == [Op.CONST]
    assert function.blocks[0].instructions[0].imm == 2


def test_a_comparison_is_tested_directly() -> None:
    """`(a s< b) == 0` as a branch is the branch on `a s< b` the other way round."""
    b = Builder()
    first, second = b.load(0), b.load(1)
    less = b.emit(Op.COMPARE, first, second, condition=Condition.SLT)
    b.end(Branch(Condition.EQ, less, b.const(0), 1, 2))
    b.end(Return(b.const(1)))
    b.end(Return(b.const(2)))
    branch = simplified(b).blocks[0].terminator
    assert isinstance(branch, Branch)
    assert (branch.condition, branch.left, branch.right) == (Condition.SLT, first, second)
    assert (branch.then, branch.otherwise) == (2, 1)


def looked_up() -> Builder:
    """`value = table.get(key)`, then `if value is None: return 0`, as the builder writes it."""
    b = Builder()
    entry = b.emit(Op.CALL, imm=1, result=ValueType.POINTER)
    null = b.const(0)
    b.end(Branch(Condition.EQ, entry, null, 1, 2))
    b.end(Jump(3, (null,)))
    value = b.emit(Op.LOAD, entry)
    b.end(Jump(3, (value,)))
    merged = b.value()
    b.end(Branch(Condition.EQ, entry, null, 4, 5), [merged])
    b.end(Return(null))
    b.end(Return(b.emit(Op.MUL, merged, b.const(7))))
    return b


def test_a_test_that_both_ways_know_is_skipped() -> None:
    """The second test of the entry is gone, with the value that it merged."""
    function = simplified(looked_up())
    assert sum(isinstance(block.terminator, Branch) for block in function.blocks) == 1
    assert not any(block.parameters for block in function.blocks)


def test_a_return_with_parameters_stays_beside_one_without() -> None:
    """Both return 5, but a jump to the first gives it something: it can't go to the second instead."""
    b = Builder()
    word = b.load(0)
    b.end(Branch(Condition.EQ, word, b.load(1), 1, 2))
    b.end(Jump(3, (word,)))
    b.end(Return(b.const(5)))
    b.end(Return(b.const(5)), [b.value()])
    tidied = tidy_flow(b.function())
    check_function(tidied)
    assert len(tidied.blocks) == 3


def test_a_jump_to_a_test_of_what_it_gives_goes_on_at_once() -> None:
    """Each way past the test leads where the test would have led it."""
    b = Builder()
    b.end(Branch(Condition.ULT, b.load(0), b.load(1), 1, 2))
    b.end(Jump(3, (b.const(1),)))
    b.end(Jump(3, (b.const(0),)))
    flag = b.value()
    b.end(Branch(Condition.NE, flag, b.const(0), 4, 5), [flag])
    b.end(Return(b.load(2)))
    b.end(Return(b.load(3)))
    after = tidy_flow(b.function())
    check_function(after)
    assert sum(isinstance(block.terminator, Branch) for block in after.blocks) == 1
    for words in ((1, 2, 30, 40), (2, 1, 30, 40)):
        context = b"".join(word.to_bytes(8, "little") for word in (*words, *words))
        assert run(ir.Module((after,)), context) == run(b.module(), context)


def test_a_branch_goes_past_an_empty_block_and_the_test_behind_it() -> None:
    """The block that the empty one leads to tests a constant, so that it too is left out."""
    b = Builder()
    b.end(Branch(Condition.ULT, b.load(0), b.load(1), 1, 2))
    b.end(Jump(3))
    b.load(2)
    b.end(Jump(3))
    b.end(Branch(Condition.NE, b.const(1), b.const(0), 4, 5))
    b.end(Return(b.load(2)))
    b.end(Return(b.load(3)))
    after = tidy_flow(b.function())
    check_function(after)
    assert sum(isinstance(block.terminator, Branch) for block in after.blocks) == 1


def test_dead_loops_of_values_go() -> None:
    """A variable that only feeds itself around a loop is dropped, and so is a load that nobody uses."""
    b = Builder()
    b.load(5)
    zero, one = b.const(0), b.const(1)
    b.end(Jump(1, (zero, zero)))
    counter, idle = b.value(), b.value()
    b.end(Branch(Condition.ULT, counter, b.const(7), 2, 3), [counter, idle])
    b.end(Jump(1, (b.emit(Op.ADD, counter, one), b.emit(Op.XOR, idle, counter))))
    b.end(Return(counter))
    function = simplified(b)
    assert Op.XOR not in ops(function)
    assert Op.LOAD not in ops(function)
    assert [len(block.parameters) for block in function.blocks if block.parameters] == [1]


def test_results_that_nobody_reads_are_not_asked_for() -> None:
    """A call stays without its result; an atomic operation becomes the cheaper form that fetches nothing."""
    b = Builder()
    b.emit(Op.CALL, imm=5)
    b.emit(Op.ATOMIC, CTX, b.load(1), symbol="add")
    b.end(Return(b.const(0)))
    call, atomic = (i for i in simplified(b).blocks[0].instructions if i.op in (Op.CALL, Op.ATOMIC))
    assert call.result is None
    assert atomic.result is None


def test_equal_values_are_computed_once() -> None:
    """A pure op is not repeated where it dominates; a load is."""
    b = Builder()
    first = b.load(0)
    total = b.emit(Op.UDIV, first, b.const(7))
    b.end(Branch(Condition.EQ, first, total, 1, 2))
    again = b.emit(Op.UDIV, first, b.const(7))
    b.end(Return(b.emit(Op.ADD, again, b.load(0))))
    b.end(Return(total))
    assert ops(simplified(b)).count(Op.UDIV) == 1
    assert ops(simplified(b)).count(Op.LOAD) == 2


def test_old_targets_get_no_new_ops() -> None:
    """Without signed division and sign extension no function keeps them."""
    for seed in range(31):
        function = run_passes(seeded_module(seed).main, OLDEST)
        assert not {Op.SDIV, Op.SMOD, Op.SEXT} & set(ops(function))
        assert not any(i.signed for block in function.blocks for i in block.instructions if i.size < 8)


def test_passes_change_nothing_of_their_input() -> None:
    """Functions are values: running the passes twice gives the same text twice."""
    module = seeded_module(17)
    before = function_text(module.main)
    first = function_text(run_passes(module.main, NEWEST))
    assert function_text(module.main) == before
    assert function_text(run_passes(replace(module.main), NEWEST)) == first


def test_a_pass_that_finds_nothing_gives_back_what_it_took() -> None:
    """Once the passes are done, each gives the very function back: `run_passes` tells by that."""
    for seed in range(31):
        module = seeded_module(seed)
        function = run_passes(run_passes(module.main, NEWEST), NEWEST)
        for name, change in PASSES:
            again = change(function, NEWEST)
            assert (again is function) == (function_text(again) == function_text(function)), name


def test_a_pass_is_left_out_where_nothing_has_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    """It comes again behind one that changed the function, but for changes that are no news to it."""
    ran: list[str] = []

    def noted(name: str, *, changes: bool) -> Any:
        def change(function: ir.Function, _: Any) -> ir.Function:
            ran.append(name)
            return replace(function) if changes else function

        return name, change

    order = ["tidy_flow", "simplify", "drop_dead!", "simplify", "tidy_flow", "merge_equal!", "drop_dead", "simplify"]
    monkeypatch.setattr(passes, "PASSES", tuple(noted(name.rstrip("!"), changes=name.endswith("!")) for name in order))
    run_passes(seeded_module(17).main, NEWEST)
    assert ran == ["tidy_flow", "simplify", "drop_dead", "tidy_flow", "merge_equal", "drop_dead", "simplify"]


def test_a_block_that_hands_its_parameter_on_is_jumped_past() -> None:
    """Each way to it gives what it got to the next block itself."""
    b = Builder()
    passed, joined = ir.Value(50), ir.Value(51)
    first, second, third = b.load(1), b.load(2), b.load(3)
    b.end(Branch(Condition.EQ, b.load(0), first, 1, 2))
    b.end(Branch(Condition.EQ, first, second, 3, 4))
    b.emit(Op.STORE, CTX, first, imm=8, result=None)
    b.end(Jump(6, (first,)))
    b.emit(Op.STORE, CTX, second, imm=8, result=None)
    b.end(Jump(5, (second,)))
    b.emit(Op.STORE, CTX, third, imm=8, result=None)
    b.end(Jump(5, (third,)))
    b.end(Jump(6, (passed,)), [passed])
    b.end(Return(joined), [joined])
    check_function(b.function(), "building")
    tidy = tidy_flow(b.function())
    check_function(tidy, "tidy_flow")
    assert [block.number for block in tidy.blocks if isinstance(block.terminator, Jump)] == [3, 4, 2]
    assert 5 not in tidy.block_map()


def test_a_block_that_gives_a_constant_stays_one() -> None:
    """Branches go to it, which could not give the constant themselves: none gets a block of its own for that."""
    b = Builder()
    joined = ir.Value(50)
    zero, one = b.const(0), b.const(1)
    b.end(Branch(Condition.EQ, b.load(0), b.load(1), 1, 2))
    b.end(Branch(Condition.EQ, b.load(2), b.load(3), 3, 4))
    b.end(Jump(5))
    b.end(Jump(6, (one,)))
    b.end(Jump(5))
    b.end(Jump(6, (zero,)))
    b.end(Return(joined), [joined])
    check_function(b.function(), "building")
    tidy = tidy_flow(b.function())
    assert [block.number for block in tidy.blocks] == [0, 1, 3, 5, 6]


def test_a_constant_parameter_goes() -> None:
    """A block parameter that every jump gives the same constant is that constant."""
    b = Builder()
    b.end(Branch(Condition.EQ, b.load(0), b.load(1), 1, 2))
    b.end(Jump(3, (b.const(7),)))
    b.end(Jump(3, (b.const(7),)))
    merged = b.value()
    b.end(Return(merged), [merged])
    function = simplify(b.function())
    assert not function.blocks[-1].parameters
    returned = function.blocks[-1].terminator
    assert isinstance(returned, Return)
    assert {i.result: i.imm for block in function.blocks for i in block.instructions if i.op is Op.CONST}[
        returned.value
    ] == 7


def test_records_are_stored_as_they_are_known() -> None:
    """A field computed before a call and stored after it is stored before it: no register, no spill slot meanwhile."""
    b = Builder(slots=(ir.Slot("record", 64), ir.Slot("scratch", 8)))
    scratch = b.emit(Op.SLOT, symbol="scratch", result=ValueType.POINTER)
    fields = []
    for _ in range(7):
        b.emit(Op.CALL, scratch, imm=113, result=None)
        fields.append(b.emit(Op.LOAD, scratch))
    record = b.emit(Op.SLOT, symbol="record", result=ValueType.POINTER)
    for number, value in enumerate(fields):
        b.emit(Op.STORE, record, value, imm=8 * number, result=None)
    b.emit(Op.CALL, record, imm=130, result=None)
    b.end(Return(b.const(0)))
    report = compile_with_report(b.module(), NEWEST, check=True)
    assert not report.spilled
    assert not any(i.op.name == "mov64" and i.dst in (6, 7, 8, 9) for i in report.code.instructions)


def test_early_stores_keep_the_meaning() -> None:
    """Random stores, loads and calls over two slots: what calls and loads see stays the same."""

    def peek(_: Any, pointer: Pointer) -> int:
        return int.from_bytes(pointer.region.load(0, 16), "little") % 1_000_003

    def poke(_: Any, pointer: Pointer, value: int) -> int:
        pointer.region.store(8, (value * 31 % (1 << 64)).to_bytes(8, "little"))
        return value // 3

    moved = 0
    for seed in range(701):
        chance = random.Random(seed)
        b = Builder(slots=(ir.Slot("a", 16), ir.Slot("b", 16)))
        slots = [b.emit(Op.SLOT, symbol=name, result=ValueType.POINTER) for name in "ab"]
        pool = [b.load(0), b.load(1)]
        for slot in slots:
            for place in (0, 8):
                b.emit(Op.STORE, slot, pool[0], imm=place, result=None)
        for _ in range(31):
            slot = chance.choice(slots)
            size = chance.choice((4, 8))
            place = chance.randrange(0, 16, size)
            match chance.randrange(6):
                case 0:
                    pool.append(b.emit(Op.CALL, slot, imm=1))
                case 1:
                    pool.append(b.emit(Op.CALL, slot, chance.choice(pool), imm=2))
                case 2:
                    pool.append(b.emit(Op.LOAD, slot, imm=place, size=size))
                case 3:
                    pool.append(b.emit(Op.ADD, chance.choice(pool), chance.choice(pool)))
                case _:
                    b.emit(Op.STORE, slot, chance.choice(pool[-9:]), imm=place, size=size, result=None)
        b.end(Return(b.emit(Op.ADD, pool[-1], b.emit(Op.CALL, slots[0], imm=1))))
        after = store_early(b.function())
        check_function(after)
        moved += len(after.blocks[0].instructions) > len(b.blocks[0].instructions)
        answers = [
            evaluate(module, [Pointer(Region.of("ctx", contexts(seed)), 0)], helpers={1: peek, 2: poke})
            for module in (b.module(), ir.Module((after,)))
        ]
        assert answers[0] == answers[1], seed
    assert moved > 150


def test_who_runs_is_asked_once() -> None:
    """The process id is the same all through a run; the time is not."""
    b = Builder()
    calls = [b.emit(Op.CALL, imm=number) for number in (14, 5, 14, 5, 15, 15)]
    b.emit(Op.CALL, imm=35)
    total = calls[0]
    for value in calls[1:]:
        total = b.emit(Op.ADD, total, value)
    b.end(Return(total))
    assert [i.imm for i in simplified(b).blocks[0].instructions if i.op is Op.CALL] == [14, 5, 5, 15]
