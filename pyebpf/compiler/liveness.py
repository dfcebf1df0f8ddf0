"""Liveness with distances: which values a block still needs where it ends, and how far away their next use is.

A distance counts operations along the nearest way; leaving a loop adds `LOOP_EXIT`, so that a value needed only
behind a loop counts as farther than any needed in it. Constants (`MachineFunction.constants`) are never live: they
are made again where they are used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyebpf.compiler.graph import find_loops, predecessors
from pyebpf.dataclass import dataclass

if TYPE_CHECKING:
    from pyebpf.compiler.graph import Loops
    from pyebpf.compiler.machine import MachineBlock, MachineFunction

__all__ = ["LOOP_EXIT", "Liveness", "analyse"]

#: Added to a distance for each loop left on the way.
LOOP_EXIT = 100_000


@dataclass(frozen=True, slots=True)
class Liveness:
    """Facts about the values of a function, by block number.

    live_in, live_out   the values needed on entry (parameters of the block not among them) and after the terminator,
    which reads
                        its own operands before; each with the distance to its next use
    pressure            the most values alive at once inside a block
    call_pressure       the most values alive across one call of it; -1 if it has none
    crossing            values alive across some call
    """

    before: dict[int, list[int]]
    loops: Loops
    live_in: dict[int, dict[int, int]]
    live_out: dict[int, dict[int, int]]
    pressure: dict[int, int]
    call_pressure: dict[int, int]
    crossing: frozenset[int]


def analyse(function: MachineFunction) -> Liveness:
    """Liveness of a function whose blocks are in reverse post-order."""
    blocks = function.blocks
    successors = {block.number: block.terminator.successors() for block in blocks}
    before = predecessors(successors)
    loops = find_loops([block.number for block in blocks], before)
    constants = function.constants
    live_in: dict[int, dict[int, int]] = {block.number: {} for block in blocks}
    live_out: dict[int, dict[int, int]] = {block.number: {} for block in blocks}
    local = {block.number: _local(block, constants) for block in blocks}
    depth = loops.depth
    # Without a way back, one walk against the order of the blocks meets each behind all that come after it.
    position = {block.number: index for index, block in enumerate(blocks)}
    goes_back = any(position[target] <= position[number] for number in successors for target in successors[number])
    changed = True
    while changed:
        changed = False
        for block in reversed(blocks):
            number = block.number
            out: dict[int, int] = {}
            for target in successors[number]:
                farther = LOOP_EXIT * max(depth[number] - depth[target], 0)
                for value, distance in live_in[target].items():
                    known = out.get(value)
                    if known is None or distance + farther < known:
                        out[value] = distance + farther
            first_uses, defined, length = local[number]
            live = {value: distance + length for value, distance in out.items() if value not in defined}
            live.update(first_uses)
            live_out[number] = out
            if goes_back and live.keys() != live_in[number].keys():
                changed = True
            live_in[number] = live
    pressure: dict[int, int] = {}
    call_pressure: dict[int, int] = {}
    crossing: set[int] = set()
    for block in blocks:
        number = block.number
        pressure[number], call_pressure[number] = _pressure(
            block, live_in[number], live_out[number], constants, crossing
        )
    return Liveness(before, loops, live_in, live_out, pressure, call_pressure, frozenset(crossing))


def _local(block: MachineBlock, constants: object) -> tuple[dict[int, int], set[int], int]:
    """Values used before any definition with the place of their first use, the values defined, and the length."""
    assert isinstance(constants, dict)
    defined = set(block.parameters)
    first: dict[int, int] = {}
    for index, node in enumerate(block.nodes):
        for value in node.uses():
            if value not in defined and value not in first and value not in constants and value > 10:
                first[value] = index
        if node.result >= 0:
            defined.add(node.result)
    length = len(block.nodes)
    for value in block.terminator.uses():
        if value not in defined and value not in first and value not in constants:
            first[value] = length
    return first, defined, length + 1


def _pressure(
    block: MachineBlock, live_in: dict[int, int], live_out: dict[int, int], constants: object, crossing: set[int]
) -> tuple[int, int]:
    """The most values alive at once, and across a call (-1 without calls).

    Adds what lives across a call to `crossing`.
    """
    assert isinstance(constants, dict)
    last: dict[int, int] = {}
    calls = []
    born: dict[int, int] = dict.fromkeys(block.parameters, -1)
    for index, node in enumerate(block.nodes):
        for value in node.uses():
            last[value] = index
        if node.result >= 0:
            born[node.result] = index
        if node.is_call:
            calls.append(index)
    end = len(block.nodes)
    for value in block.terminator.uses():
        last[value] = end
    for value in live_out:
        last[value] = end + 1
    # Values alive between operation i and i + 1 are those born at i or before and used after i.
    changes = [0] * (end + 4)
    for value, place in last.items():
        if value <= 10 or value in constants:
            continue
        start = born.get(value, -1)
        changes[start + 1] += 1
        changes[place + 1] -= 1
    for value in live_in:
        if value not in last:
            raise AssertionError(f"{value} is live into block {block.number} and not used")
    most = alive = 0
    alive_after = []
    for change in changes:
        alive += change
        most = max(most, alive)
        alive_after.append(alive)
    if not calls:
        return most, -1
    # Calls up to a place, so that "is there a call strictly between birth and last use" is one subtraction.
    counted = [0] * (end + 3)
    for index in calls:
        counted[index + 1] += 1
    for index in range(1, len(counted)):
        counted[index] += counted[index - 1]
    for value, place in last.items():
        if value <= 10 or value in constants:
            continue
        # Calls at indices born+1 … place-1.
        if counted[min(place, end)] - counted[born.get(value, -1) + 1] > 0:
            crossing.add(value)
    across = max(alive_after[index + 1] - (block.nodes[index].result in last) for index in calls)
    return most, across
