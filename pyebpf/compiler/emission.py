"""Emission: allocated functions to instructions with labels, laid out so that most jumps fall through."""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING

from pyebpf.asm import Form, Instruction, Label, Register, find_op, place, slot_starts
from pyebpf.compiler.graph import reverse_post_order
from pyebpf.compiler.machine import ADDRESS, CALLS, COMPARE, DEFINE, MachineBranch, MachineJump, MachineReturn
from pyebpf.errors import AssemblyError, CompileError
from pyebpf.specs.programs import Code, FunctionStart

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyebpf.asm import Item, Placed
    from pyebpf.compiler.edges import Allocated, AllocatedBlock
    from pyebpf.compiler.features import Features
    from pyebpf.compiler.machine import Node
    from pyebpf.errors import Location

_REGISTERS = tuple(Register)
_JA = find_op("ja", Form.JUMP)
_EXIT = find_op("exit", Form.EXIT)
_MOV = find_op("mov64", Form.DST_SRC)
_MOV_IMM = find_op("mov64", Form.DST_IMM)
_ADD_IMM = find_op("add64", Form.DST_IMM)


def emit(functions: Sequence[Allocated], target: Features) -> Code:
    """The program made of `functions`, the main one first.

    CompileError if a jump is too far for a target without `gotol`.
    """
    items: list[Item] = []
    for function in functions:
        _function(function, items, target)
    try:
        placed = _place(items, target)
    except AssemblyError as error:
        raise CompileError(f"{functions[0].function.name} is too long: {error}", functions[0].function.where) from error
    starts = slot_starts(placed.instructions) if len(functions) > 1 else (0,)
    names = [function.function.name for function in functions]
    return Code(
        placed.instructions, tuple(FunctionStart(name, bisect_left(starts, placed.labels[name])) for name in names)
    )


def _place(items: list[Item], target: Features) -> Placed:
    """Jumps resolved. A target may have to try `gotol` out: it is asked only where a jump needs it."""
    try:
        return place(items)
    except AssemblyError:
        if not target.has("isa:gotol"):
            raise
    return place(items, gotol=True)


def _function(allocated: Allocated, items: list[Item], target: Features) -> None:
    name = allocated.function.name
    blocks = {block.number: block for block in allocated.blocks}
    entry = allocated.blocks[0].number
    code = {
        number: [placed.node for placed in block.placed if placed.node.op is not DEFINE]
        for number, block in blocks.items()
    }
    #: Where control goes on from a block without code.
    passing = {
        number: terminator.target
        for number, block in blocks.items()
        if isinstance(terminator := block.terminator, MachineJump) and not code[number]
    }
    forward = {number: _final_target(number, passing) if number in passing else number for number in blocks}
    next_blocks = {number: _next_blocks(block, forward) for number, block in blocks.items()}
    order = reverse_post_order(entry, next_blocks)
    first = {number: index for index, number in enumerate(order)}
    order = _tests_last(order, blocks, forward)
    exits = {
        number for number, block in blocks.items() if isinstance(block.terminator, MachineReturn) and not code[number]
    }
    targets = {target for number in order for target in next_blocks[number]}
    items.append(Label(name))
    for index, number in enumerate(order):
        block = blocks[number]
        if number in targets:
            items.append(Label(f"{name}:{number}"))
        following = order[index + 1] if index + 1 < len(order) else None
        nodes = code[number]
        if following is not None and _ends_like(block, nodes, blocks[following], code[following]):
            for node in nodes[: len(nodes) - len(code[following])]:
                _node(node, items)
            continue
        for node in nodes:
            _node(node, items)
        # Before Linux commit 10e14e9652bf ("bpf: fix control-flow graph checking in privileged mode") (in v6.8), a loop
        # that is closed by running into its start is refused. may_goto is younger and can be asked for. The verifier
        # takes a jump to the next instruction out again.
        closes = (
            isinstance(block.terminator, MachineJump)
            and following is not None
            and first[following] < first[number]
            and not target.has("isa:may_goto")
        )
        _terminator(name, block, forward, None if closes else following, items, exits)


