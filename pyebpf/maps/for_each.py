"""Loops over a map's entries: the body is a function that bpf_for_each_map_elem calls, once for each entry.

The body reads and writes the variables of the function around it and its records on the stack, and ends that function
by `return`; but it runs in a frame of its own. What it needs goes through the *state*: cells of 8 bytes on the caller's
stack, whose address the helper passes on. There is one for each variable, read as the body begins and written as it
ends; one for the address of each of the caller's stack slots that it reaches; one that says that it has returned.

Verifiers before Linux commit ab5cfac139ab ("bpf: verify callbacks as if they are called unknown number of times") (in
v6.7) follow the body once, and take what they find then for what is always so; later ones repeat it until they learn
nothing new. For both, numbers that the body may change begin as ones that nobody knows.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from pyebpf.builder.available import need_helper
from pyebpf.builder.intrinsics.callbacks import ENTRY, callback, entry_arguments, function_number
from pyebpf.builder.loops import opaque_zero
from pyebpf.builder.scratch import ScratchFunctionBuilder, is_scratch
from pyebpf.builder.ssa.conditions import All, Compare
from pyebpf.builder.ssa.function import FunctionBuilder, Join, Loop
from pyebpf.builder.values.integers import Int
from pyebpf.builder.values.lvalue import Lvalue, pieces, temporary
from pyebpf.builder.values.references import Reference
from pyebpf.compiler import ir
from pyebpf.compiler.ir import Condition as Relation, Op, ValueType
from pyebpf.dataclass import dataclass
from pyebpf.types import S64
from pyebpf.uapi.bpf import MapType
from pyebpf.uapi.helper_ids import FOR_EACH_MAP_ELEM

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from pyebpf.builder.program import ProgramBuilder
    from pyebpf.builder.ssa.conditions import Test
    from pyebpf.builder.ssa.environment import Interval, Variable
    from pyebpf.builder.values.entries import MapEntries
    from pyebpf.builder.values.map_pointers import MapPointer

_CELL = 8

#: Map types whose entries the helper iterates over.
FOR_EACH_TYPES = (
    MapType.HASH,
    MapType.LRU_HASH,
    MapType.PERCPU_HASH,
    MapType.LRU_PERCPU_HASH,
    MapType.ARRAY,
    MapType.PERCPU_ARRAY,
)


class _Body(FunctionBuilder):
    """The body's function; it reaches stack slots of the function around it through the state."""

    def __init__(self, name: str, outer: FunctionBuilder, prefix: str) -> None:
        super().__init__(name, (*ENTRY, ValueType.POINTER), outer.where)
        for parameter in self.parameters:
            self.assume_non_null(parameter)
        self.no_calls = outer.no_calls
        self.opaque = outer.opaque
        #: Names of slots are unique among the functions that reach them.
        self._prefix = prefix
        self._outer = outer
        self._cells = 0
        #: The cells with addresses of the caller's slots.
        self.reached: dict[ir.Slot, int] = {}

    @property
    def size(self) -> int:
        """Bytes of the state."""
        return self._cells * _CELL

    def cell(self) -> int:
        """Another cell, by its offset in the state."""
        self._cells += 1
        return (self._cells - 1) * _CELL

    def get(self, cell: int, type_: ValueType) -> ir.Value:
        """Read a cell."""
        return self.load(self.parameters[-1], cell, _CELL, result=type_)

    def put(self, cell: int, value: ir.Value) -> None:
        """Write a cell."""
        self.store(self.parameters[-1], cell, value, _CELL)

    @property
    def large(self) -> int:
        """Bytes of a slot that the program around it keeps in scratch memory; 0 if it has none."""
        return self._outer.large if isinstance(self._outer, _Body | ScratchFunctionBuilder) else 0

    def slot(self, size: int, align: int = 8, name: str = "", *, opaque: bool = False) -> ir.Slot:
        if 0 < self.large <= size and not opaque:
            # Each iteration uses it again, as it does the slots of its own frame.
            return self._outer.slot(size, align, name)
        return super().slot(size, align, f"{self._prefix}{name or 'slot'}", opaque=opaque)

    def slot_address(self, slot: ir.Slot, offset: int = 0) -> ir.Value:
        if slot.name.startswith(self._prefix):
            return super().slot_address(slot, offset)
        if slot not in self.reached:
            self.reached[slot] = self.cell()
        address = self.get(self.reached[slot], ValueType.POINTER)
        if offset:
            address = self.emit(Op.OFFSET, address, self.const(offset))
        self.assume_non_null(address)
        return address

    def written(self) -> set[int]:
        """The cells of slots that are more than read."""
        instructions = [each for block in self._blocks for each in block.instructions]
        addresses: dict[int, int] = {}
        found = set()
        slots = set(self.reached.values())
        for each in instructions:
            if each.op is Op.LOAD and each.operands[0] == self.parameters[-1] and each.imm in slots:
                assert each.result is not None
                addresses[each.result.number] = each.imm
                continue
            used = {addresses[value.number] for value in each.operands if value.number in addresses}
            if each.op is Op.OFFSET and used and each.result is not None:
                addresses[each.result.number] = used.pop()
            elif each.op is not Op.LOAD:
                found |= used
        return found


