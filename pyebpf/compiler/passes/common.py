"""Common subexpressions: a pure op is computed once for all that it dominates.

REFINE stays as it is: the value it gives is known only behind its branch. Helpers that say who runs give the same
answer throughout a run of the program, and count as pure.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyebpf.compiler.graph import dominators, predecessors
from pyebpf.compiler.ir import OPS, Block, Op
from pyebpf.compiler.passes.rewriting import substitute
from pyebpf.dataclass import replace

if TYPE_CHECKING:
    from pyebpf.compiler.ir import Function, Instruction, Terminator, Value

__all__ = ["STABLE_HELPERS", "is_pure", "merge_equal"]

#: Helpers without arguments and effects that answer the same all through a run (enum bpf_func_id):
#: get_current_pid_tgid, get_current_uid_gid, get_current_task, get_current_task_btf.
STABLE_HELPERS = frozenset({14, 15, 35, 158})

_Key = tuple[object, ...]


def is_pure(instruction: Instruction) -> bool:
    """Whether an instruction may be dropped, and merged with its like."""
    if instruction.op is Op.CALL:
        return instruction.imm in STABLE_HELPERS and not instruction.operands
    return OPS[instruction.op].pure


def _key(instruction: Instruction) -> _Key:
    return (
        instruction.op,
        tuple(value.number for value in instruction.operands),
        instruction.imm,
        instruction.size,
        instruction.condition,
        instruction.symbol,
    )


def merge_equal(function: Function) -> Function:
    """Replace a pure instruction by an equal one that dominates it."""
    order = [block.number for block in function.blocks]
    parent = dominators(order, predecessors({block.number: block.successors() for block in function.blocks}))
    children: dict[int, list[int]] = {number: [] for number in order}
    for number in order[1:]:
        children[parent[number]].append(number)
    blocks = function.block_map()
    done: dict[int, Block] = {}
    replaced: dict[int, Value] = {}
    available: dict[_Key, Value] = {}
    # Down the dominator tree; leaving a block takes back what it added.
    work: list[tuple[int, list[_Key] | None]] = [(order[0], None)]
    while work:
        number, added = work.pop()
        if added is not None:
            for key in added:
                del available[key]
            continue
        added = []
        block = blocks[number]
        instructions = []
        for old in block.instructions:
            instruction = old
            if any(value.number in replaced for value in old.operands):
                operands = tuple(replaced.get(value.number, value) for value in old.operands)
                instruction = replace(old, operands=operands)
            result = instruction.result
            if result is not None and is_pure(instruction) and instruction.op is not Op.REFINE:
                key = _key(instruction)
                known = available.get(key)
                if known is not None:
                    replaced[result.number] = known
                    continue
                available[key] = result
                added.append(key)
            instructions.append(instruction)
        done[number] = Block(number, block.parameters, tuple(instructions), block.terminator)
        work.append((number, added))
        work.extend((child, None) for child in reversed(children[number]))
    return replace(
        function,
        blocks=tuple(_with_terminator(done[number], substitute(done[number].terminator, replaced)) for number in order),
    )


def _with_terminator(block: Block, terminator: Terminator) -> Block:
    return block if terminator is block.terminator else replace(block, terminator=terminator)