def _tests_last(order: list[int], blocks: dict[int, AllocatedBlock], forward: dict[int, int]) -> list[int]:
    """Each loop that begins with its test has it behind the body instead: one jump less each iteration."""
    position = {number: index for index, number in enumerate(order)}
    latches = {
        forward[terminator.target]: number
        for number in order
        if isinstance(terminator := blocks[number].terminator, MachineJump)
    }
    moved: dict[int, list[int]] = {}
    for header, latch in latches.items():
        test = blocks[header].terminator
        # A header that ends with may_goto has no back edge: its other edge goes on to the loop's own test.
        if position[latch] > position[header] > 0 and isinstance(test, MachineBranch) and test.dst >= 0:
            moved.setdefault(latch, []).append(header)
    if not moved:
        return order
    headers = {header for group in moved.values() for header in group}
    result: list[int] = []
    for number in order:
        if number not in headers:
            result.append(number)
        # A latch may be a header itself, of a loop within: both tests then follow, the inner one first.
        waiting = [number] if number not in headers else []
        while waiting:
            for header in moved.get(waiting.pop(), ()):
                result.append(header)
                waiting.append(header)
    return result


def _ends_like(block: AllocatedBlock, nodes: list[Node], following: AllocatedBlock, tail: list[Node]) -> bool:
    """Whether a block that returns ends with all that the next one does: it can fall into that instead."""
    if not isinstance(block.terminator, MachineReturn) or not isinstance(following.terminator, MachineReturn):
        return False
    return len(nodes) >= len(tail) and nodes[len(nodes) - len(tail) :] == tail


def _final_target(number: int, passing: Mapping[int, int]) -> int:
    """The block that a jump to block `number` reaches through those that only pass control on."""
    seen = set()
    while number in passing and number not in seen:
        seen.add(number)
        number = passing[number]
    return number


def _next_blocks(block: AllocatedBlock, forward: dict[int, int]) -> tuple[int, ...]:
    targets = tuple([forward[target] for target in block.terminator.successors()])
    # What falls through comes first: the edge where the condition holds, unless its jump has no opposite.
    if isinstance(block.terminator, MachineBranch) and block.terminator.test.inverse is None:
        return targets[::-1]
    return targets


def _jump(name: str, target: int, where: Location | None) -> Instruction:
    return Instruction(_JA, symbol=f"{name}:{target}", where=where)


def _terminator(
    name: str,
    block: AllocatedBlock,
    forward: dict[int, int],
    following: int | None,
    items: list[Item],
    exits: set[int],
) -> None:
    terminator = block.terminator
    where = terminator.where
    if isinstance(terminator, MachineJump):
        target = forward[terminator.target]
        if target != following and target in exits:
            items.append(Instruction(_EXIT, where=where))
        elif target != following:
            items.append(_jump(name, target, where))
    elif isinstance(terminator, MachineBranch):
        then, otherwise = forward[terminator.then], forward[terminator.otherwise]
        test = terminator.test
        if then == otherwise:
            if then != following:
                items.append(_jump(name, then, where))
            return
        if then == following and test.inverse is not None:
            test = find_op(test.inverse, test.form)
            then, otherwise = otherwise, then
        # may_goto reads no register.
        dst = _REGISTERS[terminator.dst] if terminator.dst >= 0 else Register.R0
        src = _REGISTERS[terminator.src] if terminator.src >= 0 else Register.R0
        items.append(Instruction(test, dst, src, 0, terminator.imm, f"{name}:{then}", where))
        if otherwise != following:
            items.append(_jump(name, otherwise, where))
    else:
        items.append(Instruction(_EXIT, where=where))


def _node(node: Node, items: list[Item]) -> None:
    op, where = node.op, node.where
    if op is ADDRESS:
        result = _REGISTERS[node.result]
        items.append(Instruction(_MOV, result, Register.R10, where=where))
        if node.imm:
            items.append(Instruction(_ADD_IMM, result, imm=node.imm, where=where))
        return
    if op is COMPARE:
        assert node.test is not None
        result = _REGISTERS[node.result]
        right = _REGISTERS[node.src] if node.src >= 0 else Register.R0
        items.append(Instruction(_MOV_IMM, result, imm=1, where=where))
        items.append(Instruction(node.test, _REGISTERS[node.dst], right, 1, node.imm, where=where))
        items.append(Instruction(_MOV_IMM, result, imm=0, where=where))
        return
    if op.form in CALLS:
        items.append(Instruction(op, Register.R0, Register.R0, 0, node.imm, node.symbol or None, where))
        return
    # An operation's result is in the field that it writes, which the allocator made the same as what it reads there.
    dst = node.result if "d" in op.writes else node.dst
    src = node.src
    items.append(
        Instruction(
            op,
            _REGISTERS[dst] if dst >= 0 else Register.R0,
            _REGISTERS[src] if src >= 0 else Register.R0,
            node.offset,
            node.imm,
            node.symbol or None,
            where,
        )
    )
