"""The compiler over any control flow, also what no structured language makes: loops with several entries, or no end."""

from __future__ import annotations

import random

import pytest

from pyebpf.compiler import compile_module, ir
from pyebpf.compiler.checker import check_function
from pyebpf.compiler.edges import allocate
from pyebpf.compiler.frame import place_slots
from pyebpf.compiler.graph import dominators, predecessors, reverse_post_order
from pyebpf.compiler.ir import Branch, Condition, Jump, Op, Return
from pyebpf.compiler.liveness import analyse
from pyebpf.compiler.selection import select
from tests.compiler.support import CTX, NEWEST, OLDEST, Builder


def any_function(chance: random.Random, blocks: int = 12) -> ir.Function:
    """Random edges between blocks, values used wherever their definition dominates."""
    successors: dict[int, tuple[int, ...]] = {}
    for number in range(blocks):
        count = chance.choice((0, 1, 1, 2, 2, 2)) if number else 2
        successors[number] = tuple(chance.sample(range(1, blocks), count))
    order = reverse_post_order(0, successors)
    successors = {number: successors[number] for number in order}
    before = predecessors(successors)
    parent = dominators(order, before)
    counter = 1
    available: dict[int, list[ir.Value]] = {}
    parameters: dict[int, tuple[ir.Value, ...]] = {}
    bodies: dict[int, tuple[ir.Instruction, ...]] = {}
    for number in order:
        values = list(available[parent[number]]) if number else []
        jumped_to = number and all(len(successors[other]) == 1 for other in before[number])
        count = chance.randrange(5) if jumped_to else 0
        parameters[number] = tuple(ir.Value(counter + n) for n in range(count))
        counter += count
        values += parameters[number]
        body = []
        for _ in range(chance.randrange(1, 9)):
            result = ir.Value(counter)
            counter += 1
            if len(values) < 4 or chance.random() < 0.2:
                body.append(ir.Instruction(Op.LOAD, result, (CTX,), imm=8 * chance.randrange(8)))
            elif chance.random() < 0.15:
                body.append(ir.Instruction(Op.CALL, result, tuple(chance.sample(values, 2)), imm=5))
            else:
                op = chance.choice((Op.ADD, Op.SUB, Op.XOR, Op.REFINE))
                operands = tuple(chance.sample(values, 1 if op is Op.REFINE else 2))
                body.append(ir.Instruction(op, result, operands))
            values.append(result)
        available[number] = values
        bodies[number] = tuple(body)
    made = []
    for number in order:
        values = available[number]
        targets = successors[number]
        terminator: ir.Terminator
        if len(targets) == 2:
            left, right = chance.choice(values), chance.choice(values)
            terminator = Branch(chance.choice(list(Condition)), left, right, *targets)
        elif targets:
            terminator = Jump(targets[0], tuple(chance.choice(values) for _ in parameters[targets[0]]))
        else:
            terminator = Return(chance.choice(values))
        made.append(ir.Block(number, parameters[number], bodies[number], terminator))
    return ir.Function("main", (CTX,), tuple(made))


@pytest.mark.parametrize("blocks", [3, 7, 13, 29])
def test_any_graph_compiles_right(blocks: int) -> None:
    """Passes keep such functions valid, and the allocation checker accepts what comes out."""
    for seed in range(61):
        function = any_function(random.Random(seed), blocks)
        check_function(function)
        assert compile_module(ir.Module((function,)), NEWEST if seed % 2 else OLDEST, check=True).instructions


def test_liveness_is_what_paths_say() -> None:
    """A value lives into a block if some way from there reads it before it is defined: here every way is walked."""
    for seed in range(41):
        function = any_function(random.Random(seed), 9)
        slots, frame = place_slots(())
        machine = select(function, slots, frame)
        live_in = analyse(machine).live_in
        blocks = {block.number: block for block in machine.blocks}
        reads: dict[int, set[int]] = {}
        defines: dict[int, set[int]] = {}
        for number, block in blocks.items():
            known = set(block.parameters)
            reads[number] = set()
            for node in [*block.nodes, block.terminator]:
                reads[number] |= {value for value in node.uses() if value > 10 and value not in known}
                known |= {getattr(node, "result", -1)}
            defines[number] = known
        for number in blocks:
            expected = set()
            for value in {value for values in reads.values() for value in values}:
                seen = set()
                work = [number]
                while work:
                    step = work.pop()
                    if step in seen:
                        continue
                    seen.add(step)
                    if value in reads[step]:
                        expected.add(value)
                        break
                    if value not in defines[step]:
                        work.extend(blocks[step].terminator.successors())
            assert set(live_in[number]) == expected


def test_no_way_out() -> None:
    """An endless loop compiles; that the verifier will not have it is the verifier's to say."""
    b = Builder()
    b.end(Jump(1))
    b.end(Jump(1))
    assert b.text() == ["goto L0"]


def test_a_spilled_function_is_the_same_twice() -> None:
    """Allocation depends on nothing but the function."""
    function = any_function(random.Random(5), 29)
    slots, frame = place_slots(())
    first, second = (allocate(select(function, slots, frame)) for _ in range(2))
    assert [block.placed for block in first.blocks] == [block.placed for block in second.blocks]
