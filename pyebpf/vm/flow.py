"""A program cut into functions and blocks, and what is certainly initialised where each block begins."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from pyebpf.asm.instruction import slot_starts
from pyebpf.asm.op import Form, Register
from pyebpf.dataclass import dataclass, field
from pyebpf.errors import InvalidValue, NotFound
from pyebpf.uapi.helpers import helper

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pyebpf.asm import Instruction

FRAME_SIZE = 512
#: The registers R0 to R10 that hold something, a bit each; above them a bit for each byte of the frame.
REGISTERS = 11
#: Declared `long` in include/uapi/linux/bpf.h, RET_VOID in their struct bpf_func_proto.
VOID = frozenset({"spin_lock", "spin_unlock", "tail_call"})
_CALLS = (Form.CALL, Form.CALL_LOCAL, Form.CALL_KFUNC, Form.CALL_REGISTER)
_PACKET = (Form.LOAD_ABSOLUTE, Form.LOAD_INDIRECT)
_STORES = (Form.STORE, Form.STORE_IMM)


@dataclass(slots=True)
class Block:
    """Instructions from index `start` up to `end` that run one after the other.

    `jump` is the block jumped to at the end, `next` the one that follows otherwise: indices, None for none. `known`
    has a bit for each register and each byte of the frame that is certainly initialised at the start.
    """

    start: int
    end: int
    jump: int | None = None
    next: int | None = None
    known: int = -1
    sources: set[int] = field(default_factory=set)


@dataclass(slots=True)
class Function:
    """One subprogram: its blocks by the index of their first instruction, in order."""

    start: int
    name: str
    blocks: dict[int, Block]
    uses_frame: bool


def functions_of(instructions: Sequence[Instruction], names: Mapping[str, int]) -> dict[int, Function]:
    """Functions by the index of their first instruction. `names`: subprograms by name, to such an index.

    InvalidValue: control leaves the function, or a jump leads into the middle of an instruction.
    """
    if not instructions:
        raise InvalidValue("a program has at least one instruction")
    slots = slot_starts(instructions)
    index_of = {slot: index for index, slot in enumerate(slots)}
    starts = {0, *names.values()}
    for index, instruction in enumerate(instructions):
        if instruction.op.form in (Form.CALL_LOCAL, Form.LDDW_FUNCTION):
            starts.add(callee(instruction, index, slots, index_of, names))
    ordered = sorted(starts)
    by_index = {index: name for name, index in names.items()}
    return {
        start: _function(instructions, start, end, by_index.get(start, f"subprogram {slots[start]}"), slots, index_of)
        for start, end in zip(ordered, [*ordered[1:], len(instructions)], strict=True)
    }


def callee(
    instruction: Instruction,
    index: int,
    slots: Sequence[int],
    index_of: Mapping[int, int],
    names: Mapping[str, int],
) -> int:
    """Index of the first instruction of the subprogram that a local call or a function load names."""
    if instruction.symbol is not None:
        if instruction.symbol not in names:
            raise InvalidValue(f"{instruction.op.name}: there is no subprogram {instruction.symbol!r}")
        return names[instruction.symbol]
    distance = instruction.distance
    assert distance is not None
    slot = slots[index] + 1 + distance
    if slot not in index_of or index_of[slot] == len(slots) - 1:
        raise InvalidValue(f"slot {slots[index]}: {instruction.op.name} to slot {slot}: no instruction begins there")
    return index_of[slot]


def _target(index: int, instruction: Instruction, slots: Sequence[int], index_of: Mapping[int, int]) -> int | None:
    if not instruction.op.is_jump:
        return None
    distance = instruction.distance
    assert distance is not None
    slot = slots[index] + 1 + distance
    return index_of.get(slot, -1)


def _function(
    instructions: Sequence[Instruction],
    start: int,
    end: int,
    name: str,
    slots: Sequence[int],
    index_of: Mapping[int, int],
) -> Function:
    jumps: dict[int, int] = {}
    leaders = {start}
    for index in range(start, end):
        instruction = instructions[index]
        target = _target(index, instruction, slots, index_of)
        if target is not None:
            if not start <= target < end:
                raise InvalidValue(f"slot {slots[index]}: jump out of range: it leaves {name}, or hits no instruction")
            jumps[index] = target
            leaders.add(target)
        if (target is not None or not instruction.op.falls_through) and index + 1 < end:
            leaders.add(index + 1)
    ordered = sorted(leaders)
    blocks = {}
    for first, after in zip(ordered, [*ordered[1:], end], strict=True):
        last = instructions[after - 1]
        block = Block(first, after, jump=jumps.get(after - 1))
        if last.op.falls_through:
            # Falling off the end is an error only when it happens.
            block.next = after
        blocks[first] = block
    for block in blocks.values():
        for target in (block.jump, block.next):
            if target in blocks:
                blocks[target].sources.add(block.start)
    body = instructions[start:end]
    uses_frame = any(
        Register.R10 in (instruction.dst, instruction.src)
        for instruction in body
        if instruction.op.form is not Form.EXIT
    )
    _propagate(instructions, blocks, start)
    return Function(start, name, blocks, uses_frame)


def _propagate(instructions: Sequence[Instruction], blocks: Mapping[int, Block], start: int) -> None:
    """Set each block's `known`: the bits that are set on every way to it."""
    # The machine checks what the main program is given and local calls pass: R1 to R5 may hold nothing.
    blocks[start].known = 1 << Register.R10
    work = [start]
    while work:
        block = blocks[work.pop()]
        after = known_after(instructions[block.start : block.end], block.known)
        for target in (block.jump, block.next):
            if target is None or target not in blocks:
                continue
            joined = blocks[target].known & after
            if joined != blocks[target].known:
                blocks[target].known = joined
                work.append(target)


@cache
def returns_value(number: int) -> bool:
    """Whether a helper leaves something in R0."""
    try:
        found = helper(number)
    except NotFound:
        return False
    return found.returns != "void" and found.name not in VOID


def known_after(instructions: Iterable[Instruction], known: int) -> int:
    """Return what is certainly initialised after running these."""
    for instruction in instructions:
        op = instruction.op
        form = op.form
        if form in _CALLS or form in _PACKET:
            known &= ~0b111111
            if form in _PACKET or (form is Form.CALL and returns_value(instruction.imm)):
                known |= 1
            continue
        if form in _STORES and instruction.dst == Register.R10:
            place = FRAME_SIZE + instruction.offset
            if 0 <= place <= FRAME_SIZE - op.size and not op.name.startswith("atomic"):
                known |= ((1 << op.size) - 1) << (REGISTERS + place)
        for register in instruction.writes:
            known |= 1 << register
    return known
