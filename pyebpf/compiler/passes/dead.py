"""Dead code: values that nothing needs, parameters of blocks among them, even if they feed each other around a loop."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyebpf.compiler.ir import Block, Jump, Op
from pyebpf.compiler.passes.common import is_pure
from pyebpf.dataclass import replace

if TYPE_CHECKING:
    from pyebpf.compiler.ir import Function, Instruction, Value

__all__ = ["drop_dead"]


def _may_go(instruction: Instruction) -> bool:
    """Whether an instruction does nothing but give its result.

    A load is not pure, since memory changes, but needs no doing.
    """
    return instruction.result is not None and (is_pure(instruction) or instruction.op is Op.LOAD)


def drop_dead(function: Function) -> Function:
    """Drop what has no effect, and the results of calls and atomic operations that nobody reads."""
    definitions: dict[int, Instruction] = {}
    given: dict[int, list[int]] = {}
    work: list[int] = []
    parameters = {block.number: block.parameters for block in function.blocks}
    for block in function.blocks:
        for instruction in block.instructions:
            if _may_go(instruction):
                assert instruction.result is not None
                definitions[instruction.result.number] = instruction
            else:
                work.extend(value.number for value in instruction.operands)
        terminator = block.terminator
        if isinstance(terminator, Jump):
            for parameter, value in zip(parameters[terminator.target], terminator.arguments, strict=True):
                given.setdefault(parameter.number, []).append(value.number)
        else:
            work.extend(value.number for value in terminator.uses())
    live: set[int] = set()
    while work:
        number = work.pop()
        if number in live:
            continue
        live.add(number)
        definition = definitions.get(number)
        if definition is not None:
            work.extend(value.number for value in definition.operands)
        work.extend(given.get(number, ()))
    blocks = [_keep(block, live, parameters) for block in function.blocks]
    return replace(function, blocks=tuple(blocks))


def _keep(block: Block, live: set[int], parameters: dict[int, tuple[Value, ...]]) -> Block:
    instructions = []
    for instruction in block.instructions:
        if instruction.result is None or instruction.result.number in live:
            instructions.append(instruction)
        elif not _may_go(instruction):
            instructions.append(replace(instruction, result=None))
    terminator = block.terminator
    if isinstance(terminator, Jump) and terminator.arguments:
        pairs = zip(parameters[terminator.target], terminator.arguments, strict=True)
        kept = tuple(value for parameter, value in pairs if parameter.number in live)
        terminator = replace(terminator, arguments=kept)
    return Block(
        block.number,
        tuple(value for value in block.parameters if value.number in live),
        tuple(instructions),
        terminator,
    )
