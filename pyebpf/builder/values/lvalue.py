"""`Lvalue`: a value's location in memory; plain moves of bytes between locations."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from pyebpf.builder.values.memory import Space
from pyebpf.compiler.ir import Op
from pyebpf.dataclass import dataclass, replace

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator

    from pyebpf.builder.program import ProgramBuilder
    from pyebpf.compiler import ir

#: The origin of addresses in the copy of an array that is `fixed`, made to be read at run-time offsets.
COPY = "a copy"


@dataclass(frozen=True, slots=True, guarded=False)
class Lvalue:
    """Byte `offset` from the address `base`, or of the stack slot `slot`.

    Messages call it `owner`. There is no value if the address `null_check` is NULL: nothing may be read before a check.
    Other programs may write a `shared` one at the same time. In a packet there is a value if the packet is long enough:
    `packet` is the context's attribute that knows its end ("packet", "data_meta"); where there is a `reach`, that
    number must also be at most `farthest`, unsigned. The strings of an `untrusted` one need not end with a NUL.
    `space` is the memory that pointers found there lead to: it is a copy of something there. A `fixed` one is read and
    written at offsets that are known at compile time.
    """

    base: ir.Value | None = None
    slot: ir.Slot | None = None
    offset: int = 0
    owner: str = ""
    null_check: ir.Value | None = None
    shared: bool = False
    writable: bool = True
    packet: str = ""
    reach: ir.Value | None = None
    farthest: int = 0
    untrusted: bool = False
    space: Space = Space.KERNEL
    fixed: bool = False

    @property
    def ssa_values(self) -> tuple[ir.Value, ...]:
        """The SSA values, as `RunTimeValue.ssa_values`."""
        found = [value for value in (self.base, self.null_check, self.reach) if value is not None]
        return tuple(dict.fromkeys(found))

    @property
    def static_shape(self) -> Hashable:
        """All but the SSA values, as `RunTimeValue.static_shape`: two stack slots are two shapes."""
        same = self.base is not None and self.base == self.null_check
        present = self.null_check is not None
        reach = self.reach is not None
        kind = (self.owner, self.shared, self.writable, self.packet, self.untrusted, self.space, self.fixed)
        return (self.slot, self.base is not None, present, same, self.offset, reach, self.farthest, *kind)

    def with_ssa_values(self, values: tuple[ir.Value, ...]) -> Lvalue:
        """Return the lvalue of this shape with these values."""
        rest = iter(values)
        base = next(rest) if self.base is not None else None
        if self.null_check is None:
            return replace(self, base=base)
        null_check = base if self.null_check == self.base else next(rest)
        return replace(self, base=base, null_check=null_check, reach=None if self.reach is None else next(rest))

    def at(self, offset: int) -> Lvalue:
        """Return the lvalue `offset` bytes further on."""
        return replace(self, offset=self.offset + offset)

    def may_be_null(self, p: ProgramBuilder) -> bool:
        """Whether it may be None here."""
        return self.null_check is not None and not p.b.is_non_null(self.null_check)

    def check(self, p: ProgramBuilder, what: str) -> None:
        """Refuse a use where there may be no value, or not the value that it was."""
        if self.may_be_null(p):
            p.fail(f"{what} may be None: test it with `is None` first")
        self.check_valid(p, what)

    def check_valid(self, p: ProgramBuilder, what: str) -> None:
        """Refuse a use where it may be another value than it was."""
        if self.base is not None:
            reason = p.b.invalidated_by(self.base)
            if reason is not None:
                p.fail(f"{what} is used after {reason}: copy what you need first")
            p.b.note_use(self.base, what)

    def address(self, p: ProgramBuilder) -> tuple[ir.Value, int]:
        """Return an address and what to add to it."""
        if self.slot is not None:
            return p.b.slot_address(self.slot), self.offset
        assert self.base is not None
        return self.base, self.offset

    def exact(self, p: ProgramBuilder) -> ir.Value:
        """Return the address itself, for helpers."""
        if self.slot is not None:
            return p.b.slot_address(self.slot, self.offset)
        base, offset = self.address(p)
        return moved(p, base, offset)


def moved(p: ProgramBuilder, address: ir.Value, offset: int) -> ir.Value:
    """Return `address` + `offset`."""
    return address if offset == 0 else p.b.emit(Op.OFFSET, address, p.b.const(offset))


def movable(p: ProgramBuilder, lvalue: Lvalue, size: int, *, widest: int = 8) -> Lvalue:
    """Return an lvalue that can be read at run-time offsets: the same, or a copy of one that is `fixed`.

    A copy that is written at such offsets is made in pieces of an element's size, `widest`: verifiers refuse to read a
    spilled register of which a store at an offset that varies has overwritten a part.
    """
    if not lvalue.fixed:
        return lvalue
    slot = p.b.slot(-(-size // 8) * 8, name="copy")
    copy(p, p.b.slot_address(slot), 0, *lvalue.address(p), size, widest=widest)
    return Lvalue(slot=slot, owner=lvalue.owner, writable=False, untrusted=lvalue.untrusted)


@contextmanager
def temporary(p: ProgramBuilder, size: int, *, on_stack: bool = False) -> Iterator[ir.Slot]:
    """Give a slot for the body; later temporaries use the same memory again.

    What is `on_stack` is there however large it is: helpers that call a function hand it no other memory.
    """
    size = -(-size // 8) * 8
    b, free = p.b, p.b.free_slots
    fitting = (s for s in free if s.size >= size and (s.name in b.opaque) is on_stack)
    slot = min(fitting, key=lambda s: s.size, default=None)
    if slot is None:
        slot = b.slot(size, name="state" if on_stack else "temporary", opaque=on_stack)
    else:
        free.remove(slot)
    yield slot
    free.append(slot)


def alignment_of(p: ProgramBuilder, address: ir.Value) -> int:
    """The alignment of an address: 8 unless another is known."""
    return p.b.environment.facts.alignments.get(address.number, 8)


def assume_alignment(p: ProgramBuilder, address: ir.Value, alignment: int) -> None:
    """State that an address is a multiple of `alignment` only, a power of two."""
    if alignment < 8:
        p.b.environment.facts.alignments[address.number] = alignment


def pieces(offset: int, size: int, alignment: int = 8) -> Iterator[tuple[int, int]]:
    """Cut `size` bytes at `offset` from an address of this alignment into naturally aligned (offset, width) pieces."""
    end = offset + size
    while offset < end:
        width = next(w for w in (8, 4, 2, 1) if w <= alignment and offset % w == 0 and offset + w <= end)
        yield offset, width
        offset += width


def zero(p: ProgramBuilder, address: ir.Value, offset: int, size: int) -> None:
    """Write zeros over `size` bytes."""
    if size:
        nothing = p.b.const(0)
        for at, width in pieces(offset, size, alignment_of(p, address)):
            p.b.store(address, at, nothing, width)


def write_bytes(p: ProgramBuilder, address: ir.Value, offset: int, data: bytes) -> None:
    """Write constant bytes."""
    for at, width in pieces(offset, len(data), alignment_of(p, address)):
        chunk = data[at - offset : at - offset + width]
        p.b.store(address, at, p.b.const(int.from_bytes(chunk, "little", signed=True)), width)


def copy(
    p: ProgramBuilder,
    address: ir.Value,
    offset: int,
    source: ir.Value,
    source_offset: int,
    size: int,
    *,
    widest: int = 8,
) -> None:
    """Copy `size` bytes in pieces of `widest` at most; where the places are not aligned alike, in narrower ones."""
    alignment = min(alignment_of(p, address), alignment_of(p, source), widest)
    skew = (source_offset - offset) % 8
    alignment = next(w for w in (8, 4, 2, 1) if w <= alignment and skew % w == 0)
    for at, width in pieces(offset, size):
        piece = min(width, alignment)
        for step in range(0, width, piece):
            value = p.b.load(source, at + step - offset + source_offset, piece)
            p.b.store(address, at + step, value, piece)
