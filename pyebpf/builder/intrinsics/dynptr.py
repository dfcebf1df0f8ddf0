"""Dynptrs: memory whose size only the event knows, behind calls that check each access."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyebpf.builder.available import need_helper
from pyebpf.builder.context import Context
from pyebpf.builder.intrinsics.base import intrinsic
from pyebpf.builder.ssa.conditions import Compare
from pyebpf.builder.values.entity import Entity, NoPythonOperators, RunTimeValue, describe
from pyebpf.builder.values.integers import Int, read_int
from pyebpf.builder.values.lvalue import Lvalue, zero
from pyebpf.builder.values.methods import method_of
from pyebpf.builder.values.operations import rvalue, to_int
from pyebpf.builder.values.optional import OptionalInt
from pyebpf.builder.values.packet_bounds import invalidate_packet_pointers
from pyebpf.builder.values.records import RecordLiteral
from pyebpf.builder.values.references import Reference, note_change
from pyebpf.compiler.ir import Condition as Relation, Op, ValueType
from pyebpf.errors import NotFound, OnlyInProbe
from pyebpf.types import BOOL, S64, IntType, Struct, type_of
from pyebpf.uapi.helper_ids import (
    DYNPTR_DATA,
    DYNPTR_FROM_MEM,
    DYNPTR_READ,
    DYNPTR_WRITE,
)

if TYPE_CHECKING:
    from pyebpf.builder.program import ProgramBuilder
    from pyebpf.builder.values.methods import Method
    from pyebpf.compiler import ir
    from pyebpf.types import Type

#: struct bpf_dynptr.
DYNPTR_SIZE = 16
#: Functions that make a dynptr of a packet, by the kind of program (since Linux 6.4).
PACKETS = {"SCHED_CLS": "bpf_dynptr_from_skb", "CGROUP_SKB": "bpf_dynptr_from_skb", "XDP": "bpf_dynptr_from_xdp"}
_PACKET = "the packet"


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

    def attribute(self, p: ProgramBuilder, name: str) -> Method:
        return method_of(p, self, name, {"read": self.read, "write": self.write, "at": self.at})

    def _type(self, p: ProgramBuilder, declared: object, word: str) -> Type:
        found = type_of(declared)
        if found is None:
            p.fail(f"{word}(offset, {describe(declared)}): give a type, such as a Struct or u8[N]")
        return found

    def read(self, p: ProgramBuilder, offset: object, type_: object) -> object:
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

    def at(self, p: ProgramBuilder, offset: object, type_: object) -> object:
        """The `type_` at `offset` itself, to be read and written, or None if it does not lie inside.

        Of a packet, only read() and write() do: its pieces may lie apart.
        """
        found = self._type(p, type_, "at")
        if isinstance(found, IntType):
            p.fail("at() gives what can be written in place: a record or an array; numbers are read() and write()")
        where = to_int(p, offset).value
        address = p.b.call(DYNPTR_DATA, self.address(p), where, p.b.const(found.size), result=ValueType.POINTER)
        return p.load_value(Lvalue(base=address, owner=f"{self.what}.at(…)", null_check=address), found)

    def write(self, p: ProgramBuilder, offset: object, value: object, type_: object = None) -> Int:
        """Write a copy of a record at `offset`, or a number as a `type_`. True if it lay inside."""
        value = rvalue(p, value)
        found = type_of(type_) if type_ is not None else None
        if found is None and isinstance(value, (RecordLiteral, Reference)):
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


def _dynptr(p: ProgramBuilder, value: object) -> Dynptr:
    slot = p.b.slot(DYNPTR_SIZE, name="dynptr", opaque=True)
    if isinstance(value, Context):
        name = PACKETS.get(p.program_type.name)
        if name is None:
            p.fail("dynptr(ctx) is of a packet: programs of this type have none")
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
            result=ValueType.SCALAR,
            imm=function.btf_id,
            symbol=name,
        )
        return made
    if isinstance(value, RunTimeValue) and not isinstance(value, Reference):
        value = value.local(p)
    if not isinstance(value, Reference) or value.lvalue.base is None or not value.lvalue.shared:
        p.fail(f"dynptr() takes the packet's context or a map's entry that is a record, not {describe(value)}")
    value.check_writable(p)
    note_change(p, value.type)
    need_helper(p, "dynptr_from_mem", "dynptr()", "read and write the record's fields")
    made = Dynptr(slot, f"the memory of {value.lvalue.owner}")
    size = p.b.const(value.type.size)
    p.b.call(DYNPTR_FROM_MEM, value.lvalue.exact(p), size, p.b.const(0), made.address(p))
    return made


@intrinsic(_dynptr)
def dynptr(memory: object) -> Any:
    """A packet (`dynptr(ctx)`, since Linux 6.4) or a map's entry as memory with checked offsets.

    `read(offset, T)` copies a T out, None beyond the end; `write(offset, value)` is True if it lay inside; `at(offset,
    T)` is the T itself, of an entry.
    """
    raise OnlyInProbe
