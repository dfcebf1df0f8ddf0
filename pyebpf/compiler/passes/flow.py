"""Control flow: jumps through empty blocks and tests already decided, unreachable blocks, straight lines merged."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyebpf.compiler.arithmetic import MASK, compare
from pyebpf.compiler.graph import predecessors, reverse_post_order
from pyebpf.compiler.ir import Block, Branch, Jump, MayGoto, Op, Return
from pyebpf.compiler.passes.rewriting import substitute
from pyebpf.dataclass import replace

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyebpf.compiler.ir import Function, Terminator, Value

__all__ = ["tidy_flow"]


def tidy_flow(function: Function) -> Function:
    """Thread jumps, drop what cannot be reached, merge straight lines, and put the blocks in reverse post-order."""
    threaded = _thread(function)
    entry = function.blocks[0].number
    blocks = {block.number: block for block in threaded}
    order = reverse_post_order(entry, {number: block.successors() for number, block in blocks.items()})
    blocks = {number: blocks[number] for number in order}
    merged = _merge(blocks)
    return replace(function, blocks=tuple(merged))


def _thread(function: Function) -> list[Block]:
    """Blocks whose terminators go where control ends up."""
    blocks = {block.number: block for block in function.blocks}
    numbers = {
        instruction.result.number: instruction.imm & MASK
        for block in function.blocks
        for instruction in block.instructions
        if instruction.op is Op.CONST and instruction.result is not None
    }
    idle = _idle(function)
    leads = _leads(blocks, idle)

    def onward(jump: Jump) -> Jump:
        """The final target of a jump, through blocks that only jump on or only test a fact already known."""
        seen = {jump.target}
        while True:
            block = blocks[jump.target]
            if block.number not in idle:
                return jump
            given = dict(zip((value.number for value in block.parameters), jump.arguments, strict=True))
            terminator = substitute(leads.get(block.number, block.terminator), given)
            if isinstance(terminator, Branch):
                left, right = numbers.get(terminator.left.number), numbers.get(terminator.right.number)
                if left is None or right is None:
                    return jump
                holds = compare(terminator.condition, left, right)
                terminator = Jump(terminator.then if holds else terminator.otherwise, (), terminator.where)
            if not isinstance(terminator, Jump) or terminator.target in seen:
                return jump
            if _gives_own(block, terminator):
                return jump
            jump = replace(terminator, where=jump.where or terminator.where)
            seen.add(jump.target)

    def thread(terminator: Terminator) -> Terminator:
        if isinstance(terminator, Jump):
            return onward(terminator)
        if isinstance(terminator, (Branch, MayGoto)) and (
            terminator.then in idle or terminator.otherwise in idle or terminator.then == terminator.otherwise
        ):
            ways = [onward(Jump(target)) for target in (terminator.then, terminator.otherwise)]
            # These edges carry nothing.
            then, otherwise = (
                way.target if not way.arguments else target
                for way, target in zip(ways, (terminator.then, terminator.otherwise), strict=True)
            )
            if then == otherwise:
                return Jump(then, (), terminator.where)
            if (then, otherwise) != (terminator.then, terminator.otherwise):
                return replace(terminator, then=then, otherwise=otherwise)
        return terminator

    # Blocks that only return one and the same constant, which they define themselves, are one block.
    returns: dict[int, int] = {}
    shared: dict[int, int] = {}
    for block in function.blocks[1:]:
        if isinstance(block.terminator, Return) and all(i.op is Op.CONST for i in block.instructions):
            value = block.terminator.value.number
            number = numbers.get(value) if value in _defined(block) else None
            if number is not None and not block.parameters:
                shared[block.number] = returns.setdefault(number, block.number)
    blocks_after = []
    for block in function.blocks:
        terminator = thread(block.terminator)
        if shared:
            terminator = _redirect(terminator, shared)
        changed = terminator is not block.terminator
        blocks_after.append(replace(block, terminator=terminator) if changed else block)
    return blocks_after


def _redirect(terminator: Terminator, targets: Mapping[int, int]) -> Terminator:
    if isinstance(terminator, Jump) and terminator.target in targets:
        return replace(terminator, target=targets[terminator.target])
    if isinstance(terminator, (Branch, MayGoto)):
        then, otherwise = (targets.get(target, target) for target in (terminator.then, terminator.otherwise))
        if then == otherwise:
            return Jump(then, (), terminator.where)
        if (then, otherwise) != (terminator.then, terminator.otherwise):
            return replace(terminator, then=then, otherwise=otherwise)
    return terminator


def _defined(block: Block) -> set[int]:
    return {instruction.result.number for instruction in block.instructions if instruction.result is not None}


def _gives_own(block: Block, jump: Jump) -> bool:
    """Whether a block's jump gives its target what the block itself defines."""
    if not jump.arguments or not block.instructions:
        return False
    own = _defined(block)
    return any(value.number in own for value in jump.arguments)


