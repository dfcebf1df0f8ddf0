"""Stores into the stack moved up to where their value is known.

A record's fields are computed one after the other, often by calls, and stored when the last is known. Stored at once
they need no register, and no spill slot, in the meantime.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyebpf.compiler.ir import Block, Instruction, Jump, Op, Value, ValueType
from pyebpf.dataclass import replace

if TYPE_CHECKING:
    from pyebpf.compiler.ir import Function

_CALLS = frozenset({Op.CALL, Op.CALL_LOCAL, Op.CALL_KFUNC})
_ACCESSES = frozenset({Op.LOAD, Op.STORE, Op.ATOMIC})
#: Accesses of a slot that are looked at for one store. More would make the pass slower than linear.
_MAX_ACCESSES = 64
#: Place in the block, first byte, end; the whole slot for a call that gets its address.
_Access = tuple[int, int, int]


def store_early(function: Function) -> Function:
    """Move a store that a call separates from its value's definition up to it, past what does not touch those bytes."""
    slots = {slot.name: slot.size for slot in function.slots}
    calling = {block.number for block in function.blocks if _calls_before_storing(block)} if slots else ()
    if not calling:
        return function
    home = _addresses(function)
    shared = _shared(function, home)
    numbers = function.highest() + 1
    blocks = []
    for block in function.blocks:
        moved = _moves(block, home, shared, slots) if block.number in calling else None
        if not moved:
            blocks.append(block)
            continue
        behind: dict[int, list[Instruction]] = {}
        for place, index in moved.items():
            store = block.instructions[place]
            symbol, offset = home[store.operands[0].number]
            slot = Value(numbers, ValueType.POINTER, store.operands[0].hint)
            numbers += 1
            address = Instruction(Op.SLOT, slot, imm=offset, symbol=symbol, where=store.where)
            behind.setdefault(index, []).extend((address, replace(store, operands=(slot, store.operands[1]))))
        instructions = []
        for place, instruction in enumerate(block.instructions):
            if place not in moved:
                instructions.append(instruction)
            instructions += behind.get(place, ())
        blocks.append(Block(block.number, block.parameters, tuple(instructions), block.terminator))
    return function.with_blocks(blocks)


def _calls_before_storing(block: Block) -> bool:
    """Whether a store stands behind a call in a block: only such a store moves."""
    called = False
    for instruction in block.instructions:
        if called and instruction.op is Op.STORE:
            return True
        called = called or instruction.op in _CALLS
    return False


def _addresses(function: Function) -> dict[int, tuple[str, int]]:
    """Slot and offset of each value that is a slot's address."""
    return {
        instruction.result.number: (instruction.symbol, instruction.imm)
        for block in function.blocks
        for instruction in block.instructions
        if instruction.op is Op.SLOT and instruction.result is not None
    }


def _shared(function: Function, home: dict[int, tuple[str, int]]) -> set[str]:
    """Slots whose address goes where this pass does not follow it: other than directly to an access or a call."""
    shared: set[str] = set()
    for block in function.blocks:
        for instruction in block.instructions:
            op = instruction.op
            if op not in _CALLS:
                for value in instruction.operands[1:] if op in _ACCESSES else instruction.operands:
                    if value.number in home:
                        shared.add(home[value.number][0])
        if isinstance(block.terminator, Jump):
            shared.update(home[value.number][0] for value in block.terminator.arguments if value.number in home)
    return shared


def _moves(block: Block, home: dict[int, tuple[str, int]], shared: set[str], slots: dict[str, int]) -> dict[int, int]:
    """For each store to move, by its place in the block, the place of the instruction that it shall follow."""
    defined: dict[int, int] = {}
    accesses: dict[str, list[_Access]] = {}
    moved: dict[int, int] = {}
    last_call = -1
    for place, instruction in enumerate(block.instructions):
        op = instruction.op
        if op in _CALLS:
            last_call = place
            for value in instruction.operands:
                if value.number in home:
                    symbol = home[value.number][0]
                    accesses.setdefault(symbol, []).append((place, 0, slots[symbol]))
        elif op in _ACCESSES and instruction.operands[0].number in home:
            symbol, offset = home[instruction.operands[0].number]
            start = offset + instruction.imm
            end = start + instruction.size
            before = accesses.setdefault(symbol, [])
            index = defined.get(instruction.operands[1].number, place) if op is Op.STORE else place
            if index < last_call and symbol not in shared and _is_free(before, index, start, end):
                moved[place] = index
                before.append((index, start, end))
            else:
                before.append((place, start, end))
        if instruction.result is not None and op is not Op.CONST:
            defined[instruction.result.number] = place
    return moved


def _is_free(accesses: list[_Access], index: int, start: int, end: int) -> bool:
    """Whether nothing behind `index` touches the bytes.

    Moved stores are in the list out of order, but were there before.
    """
    if len(accesses) > _MAX_ACCESSES:
        return False
    return all(place <= index or stop <= start or end <= first for place, first, stop in accesses)
