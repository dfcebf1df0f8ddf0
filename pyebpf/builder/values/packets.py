"""`ctx.packet`: a packet's bytes, read and written where they lie, never beyond its end.

A header is an address in the packet and one comparison with its end, made where the program tests `is None`. The
verifier learns from that comparison what may be read (Linux kernel/bpf/verifier.c, find_good_pkt_pointers).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from pyebpf.builder.available import need_helper
from pyebpf.builder.ssa.conditions import Compare
from pyebpf.builder.values.entity import Entity, NoPythonOperators, describe
from pyebpf.builder.values.integers import Int
from pyebpf.builder.values.lvalue import Lvalue
from pyebpf.builder.values.methods import method_of
from pyebpf.builder.values.operations import rvalue, to_int
from pyebpf.builder.values.packet_bounds import ORIGIN
from pyebpf.compiler.ir import Condition as Relation, Op, ValueType
from pyebpf.dataclass import replace
from pyebpf.types import S64, U32, ArrayType, BytesType, StructType, Type, type_of
from pyebpf.uapi.bpf import ProgramType
from pyebpf.uapi.helper_ids import SKB_LOAD_BYTES, XDP_GET_BUFF_LEN, XDP_LOAD_BYTES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyebpf.builder.program import ProgramBuilder
    from pyebpf.builder.values.methods import Method
    from pyebpf.compiler import ir

#: MAX_PACKET_OFF: further out the verifier believes no comparison.
_FURTHEST = 0xFFFF
#: Further out helpers that copy find nothing (net/core/filter.c, bpf_skb_load_bytes).
_LOADABLE = (1 << 31) - 1


class Packet(Entity, NoPythonOperators):
    """The packet of a program whose context has `data` and `data_end`, fields of `width` bytes at these offsets.

    Without them the program reads copies only; without `copies` it has no others. `length_at` is the offset of a u32
    with the packet's length; None where a helper or the ends tell it. `name` is what messages call it, `where` the
    attribute of the context that it is.
    """

    REMEDIES: ClassVar[Mapping[str, str]] = {
        "item": "write ctx.packet.header(Ethernet, at=0), or ctx.packet.load(u8[6], at=n) for a copy"
    }

    def __init__(
        self,
        ends: tuple[int, int] | None,
        length_at: int | None,
        *,
        writable: bool,
        width: int = 4,
        copies: bool = True,
        name: str = "the packet",
        where: str = "packet",
    ) -> None:
        self.ends = ends
        self.length_at = length_at
        self.writable = writable
        self.width = width
        self.copies = copies
        self.name = name
        self.where = where

    def describe(self) -> str:
        return self.name

    def attribute(self, p: ProgramBuilder, name: str) -> Method:
        return method_of(p, self, name, {"header": self._header, "load": self._load})

    def length(self, p: ProgramBuilder) -> Int:
        """Bytes from the packet's first to its last, fragments included."""
        if self.length_at is not None:
            return Int(p.b.load(p.context, self.length_at, 4), S64, U32)
        if self.copies and p.program_type is ProgramType.XDP and p.target.has("helper:xdp_get_buff_len@xdp"):
            value = p.b.call(XDP_GET_BUFF_LEN, p.context, comment="bpf_xdp_get_buff_len")
            p.b.assume_bounds(value, 0, U32.maximum)
            return Int(value, S64, U32)
        assert self.ends is not None
        data, data_end = (p.b.load(p.context, offset, self.width, result=ValueType.POINTER) for offset in self.ends)
        value = p.b.emit(Op.SUB, data_end, data)
        p.b.assume_bounds(value, 0, U32.maximum)
        return Int(value, S64, U32)

    def _header(self, p: ProgramBuilder, type: object, at: object = 0) -> object:  # noqa: A002 - the author's keyword
        """`header(T, at=n)`: the T that begins n bytes into the packet, in place; None if it does not lie inside."""
        found = _type(p, type, "header")
        if self.ends is None:
            p.fail(f"programs of this type read copies of their packet: write ctx.packet.load({found.name}, at=…)")
        data, farthest = self._end(p, 0), _FURTHEST - found.size
        offset, reach = _offset(p, at, farthest)
        address = moved_in(p, data, offset)
        p.b.assume_origin(address, ORIGIN)
        lvalue = Lvalue(base=address, owner=self.name, null_check=address, writable=self.writable)
        return p.load_value(replace(lvalue, packet=self.where, reach=reach, farthest=farthest, untrusted=True), found)

    def _load(self, p: ProgramBuilder, type: object, at: object = 0) -> object:  # noqa: A002 - the author's keyword
        """`load(T, at=n)`: a copy of the T that begins n bytes into the packet, or None where it ends before.

        Works for every part of a packet, also where it lies in several pieces.
        """
        found = _type(p, type, "load")
        if not self.copies:
            p.fail(f"{self.name} is read in place: write .header({found.name}, at=…)")
        at = rvalue(p, at)
        if isinstance(at, int) and not 0 <= at <= _FURTHEST:
            p.fail(f"at={int(at)} lies outside every packet")
        helper, name = (
            (XDP_LOAD_BYTES, "bpf_xdp_load_bytes")
            if p.program_type is ProgramType.XDP
            else (SKB_LOAD_BYTES, "bpf_skb_load_bytes")
        )
        if p.program_type is ProgramType.XDP:
            need_helper(p, "xdp_load_bytes", f"{self.name}.load()", "read it in place, by .header(T, at=…)")
        offset = to_int(p, at).value
        if not 0 <= p.b.bounds(offset)[0] <= p.b.bounds(offset)[1] <= _LOADABLE:
            # The helper takes 32 bits: what has more is told to lie outside, too.
            offset = _at_most(p, offset, _LOADABLE, U32.maximum)
        slot = p.b.slot(-(-found.size // 8) * 8, name="packet")
        status = p.b.call(helper, p.context, offset, p.b.slot_address(slot), p.b.const(found.size), comment=name)
        there = p.b.truth_value(Compare(Relation.EQ, status, p.b.const(0)))
        return p.load_value(Lvalue(slot=slot, owner="a copy from the packet", null_check=there, untrusted=True), found)

    def _end(self, p: ProgramBuilder, which: int) -> ir.Value:
        """The packet's first address (0) or the one behind its last (1): read once, where nothing moves it."""
        assert self.ends is not None
        offset = self.ends[which]
        variable = p.b.packet_ends.get(offset)
        if variable is None:
            variable = p.b.packet_ends[offset] = p.b.variable(ValueType.POINTER, ("data", "data_end")[which])
        value = None if p.known.packet_moves else p.b.read(variable)
        if value is None or p.b.invalidated_by(value) is not None:
            value = p.b.load(p.context, offset, self.width, result=ValueType.POINTER)
            p.b.assume_origin(value, ORIGIN)
            p.b.write(variable, value)
        return value

    def data_end(self, p: ProgramBuilder) -> ir.Value:
        """The address behind the packet's last byte (of its first piece)."""
        return self._end(p, 1)


def metadata(ends: tuple[int, int]) -> Packet:
    """`ctx.data_meta`: what XDP left in front of a frame, between `data_meta` and `data`."""
    name = "the metadata"
    return Packet(ends, None, writable=True, copies=False, name=name, where="data_meta")


def _type(p: ProgramBuilder, declared: object, word: str) -> Type:
    found = type_of(declared)
    if not isinstance(found, (StructType, BytesType, ArrayType)):
        p.fail(f"ctx.packet.{word}() takes a Struct, such as IPv4 of pyebpf.packet, or u8[n], not {describe(declared)}")
    return found


def moved_in(p: ProgramBuilder, data: ir.Value, offset: int | ir.Value) -> ir.Value:
    """`data` + `offset`, always as a value of its own: what is known of one header is not known of another."""
    return p.b.emit(Op.OFFSET, data, p.b.const(offset) if isinstance(offset, int) else offset)


def _offset(p: ProgramBuilder, at: object, most: int) -> tuple[int | ir.Value, ir.Value | None]:
    """Where a header begins: a constant, or a number from 0 to `most` that verifiers see to be one.

    If that cannot be proved, the number as given comes second: is it greater, unsigned, no header is there.
    """
    at = rvalue(p, at)
    if isinstance(at, int):
        if not 0 <= at <= most:
            p.fail(f"at={int(at)} lies outside every packet: give 0 to {most}")
        return int(at), None
    number = to_int(p, at)
    low, high = p.b.bounds(number.value)
    mask = (1 << max(high, 1).bit_length()) - 1
    if low < 0 or mask > most:
        return _at_most(p, number.value, most, 0), number.value
    if _certain(p, number.value):
        return number.value, None
    # REFINE keeps the mask, which says nothing that is not known here, but may be all that the verifier knows.
    masked = p.b.binary(Op.AND, p.b.emit(Op.REFINE, number.value), p.b.const(mask))
    p.b.assume_bounds(masked, low, high)
    return masked, None


def _at_most(p: ProgramBuilder, number: ir.Value, most: int, other: int) -> ir.Value:
    """The number where it lies from 0 to `most`, else `other`."""
    found = p.b.variable(hint="offset")
    with p.b.if_(Compare(Relation.ULE, number, p.b.const(most))):
        p.b.write(found, p.b.emit(Op.REFINE, number))
    with p.b.else_():
        p.b.write(found, p.b.const(other))
    return p.b.read_final(found)


def _certain(p: ProgramBuilder, value: ir.Value) -> bool:
    """Whether every verifier knows the bounds of a number as they are known here, from how it was computed.

    Not from a SWAP, whose result Linux 6.1 takes for any number, nor from what branches found out.
    """
    definition = p.b.definition(value)
    if definition is None:
        return False
    match definition.op:
        case Op.CONST:
            return True
        case Op.LOAD:
            return definition.size < 8 and not definition.signed
        case Op.AND:
            mask = p.b.definition(definition.operands[1])
            return (mask is not None and mask.op is Op.CONST and mask.imm >= 0) or _certain(p, definition.operands[0])
        case Op.ADD | Op.SHL | Op.LSHR | Op.MUL:
            return all(_certain(p, operand) for operand in definition.operands)
        case _:
            return False
