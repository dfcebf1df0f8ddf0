"""Tests whose outcome every path to them already decides.

    value = table.get(key)        if entry == 0: value = 0 else: value = load entry; both paths meet …
    if value is None: return      … and `entry == 0` is tested again

The paths then go on to where the test would send them, and what the block merged becomes parameters of the one target
that uses it.
"""

from __future__ import annotations

from collections import Counter
from functools import cached_property
from typing import TYPE_CHECKING

from pyebpf.compiler.arithmetic import compare
from pyebpf.compiler.graph import dominators, predecessors, reverse_post_order
from pyebpf.compiler.ir import Branch, Condition, Jump
from pyebpf.compiler.passes.flow import constants, only_constants
from pyebpf.compiler.passes.rewriting import INVERSE, substitute
from pyebpf.dataclass import replace

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyebpf.compiler.ir import Block, Function, Value

#: Dominating branches that are asked. More would make the pass slower than linear.
_MAX_FACTS = 8
#: Depth in the dominator tree to which values of a tested block may be used, for the same reason.
_FARTHEST = 256

#: A test and whether it holds: condition, number of the left value, constant or number of the right one.
_Fact = tuple[Condition, int, object, bool]


def thread_known(function: Function) -> Function:
    """Lead control past blocks that only test what each path to them has decided."""
    tested = [b for b in function.blocks[1:] if isinstance(b.terminator, Branch) and only_constants(b)]
    numbers = constants(function) if tested else {}
    known = _asked_again(function, tested, numbers)
    if not known:
        return function
    threader = _Threader(function, numbers)
    for number in known:
        threader.try_block(number)
    if not threader.changed:
        return function
    blocks = threader.blocks
    order = reverse_post_order(function.blocks[0].number, {number: b.successors() for number, b in blocks.items()})
    return replace(function, blocks=tuple(blocks[number] for number in order))


def _known(value: Value, numbers: Mapping[int, int]) -> object:
    """A constant as an int, another value as its name: two equal answers are equal values."""
    number = numbers.get(value.number)
    return str(value.number) if number is None else number


def _asked_again(function: Function, tested: Sequence[Block], numbers: Mapping[int, int]) -> list[int]:
    """Of the blocks that test something, those whose outcome a path may decide.

    Such a test is of what the block merges or of a constant, or it was asked before: by another block, or by the same
    in an earlier iteration of a loop.
    """
    asked: Counter[tuple[int, object]] = Counter()
    seen: set[int] = set()
    headers: set[int] = set()
    for block in function.blocks if tested else ():
        seen.add(block.number)
        terminator = block.terminator
        headers |= seen.intersection(terminator.successors())
        if isinstance(terminator, Branch):
            asked[terminator.left.number, _known(terminator.right, numbers)] += 1
    found = []
    for block in tested:
        branch = block.terminator
        assert isinstance(branch, Branch)
        left, right = branch.left.number, branch.right.number
        merges = any(value.number in (left, right) for value in block.parameters)
        again = block.number in headers or asked[left, _known(branch.right, numbers)] > 1
        if merges or again or left in numbers:
            found.append(block.number)
    return found


class _Threader:
    def __init__(self, function: Function, numbers: Mapping[int, int]) -> None:
        self.function = function
        self.blocks = dict(function.block_map())
        self.changed = False
        order = [block.number for block in function.blocks]
        self.before = predecessors(function.successors())
        self.parent = dominators(order, self.before)
        self.numbers = numbers
        #: Blocks that this pass changed: what was known of the graph around them no longer holds.
        self.stale: set[int] = set()

    @cached_property
    def users(self) -> dict[int, set[int]]:
        """The blocks where each value is used."""
        users: dict[int, set[int]] = {}
        for block in self.function.blocks:
            for instruction in block.instructions:
                for value in instruction.operands:
                    users.setdefault(value.number, set()).add(block.number)
            for value in block.terminator.uses():
                users.setdefault(value.number, set()).add(block.number)
        return users

    def try_block(self, number: int) -> None:
        """Lead the predecessors of a block past it, if each knows the outcome of its test."""
        block = self.blocks[number]
        branch = block.terminator
        assert isinstance(branch, Branch)
        sources = self.before[number]
        around = {number, branch.then, branch.otherwise, *sources}
        if around & self.stale or number in sources or branch.then == branch.otherwise:
            return
        targets: dict[int, int] = {}
        for source in sources:
            terminator = self.blocks[source].terminator
            if not isinstance(terminator, Jump):
                return
            holds = self._outcome(source, terminator, block)
            if holds is None:
                return
            targets[source] = branch.then if holds else branch.otherwise
        successor = self._successor(block, branch)
        if successor is None:
            return
        for source, target in targets.items():
            terminator = self.blocks[source].terminator
            assert isinstance(terminator, Jump)
            arguments = terminator.arguments if target == successor else ()
            self.blocks[source] = replace(
                self.blocks[source], terminator=replace(terminator, target=target, arguments=arguments)
            )
        if successor >= 0 and successor in targets.values():
            taker = self.blocks[successor]
            self.blocks[successor] = replace(
                taker, parameters=block.parameters, instructions=(*block.instructions, *taker.instructions)
            )
        del self.blocks[number]
        # A target that no edge leads to goes as well, with all that only it leads to; the caller drops it.
        self.stale |= around
        self.changed = True

    def _successor(self, block: Block, branch: Branch) -> int | None:
        """The one target below which all values of the block are used; -1 if they are used nowhere, None if by more."""
        defined = [*block.parameters, *(i.result for i in block.instructions if i.result is not None)]
        found: set[int] = set()
        for value in defined:
            for user in self.users.get(value.number, ()):
                if user == block.number:
                    continue
                successor = self._below(block.number, user)
                if successor is None:
                    return None
                found.add(successor)
        if not found:
            return -1
        (successor, *others) = sorted(found)
        one_way = successor in (branch.then, branch.otherwise) and self.before[successor] == [block.number]
        return successor if not others and one_way else None

    def _below(self, above: int, block: int) -> int | None:
        """The child of `above` in the dominator tree that dominates `block`; None if that is far, or not so."""
        for _ in range(_FARTHEST):
            parent = self.parent[block]
            if parent == above:
                return block
            if parent == block:
                return None
            block = parent
        return None

    def _outcome(self, source: int, jump: Jump, block: Block) -> bool | None:
        """Whether the test of `block` holds when it is reached from `source`."""
        given = {p.number: value for p, value in zip(block.parameters, jump.arguments, strict=True)}
        branch = substitute(block.terminator, given)
        assert isinstance(branch, Branch)
        left, right = self.numbers.get(branch.left.number), _known(branch.right, self.numbers)
        if left is not None and isinstance(right, int):
            return compare(branch.condition, left, right)
        # What the branches above the predecessor have established.
        step = source
        for _ in range(_MAX_FACTS):
            above = self.parent[step]
            if above == step:
                return None
            fact = self._fact(above, step)
            if fact is not None:
                condition, number, other, holds = fact
                if number == branch.left.number and other == right:
                    if condition is branch.condition:
                        return holds
                    if INVERSE.get(condition) is branch.condition:
                        return not holds
            step = above
        return None

    def _fact(self, above: int, below: int) -> _Fact | None:
        """The fact that the branch at the end of `above` proves for `below`, where no other edge leads there."""
        if above not in self.blocks or self.before[below] != [above]:
            return None
        terminator = self.blocks[above].terminator
        if not isinstance(terminator, Branch) or terminator.then == terminator.otherwise:
            return None
        right = _known(terminator.right, self.numbers)
        return terminator.condition, terminator.left.number, right, below == terminator.then
