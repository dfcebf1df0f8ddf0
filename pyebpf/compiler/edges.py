"""Steps after register assignment: spill slots, stores behind definitions, moves on the edges.

The answer is a whole function over real registers, each operation still tied to the one over virtual registers that
it stands for, so that `allocation_checker` can prove it without knowing how it came about.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyebpf.compiler.allocation import assign
from pyebpf.compiler.assignment import Placed, replaced_terminator
from pyebpf.compiler.frame import colour_spills
from pyebpf.compiler.machine import FRAME, LOAD_SLOT, MOVE, STORE_SLOT, MachineJump, Node
from pyebpf.compiler.moves import SLOTS, is_slot, order_moves, slot_place
from pyebpf.dataclass import dataclass

if TYPE_CHECKING:
    from pyebpf.compiler.assignment import Assignment
    from pyebpf.compiler.machine import MachineBlock, MachineFunction, MachineTerminator


@dataclass(slots=True)
class AllocatedBlock:
    """A block over real registers."""

    number: int
    placed: list[Placed]
    terminator: MachineTerminator


@dataclass(frozen=True, slots=True)
class Allocated:
    """A function over real registers.

    `frame` counts all bytes below r10, `stores` and `loads` those that spilling added.
    """

    function: MachineFunction
    blocks: tuple[AllocatedBlock, ...]
    frame: int
    slots: int
    stores: int
    loads: int


def allocate(function: MachineFunction) -> Allocated:
    """Allocate registers and spill slots."""
    return _Finisher(assign(function)).run()


class _Finisher:
    def __init__(self, assignment: Assignment) -> None:
        self.assignment = assignment
        self.function = assignment.function
        self.colours, self.count = colour_spills(assignment)
        self.emergency = self.count
        self.stores = 0
        self.loads = 0

    def run(self) -> Allocated:
        assignment, function = self.assignment, self.function
        states = assignment.states
        blocks = {block.number: block for block in function.blocks}
        done = {
            block.number: AllocatedBlock(
                block.number,
                self._body(block, first=index == 0),
                replaced_terminator(block.terminator, states[block.number]),
            )
            for index, block in enumerate(function.blocks)
        }
        for block in function.blocks:
            terminator = block.terminator
            if isinstance(terminator, MachineJump):
                target = blocks[terminator.target]
                done[block.number].placed += self._edge(block.number, target, terminator)
        return Allocated(
            function,
            tuple(done.values()),
            function.frame + 8 * self.count,
            self.count,
            self.stores,
            self.loads,
        )

    def _offset(self, colour: int) -> int:
        return -(self.function.frame + 8 * (colour + 1))

    def _store(self, place: int, register: int, value: int) -> Placed:
        self.stores += 1
        return Placed(Node(STORE_SLOT, dst=FRAME, src=register, offset=self._offset(place - SLOTS)), slot_of=value)

    def _load(self, register: int, place: int, value: int) -> Placed:
        self.loads += 1
        return Placed(Node(LOAD_SLOT, register, src=FRAME, offset=self._offset(place - SLOTS)), slot_of=value)

    def _body(self, block: MachineBlock, *, first: bool) -> list[Placed]:
        """The block's operations, offsets of loads filled in, stores put behind the definitions of spilled values."""
        assignment = self.assignment
        state = assignment.states[block.number]
        spilled = assignment.spilled
        if not spilled:
            return state.placed
        body = [
            self._store(slot_place(self.colours[value]), state.start[value], value)
            for value in (self.function.parameters if first else block.parameters)
            if value in spilled and value in state.start
        ]
        for placed in state.placed:
            if placed.slot_of >= 0:
                load = self._load(placed.node.result, slot_place(self.colours[placed.slot_of]), placed.slot_of)
                load.node.where = placed.node.where
                body.append(load)
                continue
            body.append(placed)
            origin = placed.origin
            if origin is not None and origin.result in spilled:
                store = self._store(slot_place(self.colours[origin.result]), placed.node.result, origin.result)
                store.node.where = placed.node.where
                body.append(store)
        return body

    def _edge(self, number: int, target: MachineBlock, jump: MachineJump) -> list[Placed]:
        """The moves at the end of block `number` that give `target` what it expects."""
        assignment = self.assignment
        end = assignment.states[number].end
        start = assignment.states[target.number].start
        if not start and not assignment.in_memory:
            return []
        given = dict(zip(target.parameters, jump.arguments, strict=True))
        moves: dict[int, int] = {}
        constants: list[tuple[int, int]] = []
        wanted = [(value, register) for value, register in start.items()]
        wanted += [
            (value, slot_place(self.colours[value])) for value in target.parameters if value in assignment.in_memory
        ]
        for value, destination in wanted:
            source_value = given.get(value, value)
            register = end.get(source_value)
            if register is not None:
                if register != destination:
                    moves[destination] = register
            elif source_value in self.function.constants:
                constants.append((destination, source_value))
            else:
                moves[destination] = slot_place(self.colours[source_value])
        if not moves and not constants:
            return []
        kept = set(start.values())
        free = tuple(register for register in range(10) if register not in kept)
        # Until constants are made, last of all, their registers are as good as free.
        unset = tuple(register for register, _ in constants if not is_slot(register))
        order, emergency = order_moves(moves, free + unset, self.emergency)
        if emergency:
            self.count = max(self.count, self.emergency + 2)
        out: list[Placed] = []
        where = jump.where
        for destination, source in order:
            if is_slot(destination):
                out.append(self._store(destination, source, -1))
            elif is_slot(source):
                out.append(self._load(destination, source, -1))
            else:
                out.append(Placed(Node(MOVE, destination, src=source, where=where)))
        for destination, value in constants:
            out += self._constant(destination, value, free)
        for placed in out:
            placed.node.where = placed.node.where or where
        return out

    def _constant(self, destination: int, value: int, free: tuple[int, ...]) -> list[Placed]:
        """Make a constant where the next block expects it."""
        constant = self.function.constants[value]
        register = destination
        around: tuple[list[Placed], list[Placed]] = ([], [])
        if is_slot(destination):
            if free:
                register = free[0]
            else:
                # Lend r0: the constant's slot is written through it.
                register = 0
                self.count = max(self.count, self.emergency + 2)
                aside = slot_place(self.emergency)
                around = ([self._store(aside, 0, -1)], [self._load(0, aside, -1)])
        made = Node(
            constant.op,
            register,
            imm=constant.imm,
            symbol=constant.symbol,
            where=constant.where,
            comment=constant.comment,
        )
        out = [*around[0], Placed(made, constant)]
        if is_slot(destination):
            out.append(self._store(destination, register, -1))
        return out + around[1]
