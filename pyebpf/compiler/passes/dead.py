"""Dead code: values that nothing needs, parameters of blocks among them, even if they feed each other around a loop."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyebpf.compiler.ir import OPS, Block, Jump, Op
from pyebpf.compiler.passes.common import is_stable
from pyebpf.dataclass import replace

if TYPE_CHECKING:
    from pyebpf.compiler.ir import Function, Value

#: Operations that do nothing but give their results. A load is not pure, since memory changes, but needs no doing.
_WITHOUT_EFFECT = frozenset({op for op, info in OPS.items() if info.pure} | {Op.LOAD})


def drop_dead(function: Function) -> Function:
    """Drop what has no effect, and the results of calls and atomic operations that nobody reads."""
    #: The operands of what may go, by the number of its result.
    operands: dict[int, tuple[Value, ...]] = {}
    #: The arguments of each block's parameters.
    given: dict[int, list[int]] = {}
    #: The results of what stays in any case.
    answers: list[int] = []
    work: list[int] = []
    parameters = {block.number: block.parameters for block in function.blocks}
    for block in function.blocks:
        for instruction in block.instructions:
            result = instruction.result
            if result is not None and (instruction.op in _WITHOUT_EFFECT or is_stable(instruction)):
                operands[result.number] = instruction.operands
            else:
                if result is not None:
                    answers.append(result.number)
                for value in instruction.operands:
                    work.append(value.number)  # noqa: PERF401 - a list of one or two takes longer to make
        terminator = block.terminator
        if isinstance(terminator, Jump):
            for parameter, value in zip(parameters[terminator.target], terminator.arguments, strict=True):
                given.setdefault(parameter.number, []).append(value.number)
        else:
            for value in terminator.uses():
                work.append(value.number)  # noqa: PERF401 - as above
    live: set[int] = set()
    while work:
        number = work.pop()
        if number not in live:
            live.add(number)
            for value in operands.get(number, ()):
                work.append(value.number)  # noqa: PERF401 - as above
            if number in given:
                work += given[number]
    if live.issuperset(operands) and live.issuperset(given) and live.issuperset(answers):
        return function
    return function.with_blocks([_keep(block, live, parameters) for block in function.blocks])


def _keep(block: Block, live: set[int], parameters: dict[int, tuple[Value, ...]]) -> Block:
    instructions = []
    changed = False
    for instruction in block.instructions:
        result = instruction.result
        if result is None or result.number in live:
            instructions.append(instruction)
            continue
        changed = True
        if instruction.op not in _WITHOUT_EFFECT and not is_stable(instruction):
            instructions.append(replace(instruction, result=None))
    terminator = block.terminator
    if isinstance(terminator, Jump) and terminator.arguments:
        pairs = zip(parameters[terminator.target], terminator.arguments, strict=True)
        kept = [value for parameter, value in pairs if parameter.number in live]
        if len(kept) < len(terminator.arguments):
            terminator = Jump(terminator.target, tuple(kept), terminator.where)
    own = block.parameters
    if own:
        own = tuple([value for value in own if value.number in live])
    if terminator is block.terminator and len(own) == len(block.parameters) and not changed:
        return block
    return Block(block.number, own, tuple(instructions), terminator)
