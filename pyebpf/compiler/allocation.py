"""Register allocation: one pass over the blocks, evicting what is needed last, then moves on the edges.

Blocks come in reverse post-order, so that a value's definition is met before its uses. Within a block each operand is
brought into a register when an operation needs it; if none is free, the value with the farthest next use gives way
(Belady), loops counting as near (`liveness`). A value that ever gives way is stored once, right behind its
definition, and loaded from there wherever it is wanted again: the verifier keeps what it knew of it then, and a store
never comes between a check and its use. Constants are made again instead.

Registers come in two classes. A value alive across a call lives in r6 to r9 if one of them is free or holds something
needed later; it moves there at its first call, not before, so that early returns don't pay.

What each block expects in registers on entry is decided when it is met; parallel moves on the edges then make it so
(`edges`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyebpf.compiler.assignment import Assignment, BlockState, Placed, on_registers
from pyebpf.compiler.entry import SHORT_LIVED, choose_entry
from pyebpf.compiler.liveness import analyse
from pyebpf.compiler.machine import (
    CALLEE_SAVED,
    CALLER_SAVED,
    CALLS,
    COMPARE,
    COPY,
    DEFINE,
    FRAME,
    LOAD_SLOT,
    MOVE,
    NONE,
    MachineBranch,
    MachineJump,
    MachineReturn,
    Node,
)
from pyebpf.compiler.moves import order_moves

if TYPE_CHECKING:
    from pyebpf.compiler.liveness import Liveness
    from pyebpf.compiler.machine import MachineBlock, MachineFunction
    from pyebpf.errors import Location

_COMMUTATIVE = frozenset({"add64", "mul64", "and64", "or64", "xor64"})


def assign(function: MachineFunction) -> Assignment:
    """Give every operand a register."""
    liveness = analyse(function)
    allocator = _Allocator(function, liveness)
    return allocator.run()


class _Allocator:
    def __init__(self, function: MachineFunction, liveness: Liveness) -> None:
        self.function = function
        self.liveness = liveness
        self.constants = function.constants
        #: Values that want a register that outlasts calls: those alive across one, and what becomes one in place.
        self.lasting = set(liveness.crossing)
        self.blocks = {block.number: block for block in function.blocks}
        self.states: dict[int, BlockState] = {}
        self.spilled: dict[int, None] = {}
        self.in_memory: set[int] = set()
        #: Registers that a value would best be in, and those that parameters of blocks still to come have got used to.
        self.wanted: dict[int, int] = {}
        #: Registers that a value had better not be in: those that a comparison's result will want.
        self.unwanted: dict[int, int] = {}
        self.parameter_registers: dict[int, int] = {}
        # The state while walking a block.
        self.registers = [NONE] * 10
        self.place: dict[int, int] = {}
        self.next_uses: dict[int, list[int]] = {}
        self.out: list[Placed] = []
        self.where: Location | None = None

    def run(self) -> Assignment:
        for index, block in enumerate(self.function.blocks):
            state = self.states[block.number] = BlockState()
            self.out = state.placed
            self._find_uses(block)
            self._find_wanted(block)
            if index == 0:
                state.start = {
                    value: 1 + i for i, value in enumerate(self.function.parameters) if self.next_uses.get(value)
                }
            else:
                state.start = self._choose_start(block)
            self.registers = [NONE] * 10
            self.place = {}
            for value, register in state.start.items():
                self._set(value, register)
            for parameter in block.parameters:
                if not self.next_uses.get(parameter):
                    self._drop(parameter)
            for node in block.nodes:
                self.where = node.where
                if node.op.form in CALLS:
                    self._call(node)
                elif node.op is COMPARE:
                    self._compare(node)
                elif node.op is COPY:
                    self._copy(node)
                else:
                    self._plain(node)
            self._finish(block, state)
        return Assignment(self.function, self.liveness, self.states, self.spilled, frozenset(self.in_memory))

    # -- what is known of a block beforehand ---------------------------------------------------------------------------

    def _find_uses(self, block: MachineBlock) -> None:
        """Places of each value's uses in the block, the next one last."""
        liveness, end = self.liveness, len(block.nodes)
        uses = {value: places.copy() for value, places in liveness.local[block.number].uses.items()}
        for value, distance in liveness.live_out[block.number].items():
            places = uses.get(value)
            if places is None:
                uses[value] = [end + 1 + distance]
            else:
                places.insert(0, end + 1 + distance)
        self.next_uses = uses

    def _find_wanted(self, block: MachineBlock) -> None:
        """Registers that values would best be in: those of arguments, results, and parameters of the next block."""
        wanted = self.wanted
        terminator = block.terminator
        if isinstance(terminator, MachineJump):
            for parameter, value in zip(self.blocks[terminator.target].parameters, terminator.arguments, strict=True):
                register = self.parameter_registers.get(parameter)
                if register is not None:
                    wanted[value] = register
        elif isinstance(terminator, MachineReturn):
            wanted[terminator.value] = 0
        for index in range(len(block.nodes) - 1, -1, -1):
            node = block.nodes[index]
            if node.arguments:
                for register, value in enumerate(node.arguments, 1):
                    wanted[value] = register
            elif node.result >= 0 and (node.op is COPY or ("d" in node.op.reads and "d" in node.op.writes)):
                source = node.src if node.op is COPY else node.dst
                if node.result in wanted:
                    wanted.setdefault(source, wanted[node.result])
                if node.result in self.lasting and self.next_uses[source][0] == index:
                    self.lasting.add(source)
            elif node.op is COMPARE and node.result in wanted:
                for value in node.uses():
                    self.unwanted[value] = wanted[node.result]

    def _choose_start(self, block: MachineBlock) -> dict[int, int]:
        """Registers of what lives into a block, and of its parameters; the rest is spilled."""
        number = block.number
        before = self.liveness.before[number]
        live = self.liveness.live_in[number]
        if len(before) == 1 and not block.parameters:
            return {value: register for value, register in self.states[before[0]].end.items() if value in live}
        ends = []
        for other in before:
            if other in self.states and other != number:
                terminator = self.blocks[other].terminator
                assert isinstance(terminator, MachineJump)
                ends.append((self.states[other].end, terminator.arguments))
        first_uses = {value: self.next_uses[value][-1] for value in block.parameters if self.next_uses.get(value)}
        start = choose_entry(block, self.liveness, ends, first_uses, self.wanted)
        for value in live:
            if value not in start:
                self._spill(value)
        for parameter in first_uses:
            if parameter in start:
                self.parameter_registers[parameter] = start[parameter]
            else:
                self._spill(parameter)
                self.in_memory.add(parameter)
        return start

    # -- registers -----------------------------------------------------------------------------------------------------

    def _set(self, value: int, register: int) -> None:
        self.place[value] = register
        self.registers[register] = value

    def _drop(self, value: int) -> None:
        register = self.place.pop(value, NONE)
        if register != NONE:
            self.registers[register] = NONE

    def _spill(self, value: int) -> None:
        if value not in self.constants:
            self.spilled[value] = None

    def _evict(self, register: int) -> None:
        value = self.registers[register]
        if value != NONE:
            self._drop(value)
            self._spill(value)

    def _distance(self, value: int) -> int:
        """The distance to the next use of a value; a value that is cheaper to bring back counts as farther."""
        uses = self.next_uses.get(value)
        if not uses:
            return 1 << 60
        if value in self.constants:
            return uses[-1] * 4
        return uses[-1] * 2 if value in self.spilled else uses[-1]

    def _used(self, node_uses: tuple[int, ...]) -> None:
        """Forget one use of each operand."""
        for value in node_uses:
            if value > 10:
                self.next_uses[value].pop()

    def _is_dead(self, value: int) -> bool:
        return not self.next_uses.get(value)

    def _free_register(self, value: int, pinned: tuple[int, ...] = ()) -> int:
        """A register for `value`, emptied if need be, none of `pinned`, which are all in use."""
        registers = self.registers
        crosses = value in self.lasting
        wanted = self.wanted.get(value, NONE)
        if wanted != NONE and registers[wanted] == NONE and (not crosses or wanted in CALLEE_SAVED):
            return wanted
        free = [
            register
            for register in ((*CALLEE_SAVED, *SHORT_LIVED[:6]) if crosses else SHORT_LIVED)
            if registers[register] == NONE
        ]
        if free:
            return free[1] if len(free) > 1 and free[0] == self.unwanted.get(value) else free[0]
        victims = [register for register in range(10) if register not in pinned]
        victim = max(victims, key=lambda register: (self._distance(registers[register]), register))
        self._evict(victim)
        return victim

    def _use(self, value: int, pinned: tuple[int, ...] = ()) -> int:
        """The register of an operand, brought into one if it is in none."""
        if value <= 10:
            return value
        register = self.place.get(value, NONE)
        if register == NONE:
            register = self._free_register(value, pinned)
            self._bring(value, register)
            self._set(value, register)
        return register

    def _bring(self, value: int, register: int) -> None:
        """Make a constant again, or load a spilled value."""
        constant = self.constants.get(value)
        if constant is not None:
            imm, symbol = constant.imm, constant.symbol
            where = constant.where or self.where
            made = Node(constant.op, register, NONE, NONE, 0, imm, symbol, (), None, where)
            self.out.append(Placed(made, constant))
        else:
            assert value in self.spilled, f"{value} is nowhere"
            self.out.append(Placed(Node(LOAD_SLOT, register, src=FRAME, where=self.where), slot_of=value))

    def _move(self, register: int, source: int) -> None:
        self.out.append(Placed(Node(MOVE, register, NONE, source, 0, 0, "", (), None, self.where)))

    # -- operations ----------------------------------------------------------------------------------------------------

    def _release(self, values: tuple[int, ...]) -> None:
        for value in values:
            if value > 10 and self._is_dead(value):
                self._drop(value)

    def _define(self, value: int, register: int) -> None:
        """The result of an operation, dropped at once if nobody wants it."""
        if value >= 0 and not self._is_dead(value):
            self._set(value, register)

    def _plain(self, node: Node) -> None:
        op = node.op
        if "d" in op.reads and "d" in op.writes:
            self._tied(node)
            return
        if "s" in op.reads and "s" in op.writes:
            self._fetch(node)
            return
        dst = src = NONE
        if node.dst >= 0:
            dst = self._use(node.dst)
        if node.src >= 0:
            src = self._use(node.src, (dst,))
        uses = node.uses()
        self._used(uses)
        self._release(uses)
        result = NONE
        if node.result >= 0:
            result = self._free_register(node.result)
            self._define(node.result, result)
        self.out.append(Placed(on_registers(node, result, dst, src), node))

    def _tied(self, node: Node) -> None:
        """An operation whose result takes the register of its first operand."""
        dst, src = node.dst, node.src
        if (
            src > 10
            and src != dst
            and node.op.name in _COMMUTATIVE
            and len(self.next_uses[src]) == 1
            and len(self.next_uses[dst]) > 1
        ):
            dst, src = src, dst
        if dst in self.constants and dst not in self.place:
            # Make it where the result shall be.
            right = self._use(src) if src >= 0 else NONE
            self._used(node.uses())
            if src >= 0 and src != dst:
                register = self._free_register(node.result, (right,))
                self._release((src,))
            else:
                register = self._free_register(node.result)
            self._bring(dst, register)
            self._define(node.result, register)
            self.out.append(Placed(on_registers(node, register, register, right if src != dst else register), node))
            return
        left = self._use(dst)
        right = self._use(src, (left,)) if src >= 0 else NONE
        self._used(node.uses())
        if self._is_dead(dst):
            register = left
            self._drop(dst)
        else:
            register = self._free_register(node.result, (right,) if right != left else ())
            if register != left:
                self._move(register, left)
            if right == left:
                right = register
        if src > 10 and self._is_dead(src):
            self._drop(src)
        self._define(node.result, register)
        self.out.append(Placed(on_registers(node, register, register, right), node))

    def _fetch(self, node: Node) -> None:
        """An atomic operation whose old value takes the register of the operand."""
        base = self._use(node.dst)
        source = self._use(node.src, (base,))
        self._used(node.uses())
        if self._is_dead(node.src):
            register = source
            self._drop(node.src)
        else:
            register = self._free_register(node.result, (base, source))
            self._move(register, source)
            self._release((node.src,))
        self._release((node.dst,))
        self._define(node.result, register)
        self.out.append(Placed(on_registers(node, register, base, register), node))

    def _compare(self, node: Node) -> None:
        """A comparison's result is written before the operands are read: it needs a register of its own."""
        left = self._use(node.dst)
        right = self._use(node.src, (left,)) if node.src >= 0 else NONE
        self._used(node.uses())
        register = self._free_register(node.result, (left, right))
        self._release(node.uses())
        self._define(node.result, register)
        self.out.append(Placed(on_registers(node, register, left, right), node))

    def _copy(self, node: Node) -> None:
        source = node.src
        if source in self.constants and source not in self.place:
            self._used((source,))
            register = self._free_register(node.result)
            self._bring(source, register)
            self._define(node.result, register)
            self.out.append(Placed(Node(DEFINE, register, src=register), node))
            return
        left = self._use(source)
        self._used((source,))
        if self._is_dead(source):
            self._drop(source)
            self._define(node.result, left)
            self.out.append(Placed(Node(DEFINE, left, src=left), node))
            return
        register = self._free_register(node.result)
        if register == left:
            self.out.append(Placed(Node(DEFINE, left, src=left), node))
        else:
            self.out.append(Placed(Node(MOVE, register, src=left, where=node.where), node))
        self._define(node.result, register)

    def _call(self, node: Node) -> None:
        """Arguments to r1 and on, what outlives the call to r6 to r9, all at once; the result comes in r0."""
        moves: dict[int, int] = {}
        later: list[tuple[int, int]] = []
        for register, value in enumerate(node.arguments, 1):
            source = self.place.get(value, NONE)
            if source == NONE:
                later.append((register, value))
            else:
                moves[register] = source
        self._used(node.arguments)
        self._release(node.arguments)
        self._save(moves)
        # Registers alone, and r0 never a destination: a cycle can always be broken through it.
        order, emergency = order_moves(moves, (0,), 0)
        assert not emergency, "a call's moves need no memory"
        self.out += [Placed(Node(MOVE, destination, src=source, where=node.where)) for destination, source in order]
        for register, value in later:
            self._bring(value, register)
        for register in CALLER_SAVED:
            if self.registers[register] != NONE:
                self._drop(self.registers[register])
        arguments = tuple(range(1, 1 + len(node.arguments)))
        result = 0 if node.result >= 0 else NONE
        self.out.append(Placed(on_registers(node, result, NONE, NONE, arguments), node))
        self._define(node.result, 0)

    def _save(self, moves: dict[int, int]) -> None:
        """Find places in r6 to r9 for what outlives a call in r0 to r5, nearest next use first; the rest is spilled."""
        exposed = [value for register in CALLER_SAVED if (value := self.registers[register]) != NONE]
        exposed.sort(key=lambda value: (self._distance(value), value))
        for value in exposed:
            source = self.place[value]
            self._drop(value)
            if value in self.constants:
                continue
            free = [register for register in CALLEE_SAVED if self.registers[register] == NONE]
            wanted = self.wanted.get(value, NONE)
            if free:
                register = wanted if wanted in free else free[0]
            else:
                register = max(CALLEE_SAVED, key=lambda saved: (self._distance(self.registers[saved]), saved))
                if self._distance(self.registers[register]) <= self._distance(value):
                    self._spill(value)
                    continue
                self._evict(register)
            self._set(value, register)
            moves[register] = source

    def _finish(self, block: MachineBlock, state: BlockState) -> None:
        terminator = block.terminator
        self.where = terminator.where
        if isinstance(terminator, MachineBranch):
            left = self._use(terminator.dst) if terminator.dst >= 0 else NONE
            right = self._use(terminator.src, (left,)) if terminator.src >= 0 else NONE
            state.test = (left, right)
        elif isinstance(terminator, MachineReturn):
            value = terminator.value
            register = self.place.get(value, NONE)
            if register == NONE:
                self._bring(value, 0)
            elif register != 0:
                self.out.append(Placed(Node(MOVE, 0, src=register, where=terminator.where)))
        state.end = dict(self.place)
        if isinstance(terminator, MachineJump):
            for parameter, value in zip(self.blocks[terminator.target].parameters, terminator.arguments, strict=True):
                register = self.place.get(value, NONE)
                if register != NONE:
                    self.parameter_registers.setdefault(parameter, register)
