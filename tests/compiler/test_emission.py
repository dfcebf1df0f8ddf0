"""Emission: layout, jumps near and far, subprograms, source places."""

from __future__ import annotations

import subprocess
import sys

import pytest

from pyebpf.asm import Form, encode, slot_starts
from pyebpf.compiler import compile_module, ir
from pyebpf.compiler.ir import Branch, Condition, Jump, MayGoto, Op, Return, Value
from pyebpf.errors import CompileError, Location
from tests.compiler.support import NEWEST, OLDEST, Builder, Target

PLACE = Location("probe.py", 7, 4, 9, "    x += 1")


def long_branch(calls: int) -> ir.Module:
    """A branch over so many calls of five two-slot constants, eleven slots each."""
    b = Builder()
    first = b.load(0)
    b.end(Branch(Condition.SET, first, b.const(4), 2, 1))
    numbers = [b.const(1 << 40 + n) for n in range(5)]
    for _ in range(calls):
        b.emit(Op.CALL, *numbers, imm=5, result=None)
    b.end(Jump(3, (first,)))
    b.end(Jump(3, (first,)))
    merged = b.value()
    b.end(Return(merged), [merged])
    return b.module()


def test_long_branches() -> None:
    """A branch further than 16 bits reach goes by `gotol`; without it the error says so."""
    code = compile_module(long_branch(3_000), NEWEST)
    assert "gotol" in {i.op.name for i in code.instructions}
    with pytest.raises(CompileError, match=r"^main is too long: .* slots away"):
        compile_module(long_branch(3_000), Target("isa:gotol"))
    assert "gotol" not in {i.op.name for i in compile_module(long_branch(2_900), NEWEST).instructions}


def test_loops_are_tested_at_their_end() -> None:
    """One conditional jump back each time round; old kernels want a jump that closes the loop, to what is next."""
    b = Builder()
    bound = b.load(0)
    b.end(Jump(1, (b.const(0),)))
    counter = b.value()
    b.end(Branch(Condition.ULT, counter, bound, 2, 3), [counter])
    b.emit(Op.CALL, imm=5, result=None)
    b.end(Jump(1, (b.emit(Op.ADD, counter, b.const(1)),)))
    b.end(Return(counter))
    for target, last in ((NEWEST, [("jlt", -3)]), (OLDEST, [("ja", 0), ("jlt", -4)])):
        code = compile_module(b.module(), target).instructions
        body = code[next(n for n, i in enumerate(code) if i.op.name == "call") :]
        end = 2 + len(last)
        assert [(i.op.name, i.offset) for i in body[:end]] == [("call", 0), ("add64", 0), *last]
        assert not any(i.op.name == "ja" for i in body[end:])


def test_may_goto_stands_at_the_head_of_its_loop() -> None:
    """One may_goto out and one jump back each time round."""
    b = Builder()
    b.end(Jump(1, (b.const(0),)))
    rounds = b.value()
    b.end(MayGoto(3, 2), [rounds])
    b.emit(Op.CALL, imm=5, result=None)
    b.end(Jump(1, (b.emit(Op.ADD, rounds, b.const(1)),)))
    b.end(Return(rounds))
    code = compile_module(b.module(), NEWEST, check=True).instructions
    jumps = {i.op.name: n for n, i in enumerate(code) if i.op.form is Form.JUMP}
    assert list(jumps) == ["may_goto", "ja"]
    assert code[jumps["may_goto"]].offset == jumps["ja"] - jumps["may_goto"]
    assert code[jumps["ja"]].offset == jumps["may_goto"] - jumps["ja"] - 1


def test_subprograms_start_where_they_say() -> None:
    """Each at its index, the main one first; calls between them stay symbols until they are loaded."""
    b = Builder()
    b.end(Return(b.emit(Op.CALL_LOCAL, b.load(0), symbol="double")))
    other = Builder((Value(0),))
    other.end(Return(other.emit(Op.ADD, Value(0), Value(0))))
    code = compile_module(ir.Module((b.function(), other.function("double"))), OLDEST, check=True)
    assert [(each.name, each.start) for each in code.subprograms] == [("main", 0), ("double", 3)]
    assert [i.symbol for i in code.instructions if i.op.name == "call_local"] == ["double"]


def test_every_instruction_knows_its_line() -> None:
    """What an instruction needs — constants made again, moves, loads of spilled values — is its line's too."""
    b = Builder()
    values = [b.load(n) for n in range(8)]
    b.emit(Op.CALL, b.const(1), b.const(2), imm=5, result=None)
    total = values[0]
    for value in values[1:]:
        total = b.emit(Op.ADD, total, value)
    b.end(Return(total, PLACE))
    module = b.module()
    located = ir.Function(
        "main",
        module.main.parameters,
        tuple(
            ir.Block(
                block.number,
                block.parameters,
                tuple(
                    ir.Instruction(i.op, i.result, i.operands, i.imm, i.size, i.signed, i.condition, i.symbol, PLACE)
                    for i in block.instructions
                ),
                block.terminator,
            )
            for block in module.main.blocks
        ),
    )
    code = compile_module(ir.Module((located,)), NEWEST, check=True)
    # The context, which comes with the function, is spilled at its start.
    assert {i.where for i in code.instructions[1:]} == {PLACE}


SCRIPT = """
import hashlib
from pyebpf.compiler import compile_module
from tests.compiler.support import NEWEST, OLDEST, loadable, seeded_module
digest = hashlib.sha256()
for seed in range(17):
    for target in (NEWEST, OLDEST):
        digest.update(loadable(compile_module(seeded_module(seed, 60, 12), target)))
print(digest.hexdigest())
"""


def test_same_bytes_whatever_the_hash_seed() -> None:
    """The compiler's output does not depend on the order of sets and dictionaries."""
    answers = {
        subprocess.run(
            [sys.executable, "-c", SCRIPT],
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(path for path in (".", *sys.path) if path)},
            capture_output=True,
            check=True,
            text=True,
        ).stdout
        for seed in ("0", "1", "7919")
    }
    assert len(answers) == 1
    assert len(answers.pop().strip()) == 64


def test_branches_to_one_place_are_none() -> None:
    """Empty blocks are jumped through, and a branch whose ways meet at once is dropped."""
    b = Builder()
    b.end(Branch(Condition.EQ, b.load(0), b.load(1), 1, 2))
    b.end(Jump(3))
    b.end(Jump(3))
    b.end(Return(b.const(3)))
    assert b.text() == ["r0 = 3", "exit"]


def test_code_encodes() -> None:
    """The instructions are complete: as many slots as bytes say."""
    code = compile_module(long_branch(100), NEWEST)
    assert len(encode(code.instructions)) == 8 * slot_starts(code.instructions)[-1]
