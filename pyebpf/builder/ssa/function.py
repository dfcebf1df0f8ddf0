"""`FunctionBuilder`: one function of IR, made by structured control flow over mutable variables."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, NoReturn

from pyebpf.builder.ssa.blocks import Edge, Join, Loop, OpenBlock, successors
from pyebpf.builder.ssa.conditions import All, Always, Any, Compare, Not, as_one, negate
from pyebpf.builder.ssa.constants import Constants
from pyebpf.builder.ssa.environment import S64_MAX, S64_MIN, Environment, Interval, Variable, invalidated, learn, merge
from pyebpf.compiler import ir
from pyebpf.compiler.graph import reverse_post_order
from pyebpf.compiler.ir import Condition as Relation, Op, ValueType
from pyebpf.errors import CompileError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from pyebpf.builder.ssa.blocks import Cleanup
    from pyebpf.builder.ssa.conditions import Test
    from pyebpf.errors import Location

__all__ = ["FunctionBuilder", "Join", "Loop"]

_CALLS = frozenset({Op.CALL, Op.CALL_LOCAL, Op.CALL_KFUNC})


class FunctionBuilder:
    """Builds one `ir.Function`.

    Code goes to the current point. Variables are written and read freely; values that differ where paths meet become
    block parameters. After a jump or a return the current point is unreachable, and what is built there is dropped.

    `where` is the source place that new instructions carry. Structured use:

        with b.if_(test):
            ...
        with b.else_():
            ...
        with b.loop(carried=[i]) as loop:
            ...  # b.break_(loop), b.continue_(loop); it repeats by itself
    """

    def __init__(self, name: str, parameters: Sequence[ValueType], where: Location | None = None) -> None:
        self.name = name
        self.where = where
        self._defined_at = where
        self._numbers = 0
        self._blocks: list[OpenBlock] = []
        self._constants = Constants(self.new_value)
        self._slots: list[ir.Slot] = []
        self._shared_slots: dict[str, ir.Slot] = {}
        #: Slots that nothing uses now, for the next temporaries.
        self.free_slots: list[ir.Slot] = []
        #: Variables with the ends of packets, by where the context has them.
        self.packet_ends: dict[int, Variable] = {}
        self._uses: list[tuple[int, str, Location | None]] = []
        #: Names of slots that hold what only the kernel's functions read and write, such as dynptrs.
        self.opaque: set[str] = set()
        #: Maps whose addresses this function makes invalid, with the reason: it does so to its callers' too.
        self.invalidated: dict[str, str] = {}
        self.parameters = tuple(self.new_value(type_, f"r{i}") for i, type_ in enumerate(parameters, 1))
        self._environment = Environment.of_function()
        self._regions: tuple[Cleanup, ...] = ()
        #: Numbers of scalars that have been compared with others than constants.
        self.compared: set[int] = set()
        #: The reason that nothing may be called here; empty where calls are allowed.
        self.no_calls = ""
        self._block = self._open()
        #: State for `else_`: the way not taken by the last `if_` and where both meet, until anything else is built.
        self._pending: tuple[Join, Join] | None = None

    @property
    def environment(self) -> Environment:
        """Variables and facts at the current point: behind an `if_` that no `else_` has followed."""
        if self._pending is not None:
            self._settle()
        return self._environment

    # -- errors ------------------------------------------------------------------------------------------------------

    def fail(self, message: str, where: Location | None = None) -> NoReturn:
        """Raise CompileError at `where`, or at the current place."""
        raise CompileError(message, where or self.where)

    # -- values and instructions -------------------------------------------------------------------------------------

    def new_value(self, type_: ValueType = ValueType.SCALAR, hint: str = "") -> ir.Value:
        """Return a fresh SSA value; whoever asks must define it."""
        value = ir.Value(self._numbers, type_, hint)
        self._numbers += 1
        return value

    def emit(
        self,
        op: Op,
        *operands: ir.Value,
        result: ValueType | None = None,
        imm: int = 0,
        size: int = 8,
        signed: bool = False,
        condition: Relation | None = None,
        symbol: str = "",
        hint: str = "",
        comment: str = "",
    ) -> ir.Value:
        """Append an instruction. `result` is needed where `OPS` says DECLARED, and may be None there for no result.

        An op without a result returns its first operand, so that callers need not tell the two apart. A constant is
        computed once for the whole function.
        """
        type_ = ir.RESULT_TYPES[op] if op in ir.RESULT_TYPES else operands[0].type if op is Op.REFINE else result
        if op in ir.CONSTANTS and type_ is not None:
            return self._constants.value(op, type_, imm, symbol, self.where)
        if self.no_calls and op in _CALLS:
            self.fail(self.no_calls)
        value = None if type_ is None else self.new_value(type_, hint)
        if self._pending is not None:
            self._settle()
        self._block.instructions.append(
            ir.Instruction(op, value, operands, imm, size, signed, condition, symbol, self.where, comment)
        )
        return value or (operands[0] if operands else ir.Value(-1))

    def const(self, number: int) -> ir.Value:
        """Return a 64-bit constant (given signed or unsigned)."""
        number = (number + (1 << 63)) % (1 << 64) - (1 << 63)
        value = self._constants.value(Op.CONST, ValueType.SCALAR, number, "", self.where)
        self._environment.facts.bounds[value.number] = (number, number)
        return value

    def binary(self, op: Op, left: ir.Value, right: ir.Value) -> ir.Value:
        """Append a two-operand arithmetic instruction."""
        return self.emit(op, left, right)

    def load(
        self, address: ir.Value, offset: int, size: int, *, signed: bool = False, result: ValueType = ValueType.SCALAR
    ) -> ir.Value:
        """Load `size` bytes at address + offset."""
        value = self.emit(Op.LOAD, address, result=result, imm=offset, size=size, signed=signed)
        if result is ValueType.SCALAR and size < 8:
            top = 1 << 8 * size - 1
            self._environment.facts.bounds[value.number] = (-top, top - 1) if signed else (0, 2 * top - 1)
        return value

    def store(self, address: ir.Value, offset: int, value: ir.Value, size: int) -> None:
        """Store the low `size` bytes of `value` at address + offset."""
        self.emit(Op.STORE, address, value, imm=offset, size=size)

    def slot(self, size: int, align: int = 8, name: str = "", *, opaque: bool = False) -> ir.Slot:
        """Reserve `size` bytes of stack frame, and return the slot. Nothing initialises it."""
        slot = ir.Slot(f"{name or 'slot'}.{len(self._slots)}", size, max(align, 1), self.where)
        self._slots.append(slot)
        if opaque:
            self.opaque.add(slot.name)
        return slot

    def shared_slot(self, name: str, size: int = 8) -> ir.Slot:
        """Return the function's one slot of that name, reserved when it is first asked for."""
        if name not in self._shared_slots:
            self._shared_slots[name] = self.slot(size, name=name)
        return self._shared_slots[name]

    def slot_address(self, slot: ir.Slot, offset: int = 0) -> ir.Value:
        """Address of byte `offset` of a slot; known not to be NULL."""
        value = self.emit(Op.SLOT, symbol=slot.name, imm=offset)
        self._environment.facts.non_null.add(value.number)
        return value

    def call(
        self, helper: int, *arguments: ir.Value, result: ValueType = ValueType.SCALAR, comment: str = ""
    ) -> ir.Value:
        """Call a kernel helper by its number."""
        return self.emit(Op.CALL, *arguments, result=result, imm=helper, comment=comment)

    # -- facts ---------------------------------------------------------------------------------------------------------

    def bounds(self, value: ir.Value) -> Interval:
        """Inclusive bounds of `value` read as s64, as far as they are known here."""
        return self.environment.interval(value.number) or (S64_MIN, S64_MAX)

    def assume_bounds(self, value: ir.Value, low: int, high: int) -> None:
        """State bounds that hold by construction."""
        self.environment.narrow(value, low, high, always=self.made_here(value))

    def made_here(self, value: ir.Value) -> bool:
        """Whether no branch stands between a value's definition and here: what holds here holds wherever it is used."""
        return value.number >= self._block.first

    def is_non_null(self, value: ir.Value) -> bool:
        """Whether every path here has found this address not to be NULL."""
        return self.environment.is_non_null(value.number)

    def assume_non_null(self, value: ir.Value) -> None:
        """State that an address is never NULL by construction."""
        self.environment.facts.non_null.add(value.number)

    def invalidated_by(self, value: ir.Value) -> str | None:
        """Why some path here has made this address invalid, or None."""
        return self.environment.invalidated_by(value.number)

    def assume_origin(self, value: ir.Value, origin: str) -> None:
        """State which map an address comes from."""
        self.environment.facts.comes_from(value.number, origin)

    def origin(self, value: ir.Value) -> str | None:
        """Which map an address comes from, if it is known."""
        origin = self._environment.facts.origins.get(value.number)
        return None if origin is None else origin.name

    def invalidate_origin(self, origin: str, reason: str) -> None:
        """State that every address of a map is invalid from here on."""
        self._settle()
        self.invalidated[origin] = reason
        self._environment.invalidate_origin(origin, reason)

    def note_use(self, value: ir.Value, what: str) -> None:
        """Note that an address is used here: an earlier iteration of a loop may have made it invalid."""
        self._uses.append((value.number, what, self.where))

    def propagate_uses(self, inner: FunctionBuilder, passed: Mapping[int, ir.Value]) -> None:
        """Note as used here what `inner` uses of the values that it was passed, by their numbers there."""
        self._uses += [(passed[n].number, what, where) for n, what, where in inner._uses if n in passed]

    def definition(self, value: ir.Value) -> ir.Instruction | None:
        """The instruction that a value is the result of; None for a parameter of a block."""
        if value.number in self._constants.definitions:
            return self._constants.definitions[value.number]
        for block in (self._block, *reversed(self._blocks)):
            for instruction in reversed(block.instructions) if block.first <= value.number else ():
                if instruction.result == value:
                    return instruction
        return None

    # -- variables -----------------------------------------------------------------------------------------------------

    def variable(self, type_: ValueType = ValueType.SCALAR, hint: str = "") -> Variable:
        """Return a new variable, without a value yet."""
        return Variable(type_, hint)

    def write(self, variable: Variable, value: ir.Value) -> None:
        """Assign."""
        self.environment.values[variable] = value

    def read(self, variable: Variable) -> ir.Value | None:
        """Return the variable's value here; None if a path to here has not assigned it."""
        return self.environment.values.get(variable)

    def read_final(self, variable: Variable) -> ir.Value:
        """Return the variable's value and forget the variable: nothing reads it any more."""
        value = self.environment.values.pop(variable)
        if value is None:
            assert not self._block.reachable, f"{variable.hint} has no value"
            return self.const(0)
        return value

    def forget(self, variable: Variable) -> None:
        """Forget a variable that nothing reads any more: each that is known costs something where paths meet."""
        self.environment.values.pop(variable)

    # -- control flow --------------------------------------------------------------------------------------------------

    @property
    def reachable(self) -> bool:
        """Whether control can come to the current point."""
        if self._pending is not None:
            self._settle()
        return self._block.reachable

    def jump(self, target: Join) -> None:
        """Go to `target`; what follows is unreachable."""
        self._settle()
        if self._block.reachable:
            target.edges.append(Edge(self._block, self._environment, self._regions))
        self._unreachable()

    def branch(self, test: Test, then: Join, otherwise: Join) -> None:
        """Go to `then` if `test` holds, else to `otherwise`, each with what the test teaches."""
        self._settle()
        match test:
            case Compare():
                self._branch_on(test, then, otherwise)
            case Always(holds):
                self.jump(then if holds else otherwise)
            case Not(condition):
                self.branch(condition, otherwise, then)
            case All(conditions) | Any(conditions):
                every = isinstance(test, All)
                for condition in conditions[:-1]:
                    following = Join()
                    self.branch(condition, *((following, otherwise) if every else (then, following)))
                    self.start(following)
                self.branch(conditions[-1] if conditions else Always(every), then, otherwise)

    def nondeterministic_branch(self, spent: Join, otherwise: Join) -> None:
        """Go to `spent` once the kernel's budget for loops is used up, else to `otherwise` (`ir.MayGoto`)."""
        known = self.environment
        edges = (self._edge(spent, known.copy()), self._edge(otherwise, known.copy()))
        self._block.terminator = ir.MayGoto(*edges, self.where)
        self._unreachable()

    def start(self, join: Join) -> None:
        """Place `join` here: control continues from the paths that lead to it, and only from them."""
        self._settle()
        if join.placed:
            raise ValueError("a join is placed once")
        join.placed = True
        if not join.edges:
            self._unreachable()
            return
        for edge in join.edges:
            self._block, self._environment = edge.block, edge.environment
            if len(edge.regions) > len(self._regions):
                self._leave(edge.regions[len(self._regions) :])
                edge.block, edge.environment = self._block, self._environment
        if len(join.edges) == 1:
            # One way in: no new block is needed to know what that path knew.
            return
        target = self._open()
        self._environment, parameters = merge([edge.environment for edge in join.edges], self.new_value)
        target.parameters = tuple([joined for joined, _ in parameters])
        for number, edge in enumerate(join.edges):
            arguments = tuple([given[number] for _, given in parameters])
            edge.block.terminator = ir.Jump(target.number, arguments, self.where)
        self._block = target

    @contextmanager
    def region(self, cleanup: Cleanup, *, no_calls: str = "") -> Iterator[None]:
        """Build `cleanup` on every way out of the body: its end, jumps to joins that are placed later, returns.

        With `no_calls`, the reason, the body may call nothing.
        """
        self._settle()
        outer, calls_outside = self._regions, self.no_calls
        self._regions = (*outer, cleanup)
        self.no_calls = no_calls or calls_outside
        yield
        self._settle()
        if self._block.reachable:
            self._leave((cleanup,))
        self._regions, self.no_calls = outer, calls_outside

    def _leave(self, regions: Sequence[Cleanup]) -> None:
        forbidden, self.no_calls = self.no_calls, ""
        for cleanup in reversed(regions):
            cleanup()
            self._settle()
        self.no_calls = forbidden

    def ret(self, value: ir.Value, *, clean: bool = True) -> None:
        """Leave the function, by the cleanups of the regions around; not `clean` without them."""
        self._settle()
        if clean and self._block.reachable:
            self._leave(self._regions)
        self._block.terminator = ir.Return(value, self.where)
        self._unreachable()

    @contextmanager
    def if_(self, test: Test) -> Iterator[None]:
        """Build the body to run if `test` holds; `else_` may follow at once."""
        then, otherwise, end = Join(), Join(), Join()
        self.branch(test, then, otherwise)
        self.start(then)
        yield
        self.jump(end)
        self._pending = (otherwise, end)

    @contextmanager
    def else_(self) -> Iterator[None]:
        """Build the body to run if the test of the `if_` just before does not hold."""
        if self._pending is None:
            raise ValueError("else_ must come straight after if_")
        (otherwise, end), self._pending = self._pending, None
        self.start(otherwise)
        yield
        self.jump(end)
        self.start(end)

    @contextmanager
    def loop(self, carried: Iterable[Variable] | None = None) -> Iterator[Loop]:
        """Build an endless loop, left by `break_`.

        `carried` are the variables that the body assigns; without it, all that have a value here. The verifier must
        be able to see the end: count a bounded variable.
        """
        environment, before = self.environment, self._block
        header = self._open(reachable=before.reachable)
        kept = dict.fromkeys(v for v in (environment.values if carried is None else carried) if v in environment.values)
        parameters = {variable: self.new_value(variable.type, variable.hint) for variable in kept}
        header.parameters = tuple(parameters.values())
        before.terminator = ir.Jump(header.number, tuple(environment.values[v] for v in kept), self.where)
        inside = environment.copy()
        for variable, parameter in parameters.items():
            inside.values[variable] = parameter
            inside.inherit(parameter, environment.values[variable], environment)
        self._block, self._environment = header, inside
        loop = Loop(exit=Join("loop exit"), latch=Join("loop latch"))
        first, uses_before = header.parameters[0].number if parameters else self._numbers, len(self._uses)
        yield loop
        self.jump(loop.latch)
        self.start(loop.latch)
        if self._block.reachable:
            after = self._environment
            stale = invalidated(environment, after, first, parameters)
            self.reject_stale_uses(stale, uses_before)
            self._block.terminator = ir.Jump(
                header.number, tuple(after.values.get(v) or parameters[v] for v in kept), self.where
            )
        self._unreachable()
        self.start(loop.exit)

    def break_(self, loop: Loop) -> None:
        """Leave `loop`."""
        self.jump(loop.exit)

    def continue_(self, loop: Loop) -> None:
        """Go to the next iteration of `loop`."""
        self.jump(loop.latch)

    def truth_value(self, test: Test) -> ir.Value:
        """Turn a test into 1 or 0."""
        match as_one(test, self.binary, self.const(0)):
            case Always(holds):
                return self.const(int(holds))
            case Compare(relation, left, right):
                self.compared |= self._constants.none_of(left, right)
                value = self.emit(Op.COMPARE, left, right, condition=relation)
                self._environment.narrow(value, 0, 1, always=True)
                return value
            case _:
                answer = self.variable(hint="test")
                with self.if_(test):
                    self.write(answer, self.const(1))
                with self.else_():
                    self.write(answer, self.const(0))
                found = self.read_final(answer)
                self._environment.narrow(found, 0, 1, always=True)
                return found

    def finish(self) -> ir.Function:
        """Return the function: reachable blocks only, in reverse post-order. The current point must be unreachable."""
        self._settle()
        if self._block.reachable:
            raise ValueError(f"{self.name}: control reaches the end without a return")
        order = reverse_post_order(0, {block.number: successors(block) for block in self._blocks})
        finished = []
        for number in order:
            block = self._blocks[number]
            assert block.terminator is not None
            finished.append(ir.Block(number, block.parameters, tuple(block.instructions), block.terminator))
        constants = tuple(self._constants.definitions.values())
        finished[0] = finished[0].with_instructions(constants + finished[0].instructions)
        return ir.Function(self.name, self.parameters, tuple(finished), tuple(self._slots), self._defined_at)

    def reject_stale_uses(self, stale: Mapping[int, str], first: int = 0) -> None:
        """Reject a use in a loop of what an earlier iteration may have invalidated; uses begin with the `first`."""
        for number, what, at in self._uses[first:]:
            if number in stale:
                self.fail(f"{what} is used after {stale[number]} in an earlier iteration: copy what you need first", at)

    # -- inside --------------------------------------------------------------------------------------------------------

    def _open(self, *, reachable: bool = True) -> OpenBlock:
        """A new block; of one that control cannot reach nothing is kept."""
        block = OpenBlock(len(self._blocks) if reachable else -1, self._numbers, reachable)
        if reachable:
            self._blocks.append(block)
        return block

    def _unreachable(self) -> None:
        self._block = self._open(reachable=False)
        self._environment = self._environment.copy()

    def _settle(self) -> None:
        """Close an `if_` that no `else_` followed."""
        if self._pending is not None:
            (otherwise, end), self._pending = self._pending, None
            self.start(otherwise)
            self.jump(end)
            self.start(end)

    def _branch_on(self, test: Compare, then: Join, otherwise: Join) -> None:
        block, environment = self._block, self._environment
        self.compared |= self._constants.none_of(test.left, test.right)
        edges = []
        for join, fact in ((then, test), (otherwise, negate(test))):
            known = environment.copy()
            learn(known, fact)
            edges.append(self._edge(join, known))
        block.terminator = ir.Branch(test.relation, test.left, test.right, edges[0], edges[1], self.where)
        self._block = self._open(reachable=False)

    def _edge(self, join: Join, known: Environment) -> int:
        """The number of a new block that leads from the current one to `join`, where `known` holds."""
        edge = self._open(reachable=self._block.reachable)
        if edge.reachable:
            join.edges.append(Edge(edge, known, self._regions))
        return edge.number
