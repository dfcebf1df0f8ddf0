"""Stack slots that are never needed at the same time take the same memory, in functions that would not fit otherwise.

A slot is needed from the first access to it that a path may make to the last: where one may have been, and another may
come. One whose address goes where it can't be followed, such as into memory, is needed everywhere.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyebpf.compiler.graph import predecessors
from pyebpf.compiler.ir import Jump, Op, Return

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyebpf.compiler import ir

#: Ops whose first operand is an address in the frame that stays in a register.
_ACCESS = frozenset({Op.LOAD, Op.STORE, Op.ATOMIC})
_SAME_ADDRESS = frozenset({Op.OFFSET, Op.REFINE})


def share_slots(function: ir.Function) -> tuple[dict[str, int], int]:
    """Offset from r10 of each slot, and the bytes that all take, a multiple of 8; see `place_slots`."""
    conflicts = _conflicts(function)
    placed: dict[str, tuple[int, int]] = {}
    for slot in sorted(function.slots, key=lambda slot: -slot.size):
        taken = sorted(placed[name] for name in conflicts[slot.name] if name in placed)
        end = _end(slot, 0)
        for low, high in taken:
            if low < end and end - slot.size < high:
                end = _end(slot, high)
        placed[slot.name] = (end - slot.size, end)
    size = max((end for _, end in placed.values()), default=0)
    return {name: -end for name, (_, end) in placed.items()}, size + -size % 8


def _end(slot: ir.Slot, start: int) -> int:
    """The end, counted down from r10, of a slot that begins at `start` or as little below as its alignment allows."""
    end = start + slot.size
    return end + -end % max(slot.align, 1)


def _conflicts(function: ir.Function) -> dict[str, set[str]]:
    """For each slot the names of those that are needed at the same time as it. Sets of slots are bits of a number."""
    names = [slot.name for slot in function.slots]
    accesses, everywhere = _accesses(function, {name: 1 << index for index, name in enumerate(names)})
    before, after = _around(function, accesses)
    #: Each set of slots that are needed at one place.
    together: set[int] = set()
    for block in function.blocks:
        number = block.number
        together.add(before[number] & after[number])
        # Backwards: what has an access at or behind each place; forwards: what has one at or before it. Between two
        # accesses the same slots are needed as at one of them.
        touches = [touched for touched in accesses[number] if touched]
        coming = after[number]
        behind = []
        for touched in reversed(touches):
            coming |= touched
            behind.append(coming)
        been = before[number]
        for touched, coming in zip(touches, reversed(behind), strict=True):
            been |= touched
            together.add(been & coming)
    conflicts = [everywhere] * len(names)
    for needed in together:
        for index in _bits(needed):
            conflicts[index] |= needed
    for index in _bits(everywhere):
        conflicts[index] = (1 << len(names)) - 1
    return {name: {names[at] for at in _bits(mask)} for name, mask in zip(names, conflicts, strict=True)}


def _bits(mask: int) -> Iterator[int]:
    """Numbers of the bits that are set."""
    while mask:
        lowest = mask & -mask
        yield lowest.bit_length() - 1
        mask ^= lowest


def _accesses(function: ir.Function, bits: dict[str, int]) -> tuple[dict[int, list[int]], int]:
    """The slots that each instruction of each block may access, and those whose address can't be followed."""
    pointed = _pointed(function, bits)
    lost = 0
    accesses: dict[int, list[int]] = {}
    for block in function.blocks:
        found = accesses[block.number] = []
        for each in block.instructions:
            slots = [pointed.get(value.number, 0) for value in each.operands]
            touched = 0
            if each.op in _ACCESS:
                touched = slots[0]
                for mask in slots[1:]:
                    lost |= mask
            elif each.op is Op.CALL:
                for mask in slots:
                    touched |= mask
            elif each.op not in _SAME_ADDRESS and each.op is not Op.COMPARE:
                for mask in slots:
                    lost |= mask
            found.append(touched)
        if isinstance(block.terminator, Return):
            lost |= pointed.get(block.terminator.value.number, 0)
    return accesses, lost


def _pointed(function: ir.Function, bits: dict[str, int]) -> dict[int, int]:
    """The slots that each value may be an address in, by the value's number."""
    pointed: dict[int, int] = {}
    parameters = {block.number: block.parameters for block in function.blocks}
    changed = True
    while changed:
        changed = False
        for block in function.blocks:
            pairs = [
                (
                    each.result,
                    bits.get(each.symbol, 0) if each.op is Op.SLOT else pointed.get(each.operands[0].number, 0),
                )
                for each in block.instructions
                if each.op is Op.SLOT or each.op in _SAME_ADDRESS
            ]
            if isinstance(block.terminator, Jump):
                for parameter, value in zip(
                    parameters[block.terminator.target], block.terminator.arguments, strict=True
                ):
                    pairs.append((parameter, pointed.get(value.number, 0)))
            for result, mask in pairs:
                assert result is not None
                known = pointed.get(result.number, 0)
                if known | mask != known:
                    pointed[result.number] = known | mask
                    changed = True
    return pointed


def _around(function: ir.Function, accesses: dict[int, list[int]]) -> tuple[dict[int, int], dict[int, int]]:
    """For each block the slots that may have been accessed before it, and those that may be after it."""
    own = {}
    for number, found in accesses.items():
        own[number] = 0
        for touched in found:
            own[number] |= touched
    following = {block.number: block.successors() for block in function.blocks}
    leading = predecessors(following)
    before, after = dict.fromkeys(own, 0), dict.fromkeys(own, 0)
    changed = True
    while changed:
        changed = False
        for known, sources, order in ((before, leading, own), (after, following, reversed(own))):
            for number in order:
                mask = known[number]
                for other in sources[number]:
                    mask |= known[other] | own[other]
                if mask != known[number]:
                    known[number], changed = mask, True
    return before, after
