"""Arrays in memory: `u8[N]` and arrays of anything else, indexed inside their bounds only."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyebpf.builder.ssa.conditions import All, Compare, Test, negate
from pyebpf.builder.values.atomics import augment
from pyebpf.builder.values.entity import Entity, describe
from pyebpf.builder.values.lvalue import Lvalue, copy, movable, pieces
from pyebpf.builder.values.operations import to_int
from pyebpf.builder.values.packet_bounds import with_bounds_check
from pyebpf.builder.values.references import Reference
from pyebpf.builder.values.restating import element_offset
from pyebpf.compiler.ir import Condition as Relation, Op
from pyebpf.dataclass import replace
from pyebpf.types import ArrayType, BytesType

if TYPE_CHECKING:
    from pyebpf.builder.program import ProgramBuilder
    from pyebpf.compiler import ir
    from pyebpf.types import Type

__all__ = ["Array", "element_lvalue", "equal_bytes", "equal_lvalues"]


class Array(Reference):
    """A reference to an array in memory."""

    type: ArrayType | BytesType

    def length(self, p: ProgramBuilder) -> int:
        return self.type.length

    def item(self, p: ProgramBuilder, index: Any) -> Any:
        self.check(p)
        return p.load_value(self._element(p, index), self.type.element)

    def set_item(self, p: ProgramBuilder, index: Any, value: Any) -> None:
        self.check_writable(p)
        if self.lvalue.fixed and not isinstance(index, int):
            whole = self._movable(p)
            whole.set_item(p, index, value)
            copy(p, *self.lvalue.address(p), *whole.lvalue.address(p), self.type.size)
            return
        p.store_value(*self._element(p, index).address(p), self.type.element, value)

    def augment_item(self, p: ProgramBuilder, index: Any, operator: str, value: Any) -> None:
        self.check(p)
        if self.lvalue.shared:
            augment(p, self._element(p, index), self.type.element, operator, value, self.describe())
        else:
            super().augment_item(p, index, operator, value)

    def _movable(self, p: ProgramBuilder) -> Array:
        """A copy that can be read and written at run-time indices."""
        return Array(self.type, replace(movable(p, self.lvalue, self.type.size), writable=True))

    def _element(self, p: ProgramBuilder, index: Any) -> Lvalue:
        if isinstance(index, int) and -self.type.length <= index < 0:
            index += self.type.length  # from the end, as Python counts
        if self.lvalue.fixed and not isinstance(index, int):
            whole = Array(self.type, movable(p, self.lvalue, self.type.size))
            return whole._element(p, index)
        return element_lvalue(
            p, self, replace(self.lvalue, null_check=None), self.type.element.size, self.type.length, index
        )

    def compare(self, p: ProgramBuilder, operator: str, other: Any, *, reflected: bool = False) -> Test:
        if operator in ("==", "!=") and isinstance(self.type, BytesType):
            same = self._equal(p, other)
            if same is not None:
                return same if operator == "==" else negate(same)
        self._refuse(p, "compare", f"cannot be compared with {describe(other)} by {operator}")

    def _equal(self, p: ProgramBuilder, other: Any) -> Test | None:
        self.check(p)
        if isinstance(other, bytes | bytearray):
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


def element_lvalue(p: ProgramBuilder, owner: Entity, lvalue: Lvalue, size: int, count: int, index: Any) -> Lvalue:
    """Place of the element at `index`, which must be provably below `count`."""
    if isinstance(index, slice):
        p.fail(f"{owner.describe()} has no slices: index its elements one by one")
    if isinstance(index, int):
        if not 0 <= index < count:
            p.fail(f"index {int(index)} is outside {owner.describe()}: 0 to {count - 1}")
        return lvalue.at(int(index) * size)
    number = to_int(p, index)
    low, high = p.b.bounds(number.value)
    # Where what is known contradicts itself no run comes, and bounds mean nothing; verifiers see them restated.
    if (low < 0 or high >= count) and not p.b.environment.contradictions:
        p.fail(
            f"this index of {owner.describe()} may lie outside 0 to {count - 1}: "
            f"test it first, if 0 <= i < {count}, or mask it"
        )
    base = lvalue.exact(p)
    address = p.b.emit(Op.OFFSET, base, element_offset(p, number.value, count, size))
    p.b.assume_non_null(address)
    if lvalue.packet:
        address = with_bounds_check(p, address, size, base, lvalue.packet)
    return Lvalue(
        base=address,
        owner=lvalue.owner,
        shared=lvalue.shared,
        writable=lvalue.writable,
        untrusted=lvalue.untrusted,
        space=lvalue.space,
    )


def equal_bytes(p: ProgramBuilder, lvalue: Lvalue, data: bytes) -> Test:
    """Whether memory holds these bytes."""
    address, offset = lvalue.address(p)
    tests: list[Test] = []
    for at, width in pieces(offset, len(data)):
        chunk = data[at - offset : at - offset + width]
        value = p.b.load(address, at, width)
        number = int.from_bytes(chunk, "little")
        tests.append(Compare(Relation.EQ, value, p.b.const(number)))
    return All(tuple(tests))


def equal_lvalues(p: ProgramBuilder, left: Lvalue, right: Lvalue, size: int) -> Test:
    """Whether two pieces of memory hold the same bytes."""
    address, offset = left.address(p)
    other, start = right.address(p)
    alike = (start - offset) % 8 == 0
    tests: list[Test] = []
    for at, width in pieces(offset, size) if alike else ((offset + i, 1) for i in range(size)):
        first = p.b.load(address, at, width)
        second = p.b.load(other, at - offset + start, width)
        tests.append(Compare(Relation.EQ, first, second))
    return All(tuple(tests))
