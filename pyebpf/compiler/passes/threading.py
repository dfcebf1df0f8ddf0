"""Tests whose outcome every way to them already knows.

    value = table.get(key)        if entry == 0: value = 0 else: value = load entry; both ways meet …
    if value is None: return      … and `entry == 0` is tested again

The ways then go on to where the test would send them, and what the block merged becomes parameters of the one target
that uses it.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from pyebpf.compiler.arithmetic import compare
from pyebpf.compiler.graph import dominators, predecessors, reverse_post_order
from pyebpf.compiler.ir import Branch, Condition, Jump
from pyebpf.compiler.passes.flow import constants, only_constants
from pyebpf.compiler.passes.rewriting import INVERSE, substitute
from pyebpf.dataclass import replace

if TYPE_CHECKING:
    from pyebpf.compiler.ir import Block, Function, Value

__all__ = ["thread_known"]

#: Dominating branches that are asked. More would make the pass slower than linear.
_MOST_FACTS = 8
#: Depth in the dominator tree to which values of a tested block may be used, for the same reason.
_FARTHEST = 256

#: A test and whether it holds: condition, number of the left value, constant or number of the right one.
_Fact = tuple[Condition, int, object, bool]


def thread_known(function: Function) -> Function:
    """Lead control past blocks that only test what each way to them knows."""
    tested = [b for b in function.blocks[1:] if isinstance(b.terminator, Branch) and only_constants(b)]
    if not tested:
        return function
    threader = _Threader(function)
    for block in tested:
        threader.try_block(block.number)
    if not threader.changed:
        return function
    blocks = threader.blocks
    order = reverse_post_order(function.blocks[0].number, {number: b.successors() for number, b in blocks.items()})
    return replace(function, blocks=tuple(blocks[number] for number in order))


class _Threader:
    def __init__(self, function: Function) -> None:
        self.function = function
        self.blocks = dict(function.block_map())
        self.changed = False
        order = [block.number for block in function.blocks]
        self.before = predecessors(function.successors())
        self.parent = dominators(order, self.before)
        self.numbers = constants(function)
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
        """Lead the ways to a block past it, if each knows the outcome of its test."""
        block = self.blocks[number]
        branch = block.terminator
        assert isinstance(branch, Branch)
        ways = self.before[number]
        around = {number, branch.then, branch.otherwise, *ways}
        if around & self.stale or number in ways or branch.then == branch.otherwise:
            return
        targets: dict[int, int] = {}
        for way in ways:
            terminator = self.blocks[way].terminator
            if not isinstance(terminator, Jump):
                return
            holds = self._outcome(way, terminator, block)
            if holds is None:
                return
            targets[way] = branch.then if holds else branch.otherwise
        heir = self._heir(block, branch)
        if heir is None:
            return
        for way, target in targets.items():
            terminator = self.blocks[way].terminator
            assert isinstance(terminator, Jump)
            arguments = terminator.arguments if target == heir else ()
            self.blocks[way] = replace(
                self.blocks[way], terminator=replace(terminator, target=target, arguments=arguments)
            )
        if heir >= 0 and heir in targets.values():
            taker = self.blocks[heir]
            self.blocks[heir] = replace(
                taker, parameters=block.parameters, instructions=(*block.instructions, *taker.instructions)
            )
        del self.blocks[number]
        # A target that no way leads to goes as well, with all that only it leads to; the caller drops it.
        self.stale |= around
        self.changed = True

    def _heir(self, block: Block, branch: Branch) -> int | None:
        """The one target below which all values of the block are used; -1 if they are used nowhere, None if by more."""
        defined = [*block.parameters, *(i.result for i in block.instructions if i.result is not None)]
        heirs: set[int] = set()
        for value in defined:
            for user in self.users.get(value.number, ()):
                if user == block.number:
                    continue
                heir = self._below(block.number, user)
                if heir is None:
                    return None
                heirs.add(heir)
        if not heirs:
            return -1
        (heir, *others) = sorted(heirs)
        one_way = heir in (branch.then, branch.otherwise) and self.before[heir] == [block.number]
        return heir if not others and one_way else None

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

    def _outcome(self, way: int, jump: Jump, block: Block) -> bool | None:
        """Whether the test of `block` holds when it is reached from `way`."""
        given = {p.number: value for p, value in zip(block.parameters, jump.arguments, strict=True)}
        branch = substitute(block.terminator, given)
        assert isinstance(branch, Branch)
        left, right = self.numbers.get(branch.left.number), self._known(branch.right)
        if left is not None and isinstance(right, int):
            return compare(branch.condition, left, right)
        # What the branches around the way have established.
        step = way
        for _ in range(_MOST_FACTS):
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

    def _known(self, value: Value) -> object:
        """A constant as an int, another value as its name: two equal answers are equal values."""
        number = self.numbers.get(value.number)
        return str(value.number) if number is None else number

    def _fact(self, above: int, below: int) -> _Fact | None:
        """The fact that the branch at the end of `above` proves for `below`, where no other edge leads there."""
        if above not in self.blocks or self.before[below] != [above]:
            return None
        terminator = self.blocks[above].terminator
        if not isinstance(terminator, Branch) or terminator.then == terminator.otherwise:
            return None
        right = self._known(terminator.right)
        return terminator.condition, terminator.left.number, right, below == terminator.then
