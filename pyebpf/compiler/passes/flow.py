"""Control flow: jumps through empty blocks and tests already decided, unreachable blocks, straight lines merged."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyebpf.compiler.arithmetic import MASK, compare
from pyebpf.compiler.graph import in_degrees, reverse_post_order
from pyebpf.compiler.ir import CONSTANTS, Block, Branch, Jump, MayGoto, Op, Return
from pyebpf.compiler.passes.rewriting import substitute, with_replaced

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from pyebpf.compiler.ir import Function, Terminator, Value


def tidy_flow(function: Function) -> Function:
    """Thread jumps, drop what cannot be reached, merge straight lines, and put the blocks in reverse post-order."""
    threaded = function.with_blocks(_thread(function))
    blocks, successors = threaded.block_map(), threaded.successors()
    if threaded is not function:
        order = reverse_post_order(function.blocks[0].number, successors)
        blocks = {number: blocks[number] for number in order}
        successors = {number: successors[number] for number in order}
    return function.with_blocks(_merge(blocks, in_degrees(successors)))


def only_constants(block: Block) -> bool:
    """Whether a block computes nothing: constants are all that it defines."""
    for instruction in block.instructions:  # noqa: SIM110 - most blocks answer at once, and a generator takes longer
        if instruction.op is not Op.CONST:
            return False
    return True


def _thread(function: Function) -> list[Block]:
    """Blocks whose terminators go where control ends up."""
    idle = _idle(function)
    blocks = {block.number: block for block in function.blocks}
    tests = [number for number in idle if isinstance(blocks[number].terminator, Branch)]
    numbers = constants(function) if tests else {}
    for number in tests:
        if not _may_be_decided(blocks[number], numbers):
            del idle[number]
    fixed = {
        instruction.result.number
        for instruction in function.blocks[0].instructions
        if instruction.op in CONSTANTS and instruction.result is not None
    }
    leads = _leads(blocks, idle, fixed)

    def onward(jump: Jump) -> Jump:
        """The final target of a jump, through blocks that only jump on or only test a fact already known."""
        seen = {jump.target}
        while jump.target in idle:
            block = blocks[jump.target]
            terminator = leads.get(block.number, block.terminator)
            if block.parameters:
                pairs = zip(block.parameters, jump.arguments, strict=True)
                terminator = substitute(terminator, {value.number: argument for value, argument in pairs})
            if isinstance(terminator, Branch):
                left, right = numbers.get(terminator.left.number), numbers.get(terminator.right.number)
                if left is None or right is None:
                    return jump
                holds = compare(terminator.condition, left, right)
                terminator = Jump(terminator.then if holds else terminator.otherwise, (), terminator.where)
            if not isinstance(terminator, Jump) or terminator.target in seen:
                return jump
            if _gives_own(block, terminator, fixed):
                return jump
            jump = Jump(terminator.target, terminator.arguments, jump.where or terminator.where)
            seen.add(jump.target)
        return jump

    def thread(terminator: Terminator) -> Terminator:
        if isinstance(terminator, Jump):
            return onward(terminator) if terminator.target in idle else terminator
        if isinstance(terminator, (Branch, MayGoto)) and (
            terminator.then in idle or terminator.otherwise in idle or terminator.then == terminator.otherwise
        ):
            return _to(terminator, past(terminator.then), past(terminator.otherwise))
        return terminator

    def past(target: int) -> int:
        """Where an edge without arguments goes: it cannot carry any."""
        if target not in idle:
            return target
        lead = leads.get(target)
        jump = lead if lead is not None and lead.target not in idle else onward(Jump(target))
        return target if jump.arguments else jump.target

    shared = _equal_returns(function, idle)
    blocks_after = []
    for block in function.blocks:
        terminator = thread(block.terminator)
        if shared:
            terminator = _redirect(terminator, shared)
        blocks_after.append(block if terminator is block.terminator else block.with_terminator(terminator))
    return blocks_after


def constants(function: Function) -> dict[int, int]:
    """The numbers that values are known to be."""
    return _constants_of(*function.blocks)


def _constants_of(*blocks: Block) -> dict[int, int]:
    return {
        instruction.result.number: instruction.imm & MASK
        for block in blocks
        for instruction in block.instructions
        if instruction.op is Op.CONST and instruction.result is not None
    }


def _equal_returns(function: Function, idle: Collection[int]) -> dict[int, int]:
    """For each block that only returns a constant, its own or the first block's, the first that returns the same."""
    first, *others = function.blocks
    returning = [b for b in others if isinstance(b.terminator, Return) and b.number in idle and not b.parameters]
    numbers = _constants_of(first, *returning) if len(returning) > 1 else {}
    returns: dict[int, int] = {}
    return {
        block.number: returns.setdefault(numbers[value.number], block.number)
        for block in returning
        for value in block.terminator.uses()
        if value.number in numbers
    }