@dataclass(slots=True)
class _LoopInput:
    """A variable that the body begins with: the caller's value, the body's, and the cell between them."""

    variable: Variable
    outer: ir.Value
    inner: ir.Value
    cell: int
    carried: bool
    invalidated: str | None = None


@dataclass(slots=True)
class _LoopOutput:
    """A variable of what the body returned: its cell, its bounds there, and its value in the caller."""

    variable: Variable
    cell: int
    bounds: Interval
    value: ir.Value | None = None


class ForEachLoop:
    """A `for` loop over a map, under construction.

    `loop` is for `break` and `continue`. What leaves the caller writes to variables of its own, jumps to `returned`,
    and goes on after the loop, where `has_returned` holds and `restore` has been called.
    """

    def __init__(self, p: ProgramBuilder, body: _Body, outer: FunctionBuilder) -> None:
        self.p = p
        self.body = body
        self.outer = outer
        self.loop = Loop(Join("end of loop"), Join("next entry"))
        self.returned = Join("returned")
        #: The result of the program or subprogram.
        self.result = outer.variable(hint="result")
        self._inputs: list[_LoopInput] = []
        self._context: int | None = None
        self._flag: int | None = None
        self._returned: ir.Value | None = None
        self._outputs: list[_LoopOutput] = []
        self._markers: list[Variable] = []

    def enter(self, carried: Iterable[Variable], used: Iterable[Variable]) -> None:
        """Begin the body: give it the variables."""
        p, body, known = self.p, self.body, self.outer.environment
        assigned = set(carried)
        for variable in dict.fromkeys([*carried, *used]):
            value = known.values[variable]
            if value.number < 0:
                body.write(variable, value)
                continue
            cell = body.cell()
            inner = body.get(cell, value.type)
            body.write(variable, inner)
            self._inputs.append(_LoopInput(variable, value, inner, cell, variable in assigned))
            origin, reason = self.outer.origin(value), known.invalidated_by(value.number)
            if origin is not None:
                body.assume_origin(inner, origin)
            if reason is not None:
                body.environment.invalidate(inner.number, reason)
            if variable in assigned:
                continue
            if known.is_non_null(value.number):
                body.assume_non_null(inner)
            bounds = known.interval(value.number)
            if bounds is not None:
                body.environment.narrow(inner, *bounds, always=True)
        if self.outer in p.contextless:
            p.contextless.add(body)
        else:
            self._context = body.cell()
            found = body.get(self._context, ValueType.POINTER)
            body.assume_non_null(found)
            p.contexts[body] = found

    def leave(self, returned: Callable[[], Sequence[Variable]]) -> None:
        """End the body on all its ways out. `returned` are the variables of what has been returned, asked there."""
        body = self.body
        body.jump(self.loop.latch)
        for join, stop in ((self.loop.latch, 0), (self.loop.exit, 1)):
            body.start(join)
            if not body.reachable:
                continue
            if not stop:
                inner = [given.inner for given in self._inputs]
                body.reject_stale_uses(
                    {value.number: reason for value in inner if (reason := body.invalidated_by(value)) is not None}
                )
            for given in self._inputs:
                value = body.environment.values.get(given.variable)
                if not given.carried or value is None:
                    continue
                given.invalidated = body.invalidated_by(value) or given.invalidated
                if value != given.inner:
                    body.put(given.cell, value)
            body.ret(body.const(stop))
        body.start(self.returned)
        if not body.reachable:
            return
        for variable in returned():
            value = body.environment.values[variable]
            if value.number < 0:
                self._markers.append(variable)
                continue
            cell = body.cell()
            self._outputs.append(_LoopOutput(variable, cell, body.bounds(value)))
            body.put(cell, value)
        self._flag = body.cell()
        body.put(self._flag, body.const(1))
        body.ret(body.const(1))

    def call(self, table: MapPointer, what: str) -> None:
        """In the caller again: fill the state, call the helper, and read back what the body has changed."""
        with temporary(self.p, self.body.size, on_stack=True) as slot:
            state = self.outer.slot_address(slot)
            self._fill(state)
            address = self.outer.emit(Op.FUNCTION, symbol=self.body.name)
            call_for_each(self.p, table, address, state, self.body.invalidated, what)
            self.outer.propagate_uses(self.body, {given.inner.number: given.outer for given in self._inputs})
            self._read_back(state)

    def _fill(self, state: ir.Value) -> None:
        p, b, body = self.p, self.outer, self.body
        zero = opaque_zero(p)
        written = body.written()
        for slot, cell in body.reached.items():
            address = b.slot_address(slot)
            if cell in written and slot.name not in b.opaque and not is_scratch(slot):
                for at, width in pieces(0, slot.size):
                    b.store(address, at, b.binary(Op.ADD, b.load(address, at, width), zero), width)
            b.store(state, cell, address, _CELL)
        for given in self._inputs:
            number = given.carried and given.outer.type is ValueType.SCALAR
            b.store(state, given.cell, b.binary(Op.ADD, given.outer, zero) if number else given.outer, _CELL)
        if self._context is not None:
            b.store(state, self._context, p.context, _CELL)
        if self._flag is not None:
            b.store(state, self._flag, zero, _CELL)
        for result in self._outputs:
            b.store(state, result.cell, b.const(0), _CELL)

    def _read_back(self, state: ir.Value) -> None:
        b = self.outer
        for given in self._inputs:
            if not given.carried:
                continue
            value = b.load(state, given.cell, _CELL, result=given.outer.type)
            b.write(given.variable, value)
            origin = b.origin(given.outer)
            if origin is not None:
                b.assume_origin(value, origin)
            if given.invalidated is not None:
                b.environment.invalidate(value.number, given.invalidated)
        if self._flag is not None:
            self._returned = b.load(state, self._flag, _CELL)
        for result in self._outputs:
            result.value = b.load(state, result.cell, _CELL, result=result.variable.type)

    @property
    def returns(self) -> bool:
        """Whether the body may have returned."""
        return self._returned is not None

    def has_returned(self) -> Test:
        """Whether it has."""
        assert self._returned is not None
        nothing = self.outer.const(0)
        tests: list[Test] = [Compare(Relation.NE, self._returned, nothing)]
        for result in self._outputs:
            if result.variable.type is ValueType.POINTER:
                # Where nothing was returned the verifier finds a number in its place.
                assert result.value is not None
                tests.append(Compare(Relation.NE, result.value, nothing, null_check=True))
        return All(tuple(tests))

    def restore(self) -> None:
        """Take over the variables of what was returned."""
        b = self.outer
        for result in self._outputs:
            value, (low, high) = result.value, result.bounds
            assert value is not None
            if result.variable.type is ValueType.SCALAR:
                of_program = result.variable is self.result
                value = b.const(low) if low == high else self._known(value, low, high, of_program=of_program)
            b.write(result.variable, value)
        for variable in self._markers:
            b.write(variable, ir.Value(-1))

    def _known(self, value: ir.Value, low: int, high: int, *, of_program: bool) -> ir.Value:
        """A number with its bounds, of which the verifier knows nothing any more: some programs may return few."""
        b = self.outer
        if of_program and self.p.program_context.return_range is not None:
            inside = All((Compare(Relation.SGE, value, b.const(low)), Compare(Relation.SLE, value, b.const(high))))
            known = b.variable(hint="result")
            with b.if_(inside):
                b.write(known, b.emit(Op.REFINE, value))
            with b.else_():
                b.write(known, b.const(low))
            value = b.read_final(known)
        b.assume_bounds(value, low, high)
        return value