def _leads(blocks: Mapping[int, Block], idle: set[int]) -> dict[int, Jump]:
    """The final target of each block that only jumps on, in terms of its own parameters.

    The ends of nested conditions are a chain of such blocks, as long as they are deep; each is gone along once.
    """
    passing = {
        number: block.terminator
        for number, block in blocks.items()
        if number in idle and isinstance(block.terminator, Jump) and not _gives_own(block, block.terminator)
    }
    leads: dict[int, Jump] = {}
    for start in blocks:
        chain: dict[int, Jump] = {}
        number = start
        while number in passing and number not in leads and number not in chain:
            chain[number] = passing[number]
            number = passing[number].target
        if number in chain:
            # Nothing but a way round: it leads nowhere.
            passing = {other: jump for other, jump in passing.items() if other not in chain}
            continue
        for passed, jump in reversed(chain.items()):
            end = leads.get(jump.target)
            leads[passed] = jump if end is None else _joined(jump, blocks[jump.target].parameters, end)
    return leads


def _joined(jump: Jump, parameters: Sequence[Value], onward: Jump) -> Jump:
    """One jump for two, the second from a block of these parameters."""
    given = {parameter.number: value for parameter, value in zip(parameters, jump.arguments, strict=True)}
    arguments = tuple(given.get(value.number, value) for value in onward.arguments)
    return Jump(onward.target, arguments, jump.where or onward.where)


def _idle(function: Function) -> set[int]:
    """Blocks that may be jumped past: constants are all that they define, and they alone use them.

    Constants are found from anywhere; a block of nothing else does nothing.
    """
    home: dict[int, int] = {}
    shared: set[int] = set()
    for block in function.blocks:
        for value in block.parameters:
            home[value.number] = block.number
        for instruction in block.instructions:
            if instruction.result is not None:
                home[instruction.result.number] = block.number
    for block in function.blocks:
        number = block.number
        uses = [value for instruction in block.instructions for value in instruction.operands]
        for value in (*uses, *block.terminator.uses()):
            at = home.get(value.number, number)
            if at != number:
                shared.add(at)
    return {
        block.number
        for block in function.blocks
        if block.number not in shared and all(i.op is Op.CONST for i in block.instructions)
    }


def _merge(blocks: dict[int, Block]) -> list[Block]:
    """Append to each block the one that only it leads to, parameters replaced by what it gives."""
    before = predecessors({number: block.successors() for number, block in blocks.items()})
    replaced: dict[int, Value] = {}
    gone: set[int] = set()
    merged = []
    for number, block in blocks.items():
        if number in gone:
            continue
        instructions = list(block.instructions)
        terminator = block.terminator
        while isinstance(terminator, Jump) and len(before[terminator.target]) == 1 and terminator.target != number:
            following = blocks[terminator.target]
            for parameter, value in zip(following.parameters, terminator.arguments, strict=True):
                replaced[parameter.number] = replaced.get(value.number, value)
            gone.add(following.number)
            instructions += following.instructions
            terminator = following.terminator
        merged.append(Block(number, block.parameters, tuple(instructions), terminator))
    if not replaced:
        return merged
    return [
        Block(
            block.number,
            block.parameters,
            tuple(
                replace(i, operands=tuple(replaced.get(value.number, value) for value in i.operands))
                if any(value.number in replaced for value in i.operands)
                else i
                for i in block.instructions
            ),
            substitute(block.terminator, replaced),
        )
        for block in merged
    ]
