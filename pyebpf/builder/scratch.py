"""Large records without the stack: memory of a program's own in a per-CPU map, for slots that a frame has no room for.

A program is built with scratch memory once it was found not to fit the stack. It claims the memory when it begins and
gives it back on every way out: where it interrupts itself, or another task runs it on the processor of one that was
preempted in the middle, the second finds the memory taken, is left, and is counted as dropped.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING
from zlib import crc32

from pyebpf.builder.drop_counters import count_drop
from pyebpf.builder.ssa.conditions import Compare
from pyebpf.builder.ssa.function import FunctionBuilder
from pyebpf.compiler import ir
from pyebpf.compiler.ir import Condition, Kind, Op
from pyebpf.specs import MapSpec
from pyebpf.types import U32, U64, ArrayType
from pyebpf.uapi.bpf import MapType, ProgramType
from pyebpf.uapi.helper_ids import MAP_LOOKUP_ELEM

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyebpf.builder.program import ProgramBuilder
    from pyebpf.errors import Location

__all__ = ["LARGE", "PREFIX", "ScratchFunctionBuilder", "is_scratch", "scratch_memory"]

#: Slots of so many bytes are kept in scratch memory where a program has it.
LARGE = 128
#: The prefix of the maps' names; a number made from the probe's name follows.
PREFIX = ".scratch"

#: Bytes of a per-CPU map's value: PCPU_MIN_UNIT_SIZE in include/linux/percpu.h.
_MOST = 32 << 10
_TAKEN = "scratch memory taken by a run that this one interrupted"
#: Programs whose results decide about a packet or a call: the one that lets it pass.
_XDP_PASS = 2


class ScratchFunctionBuilder(FunctionBuilder):
    """A function whose large slots are at `base`, an address, once it has one; they take `size` bytes there."""

    def __init__(self, name: str, parameters: Sequence[ir.Kind], where: Location | None = None) -> None:
        super().__init__(name, parameters, where)
        self.base: ir.Value | None = None
        #: The first word says whether the memory is taken.
        self.size = U64.size
        self._offsets: dict[str, int] = {}

    def slot(self, size: int, align: int = 8, name: str = "", *, opaque: bool = False) -> ir.Slot:
        if self.base is None or size < LARGE or opaque:
            return super().slot(size, align, name, opaque=opaque)
        slot = ir.Slot(f"{name or 'slot'}.scratch{len(self._offsets)}", size, max(align, 1), self.where)
        self._offsets[slot.name] = self.size
        self.size += -(-size // U64.size) * U64.size
        if self.size > _MOST:
            self.fail(
                f"the records of {self.name} take more than the {_MOST} bytes of a per-CPU map: make them smaller"
            )
        return slot

    def slot_address(self, slot: ir.Slot, offset: int = 0) -> ir.Value:
        if self.base is None or slot.name not in self._offsets:
            return super().slot_address(slot, offset)
        address = self.emit(Op.OFFSET, self.base, self.const(self._offsets[slot.name] + offset))
        self.assume_non_null(address)
        return address


def is_scratch(slot: ir.Slot) -> bool:
    """Whether a slot is in scratch memory, whose content no verifier follows."""
    return ".scratch" in slot.name


@contextmanager
def scratch_memory(p: ProgramBuilder) -> Iterator[None]:
    """Build the body with its large slots in a map; it begins where the program does."""
    b = p.b
    assert isinstance(b, ScratchFunctionBuilder)
    name = f"{PREFIX}{crc32(p.name.encode()) & 0xFFFFFF:06x}"
    key = b.slot_address(b.slot(U32.size, U32.size, name="zero"))
    b.store(key, 0, b.const(0), U32.size)
    base = b.call(MAP_LOOKUP_ELEM, b.emit(Op.MAP, symbol=name), key, result=Kind.POINTER, comment="scratch memory")
    with b.if_(Compare(Condition.EQ, base, b.const(0), null_check=True)):
        p.leave_never()
    exchanges = p.target.has("isa:atomic")
    if exchanges:
        taken = b.emit(Op.ATOMIC, base, b.const(1), size=U64.size, symbol="xchg", result=Kind.SCALAR)
    else:
        taken = b.load(base, 0, U64.size)
    with b.if_(Compare(Condition.NE, taken, b.const(0))):
        count_drop(p, _TAKEN)
        b.ret(b.const(_let_pass(p)))
    if not exchanges:
        # A program that interrupts between the two has given the memory back when this one goes on.
        b.store(base, 0, b.const(1), U64.size)
    b.base = base
    with b.region(lambda: b.store(base, 0, b.const(0), U64.size)):
        yield
    p.maps[name] = MapSpec(name, MapType.PERCPU_ARRAY, U32, ArrayType(U64, b.size // U64.size), 1)


def _let_pass(p: ProgramBuilder) -> int:
    """The result of a program that could not run: nothing is refused for it."""
    default = p.program_context.default_return(p.program_type)
    if default is not None:
        return default
    if p.program_type is ProgramType.XDP:
        return _XDP_PASS
    returned = p.program_context.return_range
    return 0 if returned is None or returned[0] < 0 else min(1, returned[1])
