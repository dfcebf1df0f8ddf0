"""Dynptrs: memory whose size only the event knows, behind calls that check each access."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyebpf.builder.available import need_helper
from pyebpf.builder.contexts.base import Context
from pyebpf.builder.drop_counters import count_drop
from pyebpf.builder.intrinsics.base import intrinsic
from pyebpf.builder.loops import range_loop
from pyebpf.builder.ringbuf import NO_ROOM, RingBufferEntity
from pyebpf.builder.ssa.conditions import Compare
from pyebpf.builder.values.comparisons import minimum
from pyebpf.builder.values.entity import Entity, NoPythonOperators, RunTimeValue, describe
from pyebpf.builder.values.integers import Int, read_int
from pyebpf.builder.values.lvalue import Lvalue, zero
from pyebpf.builder.values.methods import method_of
from pyebpf.builder.values.none import OptionalInt
from pyebpf.builder.values.operations import binary, rvalue, to_int
from pyebpf.builder.values.packet_bounds import invalidate_packet_pointers
from pyebpf.builder.values.records import RecordLiteral
from pyebpf.builder.values.references import Reference
from pyebpf.builder.values.restating import restated
from pyebpf.compiler.ir import Condition as Relation, Kind, Op
from pyebpf.errors import NotFound, OnlyInProbe
from pyebpf.specs import MapSpec
from pyebpf.types import BOOL, S64, U8, U32, ArrayType, BytesType, IntType, Struct, type_of
from pyebpf.uapi.bpf import MapType
from pyebpf.uapi.helper_ids import (
    DYNPTR_DATA,
    DYNPTR_FROM_MEM,
    DYNPTR_READ,
    DYNPTR_WRITE,
    RINGBUF_RESERVE_DYNPTR,
    RINGBUF_SUBMIT_DYNPTR,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyebpf.builder.program import ProgramBuilder
    from pyebpf.compiler import ir
    from pyebpf.types import Type

__all__ = ["ByteRingEntity", "Dynptr", "dynptr"]

#: struct bpf_dynptr.
SIZE = 16
#: Functions that make a dynptr of a packet, by the kind of program (since Linux 6.4).
PACKETS = {"SCHED_CLS": "bpf_dynptr_from_skb", "CGROUP_SKB": "bpf_dynptr_from_skb", "XDP": "bpf_dynptr_from_xdp"}
_PACKET = "the packet"

#: Zeros that reservations are cleared with, so many at a time, and most such rounds.
_ZEROS, _ROUNDS = 4096, 64


class Dynptr(Entity, NoPythonOperators):
    """Memory of a size that the event decides. Offsets count from its start; what lies beyond its end is None."""

    def __init__(self, slot: ir.Slot, what: str) -> None:
        self.slot = slot
        self.what = what

    def describe(self) -> str:
        return self.what

    def address(self, p: ProgramBuilder) -> ir.Value:
        """Where the `struct bpf_dynptr` is."""
        return p.b.slot_address(self.slot)

    def attribute(self, p: ProgramBuilder, name: str) -> Any:
        return method_of(p, self, name, {"read": self.read, "write": self.write, "at": self.at})

    def _type(self, p: ProgramBuilder, declared: Any, word: str) -> Type:
        found = type_of(declared)
        if found is None:
            p.fail(f"{word}(offset, {describe(declared)}): give a type, such as a Struct or u8[N]")
        return found

    def read(self, p: ProgramBuilder, offset: Any, type_: Any) -> Any:
        """A copy of the `type_` at `offset`, or None if it does not lie inside."""
        found = self._type(p, type_, "read")
        slot = p.b.slot(-(-found.size // 8) * 8, name="copy")
        address = p.b.slot_address(slot)
        zero(p, address, 0, slot.size)
        where = to_int(p, offset).value
        status = p.b.call(DYNPTR_READ, address, p.b.const(found.size), self.address(p), where, p.b.const(0))
        failed = p.b.emit(Op.SEXT, status, size=4)
        present = p.b.truth_value(Compare(Relation.EQ, failed, p.b.const(0)))
        if isinstance(found, IntType):
            number = read_int(p, address, 0, found)
            return OptionalInt(present, number.value, number.type, number.loaded, f"{self.what}.read(…)")
        untrusted = self.what == _PACKET
        return p.load_value(
            Lvalue(slot=slot, owner=f"{self.what}.read(…)", null_check=present, untrusted=untrusted), found
        )

    def at(self, p: ProgramBuilder, offset: Any, type_: Any) -> Any:
        """The `type_` at `offset` itself, to be read and written, or None if it does not lie inside.

        Of a packet, only read() and write() do: its pieces may lie apart.
        """
        found = self._type(p, type_, "at")
        if isinstance(found, IntType):
            p.fail("at() gives what can be written in place: a record or an array; numbers are read() and write()")
        where = to_int(p, offset).value
        address = p.b.call(DYNPTR_DATA, self.address(p), where, p.b.const(found.size), result=Kind.POINTER)
        return p.load_value(Lvalue(base=address, owner=f"{self.what}.at(…)", null_check=address), found)

    def write(self, p: ProgramBuilder, offset: Any, value: Any, type_: Any = None) -> Int:
        """Write a copy of a record at `offset`, or a number as a `type_`. True if it lay inside."""
        value = rvalue(p, value)
        found = type_of(type_) if type_ is not None else None
        if found is None and isinstance(value, RecordLiteral | Reference):
            found = value.type
        if found is None and isinstance(value, Struct):
            found = value.layout
        if found is None:
            p.fail(f"write(offset, {describe(value)}): say what it is written as, write(offset, value, u32)")
        slot = p.b.slot(-(-found.size // 8) * 8, name="copy")
        address = p.b.slot_address(slot)
        p.store_value(address, 0, found, value)
        where, nothing = to_int(p, offset).value, p.b.const(0)
        status = p.b.call(DYNPTR_WRITE, self.address(p), where, address, p.b.const(found.size), nothing)
        if self.what == _PACKET:
            invalidate_packet_pointers(p, "write() of the packet's dynptr")
        inside = Compare(Relation.EQ, p.b.emit(Op.SEXT, status, size=4), p.b.const(0))
        return Int(p.b.truth_value(inside), S64, BOOL)


class Reservation(Entity, NoPythonOperators):
    """`ring.reserve(n)`, until `with` makes it."""

    def __init__(self, ring: ByteRingEntity, size: Int) -> None:
        self.ring = ring
        self.size = size
        self._made: Dynptr | None = None

    def describe(self) -> str:
        return f"a reservation in {self.ring.map_name}: write `with {self.ring.map_name}.reserve(n) as data:`"

    def enter(self, p: ProgramBuilder) -> Dynptr:
        made = self._made = Dynptr(
            p.b.slot(SIZE, name="dynptr", opaque=True), f"the reservation in {self.ring.map_name}"
        )
        handle = p.b.emit(Op.MAP, symbol=p.use_map(self.ring.spec))
        status = p.b.call(RINGBUF_RESERVE_DYNPTR, handle, self.size.value, p.b.const(0), made.address(p))
        with p.b.if_(Compare(Relation.NE, p.b.emit(Op.SEXT, status, size=4), p.b.const(0))):
            count_drop(p, NO_ROOM, self.ring.map_name)
        with p.b.else_():
            _clear(p, made, self.size)
        return made

    def leave(self, p: ProgramBuilder) -> None:
        assert self._made is not None
        # Also where there was no room: the dynptr is then of nothing, and must be given back all the same.
        p.b.call(RINGBUF_SUBMIT_DYNPTR, self._made.address(p), p.b.const(0))


def _clear(p: ProgramBuilder, made: Dynptr, size: Int) -> None:
    """Zero what is reserved: the kernel leaves there what earlier records held."""
    b = p.b
    _, high = b.bounds(size.value)
    most = max(_ZEROS, 1 << (-(-high // _ROUNDS) - 1).bit_length())
    zeros = p.use_map(MapSpec(f".zeros{most}", MapType.ARRAY, U32, ArrayType(U8, most), 1))

    def clear(offset: ir.Value, length: ir.Value) -> None:
        # Verifiers do not know what a reservation's size is bounded by.
        length = restated(p, length, *b.bounds(length))
        b.call(DYNPTR_WRITE, made.address(p), offset, b.emit(Op.MAP_VALUE, symbol=zeros), length, b.const(0))

    if high <= most:
        clear(b.const(0), size.value)
        return
    with range_loop(p, 0, size, most, []) as (_, offset):
        rest = to_int(p, minimum(p, binary(p, "-", size, offset), most)).value
        b.assume_bounds(rest, 1, most)
        clear(offset.value, rest)


class ByteRingEntity(RingBufferEntity):
    """A ring buffer of records of any length."""

    def __init__(self, name_source: str | Callable[[], str], size: int) -> None:
        super().__init__(name_source, BytesType(1), size)

    def attribute(self, p: ProgramBuilder, name: str) -> Any:
        return method_of(p, self, name, {"reserve": self.reserve})

    def reserve(self, p: ProgramBuilder, size: Any) -> Reservation:
        """`with ring.reserve(n) as data:` a record of n bytes, sent at the end of `with`, on every way out."""
        need_helper(p, "ringbuf_reserve_dynptr", "reserve(n)", "send records of one size, bpf.ringbuf(Record)")
        number = to_int(p, size)
        low, high = p.b.bounds(number.value)
        if not 0 < low <= high < self.size:
            p.fail(
                f"reserve(n) takes 1 to {self.size - 1} bytes, and this number is not known to be one: write "
                f"reserve(max(1, min(n, {min(4096, self.size - 1)})))"
            )
        return Reservation(self, number)


def _dynptr(p: ProgramBuilder, value: Any) -> Dynptr:
    slot = p.b.slot(SIZE, name="dynptr", opaque=True)
    if isinstance(value, Context):
        name = PACKETS.get(p.kind.name)
        if name is None:
            p.fail("dynptr(ctx) is of a packet: programs of this kind have none")
        try:
            function = p.target.function(name)
        except NotFound:
            p.fail(f"this kernel has no dynptrs of packets, {name}() (since Linux 6.4)")
        made = Dynptr(slot, _PACKET)
        p.b.emit(
            Op.CALL_KFUNC,
            p.context,
            p.b.const(0),
            made.address(p),
            result=Kind.SCALAR,
            imm=function.btf_id,
            symbol=name,
        )
        return made
    if isinstance(value, RunTimeValue) and not isinstance(value, Reference):
        value = value.local(p)
    if not isinstance(value, Reference) or value.lvalue.base is None or not value.lvalue.shared:
        p.fail(f"dynptr() takes the packet's context or a map's entry that is a record, not {describe(value)}")
    value.check_writable(p)
    need_helper(p, "dynptr_from_mem", "dynptr()", "read and write the record's fields")
    made = Dynptr(slot, f"the memory of {value.lvalue.owner}")
    size = p.b.const(value.type.size)
    p.b.call(DYNPTR_FROM_MEM, value.lvalue.exact(p), size, p.b.const(0), made.address(p))
    return made


@intrinsic(_dynptr)
def dynptr(memory: Any) -> Any:
    """A packet (`dynptr(ctx)`, since Linux 6.4) or a map's entry as memory with checked offsets.

    `read(offset, T)` copies a T out, None beyond the end; `write(offset, value)` is True if it lay inside; `at(offset,
    T)` is the T itself, of an entry.
    """
    raise OnlyInProbe
