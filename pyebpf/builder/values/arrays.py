"""Arrays in memory: `u8[N]` and arrays of anything else, indexed inside their bounds only."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyebpf.builder.ssa.conditions import All, Compare, Test, differing_bits, negate
from pyebpf.builder.values.atomics import augment
from pyebpf.builder.values.entity import Entity, RunTimeValue, describe
from pyebpf.builder.values.lvalue import COPY, Lvalue, alignment_of, assume_alignment, copy, movable, pieces
from pyebpf.builder.values.operations import to_int
from pyebpf.builder.values.packet_bounds import with_bounds_check
from pyebpf.builder.values.references import Reference, copied, is_overwritten, note_change
from pyebpf.builder.values.restating import element_offset, is_index
from pyebpf.compiler.ir import Condition as Relation, Op
from pyebpf.dataclass import replace
from pyebpf.types import ArrayType, BytesType, StructType

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyebpf.builder.program import ProgramBuilder
    from pyebpf.compiler import ir
    from pyebpf.types import Type


class Array(Reference):
    """A reference to an array in memory."""

    type: ArrayType | BytesType

    def length(self, p: ProgramBuilder) -> int:
        return self.type.length

    def item(self, p: ProgramBuilder, index: object) -> Entity:
        self.check(p)
        return p.load_value(self._element(p, index), self.type.element, part=True)

    def set_item(self, p: ProgramBuilder, index: object, value: object) -> None:
        self.check_writable(p)
        if self.lvalue.fixed and not isinstance(index, int):
            width = min(self.type.element.size & -self.type.element.size, 8)
            moved = movable(p, self.lvalue, self.type.size, widest=width)
            Array(self.type, replace(moved, writable=True)).set_item(p, index, value)
            copy(p, *self.lvalue.address(p), *moved.address(p), self.type.size, widest=width)
        else:
            note_change(p, self.type)
            p.store_value(*self._element(p, index).address(p), self.type.element, value)
        self.note_written(p)

    def augment_item(self, p: ProgramBuilder, index: object, operator: str, value: object) -> None:
        self.check(p)
        if self.lvalue.shared:
            self.check_writable(p)
            note_change(p, self.type)
            augment(p, self._element(p, index), self.type.element, operator, value, self.describe())
        else:
            super().augment_item(p, index, operator, value)

    def _element(self, p: ProgramBuilder, index: object) -> Lvalue:
        if isinstance(index, int) and -self.type.length <= index < 0:
            index += self.type.length  # from the end, as Python counts
        if self.lvalue.fixed and not isinstance(index, int):
            found = Array(self.type, movable(p, self.lvalue, self.type.size))._element(p, index)
            if found.base is not None and type(self.type.element) in (
                ArrayType,
                StructType,
            ):  # strings and tuples are kept
                p.b.assume_origin(found.base, COPY)
            return found
        return element_lvalue(
            p, self, replace(self.lvalue, null_check=None), self.type.element.size, self.type.length, index
        )

    def compare(self, p: ProgramBuilder, operator: str, other: object, *, reflected: bool = False) -> Test:
        if operator in ("==", "!=") and isinstance(self.type, BytesType):
            same = self._equal(p, other)
            if same is not None:
                return same if operator == "==" else negate(same)
        self._refuse(p, "compare", f"cannot be compared with {describe(other)} by {operator}")

    def _equal(self, p: ProgramBuilder, other: object) -> Test | None:
        self.check(p)
        if isinstance(other, (bytes, bytearray)):
            if len(other) != self.type.length:
                p.fail(f"{other!r} has {len(other)} bytes and can never equal {self.type.name}")
            return equal_bytes(p, self.lvalue, bytes(other))
        if isinstance(other, Array) and other.type == self.type:
            other.check(p)
            return equal_lvalues(p, self.lvalue, other.lvalue, self.type.size)
        return None

    def write_to(self, p: ProgramBuilder, address: ir.Value, offset: int, type_: Type) -> None:
        """Copy to memory of the same type."""
        self.check(p)
        if type_ != self.type:
            p.fail(f"{self.describe()} does not fit {type_.name}")
        copy(p, address, offset, *self.lvalue.address(p), self.type.size)


class Bytes(Array):
    """Bytes that are a part of something: of a record, a tuple, an array. They are a value, as Python's bytes are."""

    def local(self, p: ProgramBuilder) -> RunTimeValue:
        """Where the program changes bytes in memory, a name takes a copy; no name changes them."""
        if is_overwritten(p, self.lvalue, BytesType):
            return copied(p, self, KeptBytes)
        return KeptBytes(self.type, replace(self.lvalue, writable=False))


class KeptBytes(Bytes):
    """Bytes that a name keeps."""

    def local(self, p: ProgramBuilder) -> RunTimeValue:
        return self

    def check_writable(self, p: ProgramBuilder) -> None:
        p.fail(
            f"{self.describe()} in a variable cannot be changed, as Python's bytes cannot: assign to a byte of the "
            "field itself, r.data[0] = …"
        )


