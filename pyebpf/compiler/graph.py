"""Control-flow graphs: predecessors, reverse post-order, dominators, loops. Blocks are numbers; nothing recurses."""

from __future__ import annotations

from collections import Counter
from itertools import chain
from typing import TYPE_CHECKING

from pyebpf.dataclass import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence


def predecessors(successors: Mapping[int, Sequence[int]]) -> dict[int, list[int]]:
    """Blocks that may come right before each block, in the order of `successors`; one with two such edges twice."""
    before: dict[int, list[int]] = {number: [] for number in successors}
    for number, following in successors.items():
        for target in following:
            before[target].append(number)
    return before


def in_degrees(successors: Mapping[int, Iterable[int]]) -> Counter[int]:
    """The number of edges that lead to each block: the lengths of `predecessors`, for less."""
    return Counter(chain.from_iterable(successors.values()))


def reverse_post_order(entry: int, successors: Mapping[int, Sequence[int]]) -> list[int]:
    """The blocks reachable from `entry`, each before those it dominates, a branch's first successor right behind it."""
    order: list[int] = []
    seen: set[int] = set()
    # Blocks to go on from; behind all that is reached from a block comes its complement.
    stack = [entry]
    while stack:
        number = stack.pop()
        if number < 0:
            order.append(~number)
        elif number not in seen:
            seen.add(number)
            stack.append(~number)
            # The last successor is taken first: reversed, the first one then comes right behind the branch.
            stack += successors[number]
    order.reverse()
    return order


def dominators(order: Sequence[int], before: Mapping[int, Sequence[int]]) -> dict[int, int]:
    """Immediate dominator of each block of `order`, which is in reverse post-order; the entry is its own.

    Cooper, Harvey and Kennedy, "A Simple, Fast Dominance Algorithm" (2001).
    """
    position = {number: index for index, number in enumerate(order)}
    parent = [-1] * len(order)
    parent[0] = 0
    changed = True
    while changed:
        changed = goes_back = False
        for index in range(1, len(order)):
            meet = -1
            for number in before[order[index]]:
                other = position.get(number, -1)
                if other >= index:
                    goes_back = True
                if other < 0 or parent[other] < 0:
                    continue
                if meet < 0:
                    meet = other
                while meet != other:
                    while other > meet:
                        other = parent[other]
                    while meet > other:
                        meet = parent[meet]
            if parent[index] != meet:
                parent[index] = meet
                changed = True
        # Without a back edge every block was met behind all that lead to it.
        changed = changed and goes_back
    return {number: order[parent[index]] for index, number in enumerate(order)}


@dataclass(frozen=True, slots=True)
class Loops:
    """Natural loops.

    `bodies` has the blocks of each loop by its header, the header among them; `depth` counts the loops around a
    block.
    """

    bodies: Mapping[int, frozenset[int]]
    depth: Mapping[int, int]


def find_loops(order: Sequence[int], before: Mapping[int, Sequence[int]]) -> Loops:
    """The loops of a reducible graph; an edge back to a block that does not dominate its start makes no loop."""
    position = {number: index for index, number in enumerate(order)}
    parent: dict[int, int] | None = None
    bodies: dict[int, frozenset[int]] = {}
    depth = dict.fromkeys(order, 0)
    for header in order:
        latches = [number for number in before[header] if position.get(number, -1) >= position[header]]
        if not latches:
            continue
        parent = parent or dominators(order, before)
        body = {header}
        work = [latch for latch in latches if _dominates(parent, position, header, latch)]
        while work:
            number = work.pop()
            if number not in body:
                body.add(number)
                work.extend(before[number])
        if len(body) > 1 or header in latches:
            bodies[header] = frozenset(body)
            for number in body:
                depth[number] += 1
    return Loops(bodies, depth)


def _dominates(parent: Mapping[int, int], position: Mapping[int, int], upper: int, lower: int) -> bool:
    while position[lower] > position[upper]:
        lower = parent[lower]
    return lower == upper