@contextmanager
def for_each_loop(
    p: ProgramBuilder,
    entries: MapEntries,
    carried: Sequence[Variable],
    used: Sequence[Variable],
    returned: Callable[[ForEachLoop], Sequence[Variable]],
    *,
    changes: bool,
) -> Iterator[tuple[ForEachLoop, object]]:
    """Build the body once for all entries; gives the loop and the target's value.

    `carried` are the variables that the body assigns, `used` those that it may read, which have a value here;
    `returned`, asked where the body has returned, those of what it returns. Where the body `changes` maps, the key is a
    copy, which stays when the entry goes.
    """
    table, what = entries.table, f"a `for` over {entries.table.map_name}"
    check_for_each(p, table, what)
    outer = p.b
    assert outer.reachable
    number = function_number(p)
    body = _Body(f"{outer.name}.w{number}", outer, f"w{number}.")
    loop = ForEachLoop(p, body, outer)
    with p.function(body):
        loop.enter(carried, used)
        key, value = entry_arguments(p, table.spec)(body.parameters[: len(ENTRY)])
        if changes and isinstance(key, Reference):
            slot = body.slot(-(-key.type.size // _CELL) * _CELL, name="key")
            p.store_value(body.slot_address(slot), 0, key.type, key)
            key = p.load_value(Lvalue(slot=slot, owner=key.lvalue.owner, writable=False), key.type)
        yield loop, entries.element(key, value)
        loop.leave(lambda: returned(loop))
    loop.call(table, what)


def check_for_each(p: ProgramBuilder, table: MapPointer, what: str) -> None:
    """Reject a map whose entries this kernel cannot iterate over here."""
    if table.spec.type not in FOR_EACH_TYPES:
        p.fail(f"{what}: the kernel iterates over hashes and arrays only")
    need_helper(p, "for_each_map_elem", what, "look entries up one at a time, by .get(k)")


def call_for_each(
    p: ProgramBuilder,
    table: MapPointer,
    function: ir.Value,
    passed: ir.Value,
    invalidated: Mapping[str, str],
    what: str,
) -> ir.Value:
    """Call `function`, by its address, with each entry of a map and `passed`; how many there were.

    `invalidated` are the maps whose entries it makes invalid, with the reasons.
    """
    seen = p.b.call(FOR_EACH_MAP_ELEM, table.handle(p), function, passed, p.b.const(0), comment=what)
    for origin, reason in invalidated.items():
        p.b.invalidate_origin(origin, f"{what} and its {reason}")
    return seen


def for_each(p: ProgramBuilder, table: MapPointer, function: object) -> Int:
    """Call `function(key, value)` for each entry, until it returns True; how many were seen."""
    what = f"{table.map_name}.for_each()"
    check_for_each(p, table, what)
    address, passed, invalidated = p.build_callback(
        callback(p, function, what), ENTRY, entry_arguments(p, table.spec), f"a function for {what}"
    )
    return Int(call_for_each(p, table, address, passed, invalidated, what), S64)


def count_entries(p: ProgramBuilder, table: MapPointer, what: str) -> ir.Value:
    """The number of a map's entries: the kernel goes over them, and a function that does nothing is called for each."""
    check_for_each(p, table, what)
    number = function_number(p)
    body = FunctionBuilder(f"{p.b.name}.w{number}", (*ENTRY, ValueType.POINTER), p.b.where)
    with p.function(body):
        body.ret(body.const(0))
    address = p.b.emit(Op.FUNCTION, symbol=body.name)
    return call_for_each(p, table, address, p.b.const(0), {}, what)
