"""Liveness with distances: which values a block still needs where it ends, and how far away their next use is.

A distance counts operations along the nearest path; leaving a loop adds `LOOP_EXIT`, so that a value needed only
behind a loop counts as farther than any needed in it. Constants (`MachineFunction.constants`) are never live: they
are made again where they are used.
"""

from __future__ import annotations

from bisect import bisect_right
from functools import cached_property
from itertools import accumulate
from typing import TYPE_CHECKING

from pyebpf.compiler.graph import find_loops, predecessors
from pyebpf.compiler.machine import CALLS, FIRST_VIRTUAL
from pyebpf.dataclass import dataclass

if TYPE_CHECKING:
    from collections.abc import Container, Mapping

    from pyebpf.compiler.graph import Loops
    from pyebpf.compiler.machine import MachineBlock, MachineFunction

#: Added to a distance for each loop left on the path.
LOOP_EXIT = 100_000


@dataclass(slots=True)
class Local:
    """Uses and definitions of values in one block, by their numbers.

    uses    the places of each one's uses, later ones first; the terminator's place is behind all operations
    born    the place of each one's definition, -1 for a parameter
    calls   the places of calls
    """

    uses: dict[int, list[int]]
    born: dict[int, int]
    calls: list[int]


@dataclass(frozen=True)
class Liveness:
    """Facts about the values of a function, by block number.

    live_in, live_out   the values needed on entry (parameters of the block not among them) and after the terminator,
    which reads
                        its own operands before; each with the distance to its next use
    local               what the block itself does with values, constants among them
    pressure            the most values alive at once inside a block
    call_pressure       the most values alive across one call of it; -1 if it has none
    crossing            values alive across some call
    """

    function: MachineFunction
    before: dict[int, list[int]]
    loops: Loops
    live_in: dict[int, dict[int, int]]
    live_out: dict[int, dict[int, int]]
    local: dict[int, Local]
    crossing: frozenset[int]

    @cached_property
    def pressure(self) -> dict[int, int]:
        return {number: most for number, (most, _) in self._pressures.items()}

    @cached_property
    def call_pressure(self) -> dict[int, int]:
        return {number: across for number, (_, across) in self._pressures.items()}

    @cached_property
    def _pressures(self) -> dict[int, tuple[int, int]]:
        """Only loops ask for the pressure in their blocks."""
        constants = self.function.constants
        return {
            block.number: _pressure(block, self.local[block.number], self.live_out[block.number], constants)
            for block in self.function.blocks
        }


def analyse(function: MachineFunction) -> Liveness:
    """Liveness of a function whose blocks are in reverse post-order."""
    blocks = function.blocks
    successors = {block.number: block.terminator.successors() for block in blocks}
    before = predecessors(successors)
    loops = find_loops([block.number for block in blocks], before)
    constants = function.constants
    live_in: dict[int, dict[int, int]] = {block.number: {} for block in blocks}
    live_out: dict[int, dict[int, int]] = {}
    local = {block.number: _local(block) for block in blocks}
    first_uses = {
        number: {
            value: places[-1]
            for value, places in each.uses.items()
            if value not in each.born and value not in constants
        }
        for number, each in local.items()
    }
    depth = loops.depth
    # Without a back edge, one walk against the order of the blocks meets each behind all that come after it.
    position = {block.number: index for index, block in enumerate(blocks)}
    goes_back = any(position[target] <= position[number] for number in successors for target in successors[number])
    changed = True
    while changed:
        changed = False
        for block in reversed(blocks):
            number = block.number
            out: dict[int, int] = {}
            for target in successors[number]:
                needed = live_in[target]
                if depth[number] > depth[target]:
                    farther = LOOP_EXIT * (depth[number] - depth[target])
                    needed = {value: distance + farther for value, distance in needed.items()}
                if out:
                    for value, distance in needed.items():
                        if distance < out.get(value, distance + 1):
                            out[value] = distance
                else:
                    out = needed.copy()
            born, length = local[number].born, len(block.nodes) + 1
            live = {value: distance + length for value, distance in out.items() if value not in born}
            live |= first_uses[number]
            live_out[number] = out
            if goes_back and live.keys() != live_in[number].keys():
                changed = True
            live_in[number] = live
    crossing: set[int] = set()
    for number, each in local.items():
        if each.calls:
            crossing.update(_crossing(each, live_out[number], constants))
    return Liveness(function, before, loops, live_in, live_out, local, frozenset(crossing))


def _local(block: MachineBlock) -> Local:
    uses: dict[int, list[int]] = {}
    born = dict.fromkeys(block.parameters, -1)
    calls = []
    end = len(block.nodes)
    for value in block.terminator.uses():
        if value in uses:
            uses[value].append(end)
        else:
            uses[value] = [end]
    for index in range(end - 1, -1, -1):
        node = block.nodes[index]
        for value in node.uses():
            if value >= FIRST_VIRTUAL:
                places = uses.get(value)
                if places is None:
                    uses[value] = [index]
                else:
                    places.append(index)
        if node.result >= 0:
            born[node.result] = index
        if node.op.form in CALLS:
            calls.append(index)
    calls.reverse()
    return Local(uses, born, calls)


def _crossing(local: Local, live_out: Mapping[int, int], constants: Container[int]) -> set[int]:
    """Values alive across some call of a block: one strictly between the definition and the last use."""
    calls, born = local.calls, local.born
    crossing = {value for value in live_out if born.get(value, -1) < calls[-1]}
    for value, places in local.uses.items():
        index = bisect_right(calls, born.get(value, -1))
        if index < len(calls) and calls[index] < places[0] and value not in constants:
            crossing.add(value)
    return crossing


def _pressure(
    block: MachineBlock, local: Local, live_out: Mapping[int, int], constants: Container[int]
) -> tuple[int, int]:
    """The most values alive at once, and across a call (-1 without calls)."""
    end = len(block.nodes)
    last = {value: places[0] for value, places in local.uses.items()} | dict.fromkeys(live_out, end + 1)
    # Values alive between operation i and i + 1 are those born at i or before and used after i.
    changes = [0] * (end + 4)
    for value, place in last.items():
        if value not in constants:
            changes[local.born.get(value, -1) + 1] += 1
            changes[place + 1] -= 1
    alive_after = list(accumulate(changes))
    across = (alive_after[index + 1] - (block.nodes[index].result in last) for index in local.calls)
    return max(0, *alive_after), max(across, default=-1)
