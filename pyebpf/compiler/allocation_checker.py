"""Proves a register allocation right, without knowing how it was made.

A dataflow analysis over the allocated code: for each register and stack slot, the virtual registers whose value it
surely holds. Moves, loads and stores carry these sets along, definitions replace them, joins intersect them. Every
operand read must be among the values of the register it is read from; every operation of the machine form must be
there, once, in its order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyebpf.compiler.machine import (
    CALLER_SAVED,
    COMPARE,
    COPY,
    DEFINE,
    FRAME,
    LOAD_SLOT,
    MOVE,
    STORE_SLOT,
    MachineBranch,
    MachineJump,
    MachineReturn,
)
from pyebpf.errors import PyebpfError

if TYPE_CHECKING:
    from pyebpf.compiler.assignment import Placed
    from pyebpf.compiler.edges import Allocated, AllocatedBlock
    from pyebpf.compiler.machine import MachineBlock, MachineTerminator, Node

#: Values that each place surely holds: registers by number, stack slots by their negative offset. A place that is
#: missing was never written.
_State = dict[int, frozenset[int]]

_EXCHANGEABLE = frozenset({"add64", "mul64", "and64", "or64", "xor64"})


class WrongAllocation(PyebpfError):
    """Allocated code that may read another value than it should: a mistake in the allocator."""


def check_allocation(allocated: Allocated) -> None:
    """Raise WrongAllocation, naming block and operation, unless every read sees its value."""
    _Checker(allocated).run()


class _Checker:
    def __init__(self, allocated: Allocated) -> None:
        self.allocated = allocated
        self.function = allocated.function
        self.constants = allocated.function.constants
        self.place = ""

    def run(self) -> None:
        function = self.function
        virtual = {block.number: block for block in function.blocks}
        real = {block.number: block for block in self.allocated.blocks}
        if virtual.keys() != real.keys():
            self._fail("blocks were lost or made up")
        entry = function.blocks[0].number
        start: dict[int, _State] = {
            entry: {register: frozenset({value}) for register, value in enumerate(function.parameters, 1)}
        }
        # Optimistic: a block not reached yet says nothing against anything. States only shrink, so this ends.
        waiting = [entry]
        while waiting:
            number = waiting.pop()
            state = dict(start[number])
            for placed in real[number].placed:
                self._step(placed, state, check=False)
            for target, arriving in self._leave(virtual[number].terminator, virtual, state):
                known = start.get(target)
                merged = arriving if known is None else _meet(known, arriving)
                if merged != known:
                    start[target] = merged
                    waiting.append(target)
        for number, block in real.items():
            self._block(virtual[number], block, start.get(number, {}))

    def _fail(self, message: str) -> None:
        raise WrongAllocation(f"{self.function.name}{self.place}: {message}")

    def _block(self, virtual: MachineBlock, real: AllocatedBlock, start: _State) -> None:
        """With the final states: check every read of a block."""
        state = dict(start)
        expected = iter(virtual.nodes)
        for index, placed in enumerate(real.placed):
            self.place = f" block {virtual.number} operation {index} ({placed.node.op.name})"
            origin = placed.origin
            made = origin is None or self.constants.get(origin.result) is origin
            if not made and next(expected, None) is not origin:
                self._fail("stands where another operation should")
            self._step(placed, state, check=True)
        self.place = f" block {virtual.number}"
        if next(expected, None) is not None:
            self._fail("operations are missing at the end")
        self._terminator(virtual.terminator, real.terminator, state)

    def _read(self, state: _State, register: int, value: int) -> None:
        """Check that `register` holds `value`."""
        if value <= FRAME:
            if register != value:
                self._fail(f"reads r{register} instead of r{value}")
        elif value not in state.get(register, ()):
            held = sorted(state.get(register, ()))
            self._fail(f"r{register} holds {held or 'nothing known'}, not the virtual register {value}")

    def _terminator(self, virtual: MachineTerminator, real: MachineTerminator, state: _State) -> None:
        if isinstance(virtual, MachineBranch):
            if not isinstance(real, MachineBranch) or (real.test, real.imm) != (virtual.test, virtual.imm):
                self._fail("the branch has changed")
            assert isinstance(real, MachineBranch)
            if virtual.dst >= 0:
                self._read(state, real.dst, virtual.dst)
            if virtual.src >= 0:
                self._read(state, real.src, virtual.src)
        elif isinstance(virtual, MachineReturn):
            self._read(state, 0, virtual.value)
        if type(virtual) is not type(real) or virtual.successors() != real.successors():
            self._fail("goes elsewhere")

    def _leave(
        self, terminator: MachineTerminator, blocks: dict[int, MachineBlock], state: _State
    ) -> list[tuple[int, _State]]:
        """The state on entry to each block that may come next: parameters take the names of what they are given."""
        if not isinstance(terminator, MachineJump):
            return [(target, state) for target in terminator.successors()]
        parameters = blocks[terminator.target].parameters
        if not parameters:
            return [(terminator.target, state)]
        names: dict[int, list[int]] = {}
        for parameter, argument in zip(parameters, terminator.arguments, strict=True):
            names.setdefault(argument, []).append(parameter)
        renamed = {
            place: frozenset(value for value in values if value not in parameters).union(
                *(names[value] for value in values if value in names)
            )
            for place, values in state.items()
        }
        return [(terminator.target, renamed)]

    def _step(self, placed: Placed, state: _State, *, check: bool) -> None:
        """Apply one operation to the state."""
        node, origin = placed.node, placed.origin
        if origin is None:
            self._transfer(node, state, check=check)
        elif self.constants.get(origin.result) is origin:
            if check and (node.op, node.imm, node.symbol) != (origin.op, origin.imm, origin.symbol):
                self._fail("makes another constant")
            state[node.result] = frozenset({origin.result})
        else:
            self._operation(node, origin, state, check=check)

    def _transfer(self, node: Node, state: _State, *, check: bool) -> None:
        """A move, load or store that the allocator added."""
        source, destination = node.src, node.result
        if node.op is STORE_SLOT:
            destination = node.offset
        elif node.op is LOAD_SLOT:
            source = node.offset
        elif node.op is not MOVE and check:
            self._fail("was added by the allocator")
        if check:
            if node.op is not MOVE:
                if (node.dst if node.op is STORE_SLOT else node.src) != FRAME:
                    self._fail("spills to something that is not a stack")
                if node.offset % 8 or not -self.allocated.frame <= node.offset <= -self.function.frame - 8:
                    self._fail(f"the stack slot at {node.offset} is not the allocator's")
            if source not in state:
                self._fail(f"reads {source} before it is written")
        state[destination] = state.get(source, frozenset())

    def _operation(self, node: Node, origin: Node, state: _State, *, check: bool) -> None:
        """An operation of the machine form."""
        op = node.op
        if check:
            self._compare_operation(node, origin, state)
        result = origin.result
        if op is DEFINE:
            held = state.get(node.result, frozenset())
            _forget(state, result)
            state[node.result] = held - {result} | {result}
            return
        if origin.op is COPY:
            held = state.get(node.src, frozenset())
            _forget(state, result)
            state[node.result] = held - {result} | {result}
            return
        if node.is_call:
            for register in CALLER_SAVED:
                state.pop(register, None)
        if result >= 0:
            _forget(state, result)
            state[node.result] = frozenset({result})

    def _compare_operation(self, node: Node, origin: Node, state: _State) -> None:
        op = node.op
        if origin.op is COPY:
            if op not in (MOVE, DEFINE) or (op is DEFINE and node.result != node.src):
                self._fail("is not a copy")
            self._read(state, node.src, origin.src)
            return
        same = (op, node.offset, node.imm, node.symbol, node.test)
        if same != (origin.op, origin.offset, origin.imm, origin.symbol, origin.test):
            self._fail(f"has changed from {origin}")
        if node.is_call:
            if node.arguments != tuple(range(1, 1 + len(origin.arguments))):
                self._fail("arguments are not in r1 and on")
            for register, value in zip(node.arguments, origin.arguments, strict=True):
                self._read(state, register, value)
            if node.result > 0:
                self._fail("a call's result is in r0")
            return
        dst, src = origin.dst, origin.src
        tied = "d" in op.reads and "d" in op.writes
        if tied and src >= 0 and op.name in _EXCHANGEABLE:
            held = state.get(node.dst, frozenset()), state.get(node.src, frozenset())
            if src in held[0] and dst in held[1]:
                dst, src = src, dst
        for register, value in ((node.dst, dst), (node.src, src)):
            if value >= 0:
                self._read(state, register, value)
        if tied and node.result != node.dst:
            self._fail("the result is not where the first operand was")
        if "s" in op.reads and "s" in op.writes and node.result != node.src:
            self._fail("the old value is not where the operand was")
        if op is COMPARE and node.result in (node.dst, node.src):
            self._fail("the result overwrites what is compared")
        if not 0 <= node.result < FRAME and origin.result >= 0:
            self._fail("the result has no register")


def _forget(state: _State, value: int) -> None:
    """The value is defined anew, in the next pass of a loop: whatever holds the old one no longer holds it."""
    for place, values in state.items():
        if value in values:
            state[place] = values - {value}


def _meet(first: _State, second: _State) -> _State:
    """The facts that hold on both edges."""
    return {place: values & second[place] for place, values in first.items() if place in second}
