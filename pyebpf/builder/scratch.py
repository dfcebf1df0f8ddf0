"""Large records without the stack: memory of a program's own in a per-CPU map, for slots that a frame has no room for.

A program is built with scratch memory once it was found not to fit the stack. It claims the memory when it begins and
gives it back on every way out: where it interrupts itself, or another task runs it on the processor of one that was
preempted in the middle, the second finds the memory taken, is left, and is counted as dropped. Programs that tasks are
preempted in have several memories, and the first that is free is theirs.

Its subprograms and the functions that helpers call for it run within its claim. Each has slots of its own in the same
memory: none of them is called while it runs, since the language has no recursion. A timer's function runs when it will,
also in the middle of its program: it claims memory of its own, and calls subprograms that are compiled for it alone.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, ClassVar
from zlib import crc32

from pyebpf.builder.drop_counters import count_drop
from pyebpf.builder.ssa.conditions import Compare
from pyebpf.builder.ssa.function import FunctionBuilder, Join
from pyebpf.compiler import ir
from pyebpf.compiler.frame import place_slots
from pyebpf.compiler.ir import Condition, Op, ValueType
from pyebpf.dataclass import dataclass
from pyebpf.specs import MapSpec
from pyebpf.types import U32, U64, ArrayType
from pyebpf.uapi.bpf import MapType, ProgramType
from pyebpf.uapi.helper_ids import MAP_LOOKUP_ELEM

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from pyebpf.builder.program import ProgramBuilder
    from pyebpf.builder.ssa.conditions import Test
    from pyebpf.errors import Location

#: Slots of so many bytes are kept in scratch memory where a program has it; then those where that is not enough.
_LARGE, _SMALL = 128, 16
#: The prefix of the maps' names; a number made from the probe's name follows.
PREFIX = ".scratch"

#: Memories of a processor for a program that tasks are preempted in: as many may stand in the middle of it.
_MEMORIES = 8
#: Bytes of slots that need not share any.
_UNSHARED = 8 << 10
#: Bytes of a per-CPU map's value: PCPU_MIN_UNIT_SIZE in include/linux/percpu.h.
_MAX_SIZE = 32 << 10
_TAKEN = "scratch memory taken by a run that this one interrupted"
_OVERWRITTEN = "scratch memory used by another run during a tail call that found no program"
#: Programs whose results decide about a packet or a call: the one that lets it pass.
_XDP_PASS = 2

#: Offsets in the memory: whether it is taken, and how often it has been.
_IS_TAKEN, _CLAIMS, _SLOTS = 0, U64.size, 2 * U64.size


@dataclass(slots=True)
class _Claim:
    """The memory that one function claims, for itself and for those that it calls."""

    owner: FunctionBuilder
    map_name: str
    #: Bytes in use.
    size: int = _SLOTS
    #: The program's maps, and how many memories a processor has, once the owner is built.
    maps: dict[str, MapSpec] | None = None
    memories: int = 1

    def reserve(self, size: int, slots: Iterable[ir.Slot]) -> int:
        """The offset of another `size` bytes, for these slots."""
        offset = self.size
        self.size += size
        if self.size > _MAX_SIZE:
            self.owner.fail(
                f"the records of {self.owner.name} take more than the {_MAX_SIZE} bytes of a per-CPU map: "
                "make them smaller",
                max(slots, key=lambda slot: slot.size).where,
            )
        return offset

    def add_map(self) -> None:
        """Add the map, whose size is known, to the program's, if its owner claims any memory."""
        if self.maps is not None:
            type_ = ArrayType(U64, self.size // U64.size)
            self.maps[self.map_name] = MapSpec(self.map_name, MapType.PERCPU_ARRAY, U32, type_, self.memories)


class ScratchFunctionBuilder(FunctionBuilder):
    """A function whose large slots are in the memory of a claim, at `base`, an address, once it has one.

    Their offsets there are known when the function is finished: what is never needed at the same time shares its bytes.
    """

    #: Bytes of a slot that is large.
    large: ClassVar[int] = _LARGE

    def __init__(self, name: str, parameters: Sequence[ir.ValueType], where: Location | None = None) -> None:
        super().__init__(name, parameters, where)
        self.claim: _Claim | None = None
        self.base: ir.Value | None = None
        #: Whether it has asked for a large slot.
        self.needs_base = False
        self._large: dict[str, ir.Slot] = {}

    def slot(self, size: int, align: int = 8, name: str = "", *, opaque: bool = False) -> ir.Slot:
        if size < self.large or opaque:
            return super().slot(size, align, name, opaque=opaque)
        self.needs_base = True
        if self.base is None or self.claim is None:
            return super().slot(size, align, name)
        slot = ir.Slot(f"{name or 'slot'}.scratch{len(self._large)}", size, max(align, 1), self.where)
        self._large[slot.name] = slot
        return slot

    def slot_address(self, slot: ir.Slot, offset: int = 0) -> ir.Value:
        if self.base is None or slot.name not in self._large:
            return super().slot_address(slot, offset)
        # A number that is known when the function is finished.
        place = self._constants.value(Op.SLOT, ValueType.SCALAR, offset, slot.name, self.where)
        address = self.emit(Op.OFFSET, self.base, place)
        self.assume_non_null(address)
        return address

    def finish(self) -> ir.Function:
        function = super().finish()
        if self.claim is None:
            return function
        if self._large:
            function = self._placed(function, self.claim)
        if self is self.claim.owner:
            self.claim.add_map()
        return function

    def _placed(self, function: ir.Function, claim: _Claim) -> ir.Function:
        """The function with offsets for its large slots."""
        from pyebpf.compiler.slots import share_slots

        slots = tuple(self._large.values())
        if sum(slot.size for slot in slots) <= _UNSHARED:
            offsets, size = place_slots(slots)
        else:
            offsets, size = share_slots(_on_the_stack(function, slots))
        end = claim.reserve(size, slots) + size
        first, *others = function.blocks
        constants = [
            ir.Instruction(Op.CONST, each.result, imm=end + offsets[each.symbol] + each.imm, where=each.where)
            if each.op is Op.SLOT and each.symbol in self._large
            else each
            for each in first.instructions
        ]
        return function.with_blocks([first.with_instructions(tuple(constants)), *others])


def _on_the_stack(function: ir.Function, slots: tuple[ir.Slot, ...]) -> ir.Function:
    """The function as if its large slots were on the stack, for an analysis of those."""
    offsets = {
        each.result.number: each
        for each in function.blocks[0].instructions
        if each.op is Op.SLOT and each.result is not None and each.result.type is ValueType.SCALAR
    }

    def address(each: ir.Instruction) -> ir.Instruction:
        found = offsets.get(each.operands[1].number) if each.op is Op.OFFSET else None
        return each if found is None else ir.Instruction(Op.SLOT, each.result, imm=found.imm, symbol=found.symbol)

    blocks = [block.with_instructions(tuple(map(address, block.instructions))) for block in function.blocks]
    return ir.Function(function.name, function.parameters, tuple(blocks), slots)


class RoomyFunctionBuilder(ScratchFunctionBuilder):
    """A function that keeps all but its smallest slots in scratch memory, for one that has many."""

    large = _SMALL


def is_scratch(slot: ir.Slot) -> bool:
    """Whether a slot is in scratch memory, whose content no verifier follows."""
    return ".scratch" in slot.name


class ScratchMemory:
    """The scratch memory of a program under construction.

    Which functions need it is known from the build before (`WholeProgram.large`): a first build finds that.
    """

    def __init__(self, p: ProgramBuilder) -> None:
        self._p = p
        self._claim = self._claim_of(p.b)

    @property
    def owner(self) -> str:
        """The name of the function within whose claim the function runs that is being built."""
        return self._claim.owner.name

    @property
    def is_used(self) -> bool:
        """Whether anything that runs within this claim has large slots."""
        return any(owner == self.owner for owner, _ in self._p.known.large)

    def is_other(self, owner: str) -> bool:
        """Whether a function within the claim of `owner` may use memory there that this one's claim does not cover."""
        return owner != self.owner and any(of == owner != function for of, function in self._p.known.large)

    @contextmanager
    def main(self) -> Iterator[None]:
        """Build the body, the program: it begins where the program does."""
        with self._owned():
            yield

    @contextmanager
    def function(self, *, detached: bool) -> Iterator[None]:
        """Build the body, another function, from its beginning; one that is `detached` runs when it will."""
        b = self._p.b
        if not isinstance(b, ScratchFunctionBuilder):
            yield
        elif detached:
            outer, self._claim = self._claim, self._claim_of(b)
            with self._owned():
                yield
            self._claim = outer
        else:
            b.claim = self._claim
            if (self.owner, b.name) in self._p.known.large:
                b.base = self._found(b)
            yield
            self._note(b)

    def tail_call(self, call: Callable[[], None]) -> None:
        """Append a tail call, `call`, that leaves the memory free, and go on behind it where it finds no program.

        A program that a subprogram calls so returns to the subprogram's caller, which gives the memory back.
        """
        b = self._p.b
        if not (isinstance(b, ScratchFunctionBuilder) and b is self._claim.owner and b.base is not None):
            call()
            return
        base = b.base
        claims = b.load(base, _CLAIMS, U64.size)
        b.store(base, _IS_TAKEN, b.const(0), U64.size)
        call()
        with b.if_(self._take(base)):
            self._abandon(_TAKEN)
        with b.if_(Compare(Condition.NE, b.load(base, _CLAIMS, U64.size), claims)):
            # A run that interrupted this one had the memory, and has given it back.
            b.store(base, _IS_TAKEN, b.const(0), U64.size)
            self._abandon(_OVERWRITTEN)

    def _claim_of(self, owner: FunctionBuilder) -> _Claim:
        whole = self._p.name if owner.name == self._p.name else f"{self._p.name}/{owner.name}"
        return _Claim(owner, f"{PREFIX}{crc32(whole.encode()) & 0xFFFFFF:06x}")

    @contextmanager
    def _owned(self) -> Iterator[None]:
        p, b, claim = self._p, self._p.b, self._claim
        assert isinstance(b, ScratchFunctionBuilder)
        b.claim = claim
        if not self.is_used:
            yield
            self._note(b)
            return
        base = self._claimed(b)
        b.store(base, _CLAIMS, b.binary(Op.ADD, b.load(base, _CLAIMS, U64.size), b.const(1)), U64.size)
        b.base = base
        with b.region(lambda: b.store(base, _IS_TAKEN, b.const(0), U64.size)):
            yield
        self._note(b)
        claim.maps, claim.memories = p.maps, self._memories

    @property
    def _memories(self) -> int:
        """The number of memories of a processor. Other functions than the program have to know which is theirs."""
        p = self._p
        alone = p.known.large == {(p.name, p.name)}
        return _MEMORIES if alone and self.owner == p.name and p.program_context.is_preemptible else 1

    def _claimed(self, b: FunctionBuilder) -> ir.Value:
        """The address of a memory that is this run's from here on; without one the program is left."""
        memory, claimed = b.variable(ValueType.POINTER, "memory"), Join("claimed")
        for number in range(self._memories):
            base = self._found(b, number)
            b.write(memory, base)
            taken = Join("taken")
            b.branch(self._take(base), taken, claimed)
            b.start(taken)
        count_drop(self._p, _TAKEN)
        b.ret(b.const(self._let_pass()))
        b.start(claimed)
        found = b.read_final(memory)
        b.assume_non_null(found)
        return found

    def _found(self, b: FunctionBuilder, number: int = 0) -> ir.Value:
        """The address of one of this processor's memories."""
        key = b.slot_address(b.shared_slot("number"))
        b.store(key, 0, b.const(number), U32.size)
        map_ = b.emit(Op.MAP, symbol=self._claim.map_name)
        base = b.call(MAP_LOOKUP_ELEM, map_, key, result=ValueType.POINTER, comment="scratch memory")
        with b.if_(Compare(Condition.EQ, base, b.const(0), null_check=True)):
            self._p.leave_never()
        return base

    def _take(self, base: ir.Value) -> Test:
        """Take the memory; the test whether another run has it."""
        b = self._p.b
        if self._p.target.has("isa:atomic"):
            taken = b.emit(Op.ATOMIC, base, b.const(1), size=U64.size, symbol="xchg", result=ValueType.SCALAR)
        else:
            # A program that interrupts between the two has given the memory back when this one goes on; what is there
            # is written in any case, since a run that finds the memory taken is over before the one that has it.
            taken = b.load(base, _IS_TAKEN, U64.size)
            b.store(base, _IS_TAKEN, b.const(1), U64.size)
        return Compare(Condition.NE, taken, b.const(0))

    def _abandon(self, reason: str) -> None:
        """Leave the program, which has the memory no longer."""
        b = self._p.b
        count_drop(self._p, reason)
        b.ret(b.const(self._let_pass()), clean=False)

    def _note(self, b: ScratchFunctionBuilder) -> None:
        if b.needs_base:
            self._p.found.large |= {(self.owner, b.name)}

    def _let_pass(self) -> int:
        """The result of a function that could not run: nothing is refused for it."""
        p = self._p
        if self.owner != p.name:
            return 0
        default = p.program_context.default_return(p.program_type)
        if default is not None:
            return default
        if p.program_type is ProgramType.XDP:
            return _XDP_PASS
        returned = p.program_context.return_range
        return 0 if returned is None or returned[0] < 0 else min(1, returned[1])