def element_lvalue(p: ProgramBuilder, owner: Entity, lvalue: Lvalue, size: int, count: int, index: object) -> Lvalue:
    """Place of the element at `index`, which must be provably below `count`."""
    if isinstance(index, slice):
        p.fail(f"{owner.describe()} has no slices: index its elements one by one")
    if isinstance(index, int):
        if not 0 <= index < count:
            p.fail(f"index {int(index)} is outside {owner.describe()}: 0 to {count - 1}")
        return lvalue.at(int(index) * size)
    number = to_int(p, index)
    if not is_index(p, number.value, count):
        p.fail(
            f"this index of {owner.describe()} may lie outside 0 to {count - 1}: "
            f"test it first, if 0 <= i < {count}, or mask it"
        )
    base = lvalue.exact(p)
    address = p.b.emit(Op.OFFSET, base, element_offset(p, number.value, count, size), imm=(count - 1) * size)
    p.b.assume_non_null(address)
    if lvalue.packet:
        address = with_bounds_check(p, address, size, base, lvalue.packet)
    if lvalue.base is not None and p.b.origin(lvalue.base) == COPY:
        p.b.assume_origin(address, COPY)
    known = 8 if lvalue.base is None else alignment_of(p, lvalue.base)
    if lvalue.base is None or known < 8:  # of the stack, where the verifier wants aligned accesses
        assume_alignment(p, address, min(known, *((each & -each) or 8 for each in (size, lvalue.offset))))
    return Lvalue(
        base=address,
        owner=lvalue.owner,
        shared=lvalue.shared,
        writable=lvalue.writable,
        untrusted=lvalue.untrusted,
        space=lvalue.space,
    )


#: Numbers that are compared one by one; more are one number, of all bits that differ, which is all that has to be kept.
_ONE_BY_ONE = 2
#: Numbers of two pieces of memory that are compared without a loop, and those that one test of a loop compares.
_PIECES, _COMPARED_AT_ONCE = 16, 8


def equal_bytes(p: ProgramBuilder, lvalue: Lvalue, data: bytes) -> Test:
    """Whether memory holds these bytes."""
    address, offset = lvalue.address(p)

    def chunk(at: int, width: int) -> ir.Value:
        return p.b.const(int.from_bytes(data[at - offset : at - offset + width], "little"))

    parts = list(pieces(offset, len(data), alignment_of(p, address)))
    return _all_equal(p, len(parts), ((p.b.load(address, at, width), chunk(at, width)) for at, width in parts))


def equal_lvalues(p: ProgramBuilder, left: Lvalue, right: Lvalue, size: int) -> Test:
    """Whether two pieces of memory hold the same bytes."""
    address, offset = left.address(p)
    other, start = right.address(p)
    alignment = min(alignment_of(p, address), alignment_of(p, other)) if (start - offset) % 8 == 0 else 1
    parts = list(pieces(offset, size, alignment))
    if len(parts) > _PIECES:
        return _equal_in_turn(p, left, right, size)
    loaded = ((p.b.load(address, at, width), p.b.load(other, at - offset + start, width)) for at, width in parts)
    return _all_equal(p, len(parts), loaded)


def _all_equal(p: ProgramBuilder, count: int, pairs: Iterable[tuple[ir.Value, ir.Value]]) -> Test:
    """Whether the numbers of each of so many pairs are equal."""
    if count <= _ONE_BY_ONE:
        return All(tuple(Compare(Relation.EQ, one, other) for one, other in pairs))
    nothing = p.b.const(0)
    return Compare(Relation.EQ, differing_bits(pairs, p.b.binary, nothing), nothing)


def _equal_in_turn(p: ProgramBuilder, left: Lvalue, right: Lvalue, size: int) -> Test:
    """The same of large ones: by a loop that ends where they differ.

    Some numbers are compared by one test, since verifiers go on from each end of a loop, and take time to forget it.
    """
    from pyebpf.builder.loops import range_loop

    b = p.b
    address, offset = movable(p, left, size).address(p)
    other, start = movable(p, right, size).address(p)
    alignment = min(alignment_of(p, address), alignment_of(p, other))
    width = next(each for each in (8, 4, 2, 1) if each <= alignment and not (offset | start | size) % each)
    differs = b.variable(hint="differs")
    b.write(differs, b.const(0))
    together = next(each for each in range(_COMPARED_AT_ONCE, 0, -1) if size // width % each == 0) * width
    with range_loop(p, 0, size // together, 1, [differs]) as (loop, index):
        at = element_offset(p, index.value, size // together, together)
        here, there = b.emit(Op.OFFSET, address, at), b.emit(Op.OFFSET, other, at)
        loaded = (
            (b.load(here, offset + place, width), b.load(there, start + place, width))
            for place in range(0, together, width)
        )
        nothing = b.const(0)
        with b.if_(Compare(Relation.NE, differing_bits(loaded, b.binary, nothing), nothing)):
            b.write(differs, b.const(1))
            b.break_(loop)
    return Compare(Relation.EQ, b.read_final(differs), b.const(0))
