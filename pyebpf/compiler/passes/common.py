"""Common subexpressions: a pure op is computed once for all that it dominates.

REFINE stays as it is: the value it gives is known only behind its branch. Helpers that say who runs give the same
answer throughout a run of the program, and count as pure.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyebpf.compiler.graph import dominators, predecessors
from pyebpf.compiler.ir import OPS, Op
from pyebpf.compiler.passes.rewriting import substitute, with_replaced

if TYPE_CHECKING:
    from pyebpf.compiler.ir import Block, Function, Instruction, Value

#: Helpers without arguments and effects that answer the same all through a run (enum bpf_func_id):
#: get_current_pid_tgid, get_current_uid_gid, get_current_task, get_current_task_btf.
STABLE_HELPERS = frozenset({14, 15, 35, 158})

_Key = tuple[object, ...]


#: Operations that are merged with their like, calls aside.
_MERGED = frozenset({op for op, info in OPS.items() if info.pure} - {Op.REFINE})


def is_stable(instruction: Instruction) -> bool:
    """Whether an instruction is a call that answers the same all through a run: it may be dropped and merged."""
    return instruction.op is Op.CALL and instruction.imm in STABLE_HELPERS and not instruction.operands


def _key(instruction: Instruction) -> _Key:
    """Return a key that equal instructions share."""
    operands = instruction.operands
    if not operands:
        return instruction.op, instruction.imm, instruction.symbol
    first, last = operands[0].number, operands[-1].number
    return instruction.op, first, last, instruction.size, instruction.condition


def merge_equal(function: Function) -> Function:
    """Replace a pure instruction by an equal one that dominates it."""
    if not _repeats(function):
        return function
    order = [block.number for block in function.blocks]
    parent = dominators(order, predecessors(function.successors()))
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
        changed = False
        for old in block.instructions:
            instruction = with_replaced(old, replaced)
            changed |= instruction is not old
            result = instruction.result
            if result is not None and (instruction.op in _MERGED or is_stable(instruction)):
                key = _key(instruction)
                known = available.get(key)
                if known is not None:
                    replaced[result.number] = known
                    changed = True
                    continue
                available[key] = result
                added.append(key)
            instructions.append(instruction)
        done[number] = block.with_instructions(instructions) if changed else block
        work.append((number, added))
        work.extend((child, None) for child in reversed(children[number]))
    finished = [done[number] for number in order]
    return function.with_blocks([block.with_terminator(substitute(block.terminator, replaced)) for block in finished])


def _repeats(function: Function) -> bool:
    """Whether two instructions are equal at all, wherever they stand."""
    seen: set[_Key] = set()
    for block in function.blocks:
        for instruction in block.instructions:
            if instruction.op in _MERGED or is_stable(instruction):
                key = _key(instruction)
                if key in seen:
                    return True
                seen.add(key)
    return False
