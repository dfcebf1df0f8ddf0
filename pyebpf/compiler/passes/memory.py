"""Memory accesses: fixed offsets and extensions folded into them, bytes that a store cuts off not computed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyebpf.compiler.arithmetic import signed
from pyebpf.compiler.ir import Op
from pyebpf.dataclass import replace

if TYPE_CHECKING:
    from pyebpf.compiler.ir import Function, Instruction

_ACCESSES = frozenset({Op.LOAD, Op.STORE, Op.ATOMIC})
_EXTENSIONS = frozenset({Op.ZEXT, Op.SEXT})
#: Operations that this pass folds into accesses.
_FOLDED = _EXTENSIONS | {Op.OFFSET, Op.AND}
#: Operations whose definitions it asks for.
_ASKED = _FOLDED | {Op.CONST, Op.LOAD}


def fold_memory(function: Function) -> Function:
    """Fold what surrounds loads and stores into them."""
    definitions = {
        instruction.result.number: instruction
        for block in function.blocks
        for instruction in block.instructions
        if instruction.op in _ASKED and instruction.result is not None
    }
    found = {instruction.op for instruction in definitions.values()}
    if not found & _FOLDED:
        return function
    extended = _only_extended(function, definitions) if found & _EXTENSIONS else {}
    blocks = []
    for block in function.blocks:
        instructions = []
        for old in block.instructions:
            instruction = old
            if old.op in _ACCESSES:
                instruction = _fold_address(old, definitions)
                if old.op is Op.STORE:
                    instruction = _fold_stored(instruction, definitions)
                elif old.op is Op.LOAD and old.result is not None:
                    extension = extended.get(old.result.number)
                    if extension is not None:
                        instruction = replace(instruction, signed=extension is Op.SEXT)
                    if instruction is not old:
                        definitions[old.result.number] = instruction
            instructions.append(instruction)
        blocks.append(block.with_instructions(instructions))
    return function.with_blocks(blocks)


def _fold_address(access: Instruction, definitions: dict[int, Instruction]) -> Instruction:
    """Access `(p + c) + imm` as `p + (c + imm)` while that fits 16 bits."""
    while True:
        pointer = definitions.get(access.operands[0].number)
        if pointer is None or pointer.op is not Op.OFFSET:
            return access
        distance = definitions.get(pointer.operands[1].number)
        if distance is None or distance.op is not Op.CONST:
            return access
        offset = access.imm + signed(distance.imm & ((1 << 64) - 1))
        if not -0x8000 <= offset <= 0x7FFF:
            return access
        access = replace(access, operands=(pointer.operands[0], *access.operands[1:]), imm=offset)


def _fold_stored(store: Instruction, definitions: dict[int, Instruction]) -> Instruction:
    """Store x instead of its low bytes extended: the rest is cut off anyway."""
    while True:
        value = definitions.get(store.operands[1].number)
        if value is None:
            return store
        if value.op in _EXTENSIONS and value.size >= store.size:
            inner = value.operands[0]
        elif value.op is Op.AND:
            mask = definitions.get(value.operands[1].number)
            low = (1 << 8 * store.size) - 1
            if mask is None or mask.op is not Op.CONST or mask.imm & low != low:
                return store
            inner = value.operands[0]
        else:
            return store
        store = replace(store, operands=(store.operands[0], inner))


def _only_extended(function: Function, definitions: dict[int, Instruction]) -> dict[int, Op]:
    """Loads whose every use is one and the same extension of all their bytes: the load itself can do it."""
    extensions: dict[int, Op | None] = {}

    def use(load: Instruction, number: int, op: Op | None) -> None:
        if load.op is Op.LOAD and extensions.setdefault(number, op) is not op:
            extensions[number] = None

    for block in function.blocks:
        for instruction in block.instructions:
            for value in instruction.operands:
                load = definitions.get(value.number)
                if load is not None:
                    whole = instruction.op in _EXTENSIONS and load.size == instruction.size
                    use(load, value.number, instruction.op if whole else None)
        for value in block.terminator.uses():
            load = definitions.get(value.number)
            if load is not None:
                use(load, value.number, None)
    return {number: op for number, op in extensions.items() if op is not None}