def _redirect(terminator: Terminator, targets: Mapping[int, int]) -> Terminator:
    if isinstance(terminator, Jump):
        if terminator.target in targets:
            return Jump(targets[terminator.target], terminator.arguments, terminator.where)
    elif isinstance(terminator, (Branch, MayGoto)):
        then, otherwise = terminator.then, terminator.otherwise
        if then in targets or otherwise in targets:
            return _to(terminator, targets.get(then, then), targets.get(otherwise, otherwise))
    return terminator


def _to(terminator: Branch | MayGoto, then: int, otherwise: int) -> Terminator:
    """A terminator with these targets; a jump if they are one."""
    if then == otherwise:
        return Jump(then, (), terminator.where)
    if (then, otherwise) != (terminator.then, terminator.otherwise):
        return terminator.with_successors(then, otherwise)
    return terminator


def _defined(block: Block) -> list[int]:
    return [instruction.result.number for instruction in block.instructions if instruction.result is not None]


def _may_be_decided(block: Block, numbers: Mapping[int, int]) -> bool:
    """Whether a jump to a block may decide the block's test: of constants, and of parameters."""
    own = [parameter.number for parameter in block.parameters]
    return all(value.number in numbers or value.number in own for value in block.terminator.uses())


def _gives_own(block: Block, jump: Jump, fixed: Collection[int]) -> bool:
    """Whether a block's jump gives its target what the block itself defines, or a constant.

    Many edges may lead to a block that gives one: past it, each would have to give it, and a branch cannot.
    """
    own = _defined(block) if block.instructions else ()
    for value in jump.arguments:  # noqa: SIM110 - most jumps have one argument or none, and a generator takes longer
        if value.number in fixed or value.number in own:
            return True
    return False


def _leads(blocks: Mapping[int, Block], idle: Collection[int], fixed: Collection[int]) -> dict[int, Jump]:
    """The final target of each block that only jumps on, in terms of its own parameters.

    The ends of nested conditions are a chain of such blocks, as long as they are deep; each is gone along once.
    """
    passing = {
        number: block.terminator
        for number in idle
        if isinstance((block := blocks[number]).terminator, Jump) and not _gives_own(block, block.terminator, fixed)
    }
    leads: dict[int, Jump] = {}
    for start in list(passing):
        chain: dict[int, Jump] = {}
        number = start
        while number in passing and number not in leads and number not in chain:
            chain[number] = passing[number]
            number = passing[number].target
        if number in chain:
            # Nothing but a cycle: it leads nowhere.
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


def _idle(function: Function) -> dict[int, None]:
    """Blocks that may be jumped past, in order: constants are all that they define, and they alone use them.

    Constants are found from anywhere; a block of nothing else does nothing.
    """
    idle: dict[int, None] = {}
    home: dict[int, int] = {}
    for block in function.blocks:
        if only_constants(block):
            idle[block.number] = None
            for value in block.parameters:
                home[value.number] = block.number
            for instruction in block.instructions:
                if instruction.result is not None:
                    home[instruction.result.number] = block.number
    if not home:
        return idle
    for block in function.blocks:
        number = block.number
        for instruction in block.instructions:
            for value in instruction.operands:
                at = home.get(value.number, number)
                if at != number:
                    idle.pop(at, None)
        for value in block.terminator.uses():
            at = home.get(value.number, number)
            if at != number:
                idle.pop(at, None)
    return idle


def _merge(blocks: Mapping[int, Block], edges_into: Mapping[int, int]) -> list[Block]:
    """Append to each block the one that only it leads to, parameters replaced by what it gives."""
    replaced: dict[int, Value] = {}
    gone: set[int] = set()
    merged = []
    for number, block in blocks.items():
        if number in gone:
            continue
        terminator = block.terminator
        if not isinstance(terminator, Jump) or edges_into[terminator.target] > 1 or terminator.target == number:
            merged.append(block)
            continue
        instructions = list(block.instructions)
        while isinstance(terminator, Jump) and edges_into[terminator.target] == 1 and terminator.target != number:
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
        block.with_instructions(
            [with_replaced(instruction, replaced) for instruction in block.instructions]
        ).with_terminator(substitute(block.terminator, replaced))
        for block in merged
    ]
