"""Strings: `char[N]` in memory, and strings still to be read, whose size their destination decides.

A `char[N]` holds at most N-1 bytes, a NUL, and zeros to the end, always: equal strings are equal bytes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from pyebpf.builder.ssa.conditions import Always, Compare, Test, negate
from pyebpf.builder.values.arrays import element_lvalue, equal_bytes, equal_lvalues
from pyebpf.builder.values.entity import RunTimeValue, describe
from pyebpf.builder.values.integers import Character, Int, relation
from pyebpf.builder.values.lvalue import Lvalue, alignment_of, assume_alignment, copy, movable, moved, pieces, zero
from pyebpf.builder.values.methods import method_of
from pyebpf.builder.values.operations import any_in_turn
from pyebpf.builder.values.references import Reference, copied, is_overwritten
from pyebpf.builder.values.search import find_bytes
from pyebpf.compiler.ir import Condition as Relation, Op
from pyebpf.types import S64, U8, CharArray

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Mapping

    from pyebpf.builder.program import ProgramBuilder
    from pyebpf.builder.values.entity import Entity
    from pyebpf.builder.values.methods import Method
    from pyebpf.compiler import ir
    from pyebpf.errors import Location
    from pyebpf.types import Type

_NO_OPERATOR = "strings are not put together or taken apart in a probe: emit the pieces as fields of their own"


class String(Reference):
    """A reference to a `char[N]` in memory."""

    type: CharArray

    def local(self, p: ProgramBuilder) -> RunTimeValue:
        """Python's strings never change: where the program changes strings in memory, a name takes a copy."""
        return copied(p, self, String) if is_overwritten(p, self.lvalue, CharArray) else self

    def binary(self, p: ProgramBuilder, operator: str, other: object, *, reflected: bool = False) -> NoReturn:
        p.fail(f"{self.describe()} has no operator {operator}: {_NO_OPERATOR}")

    def compare(self, p: ProgramBuilder, operator: str, other: object, *, reflected: bool = False) -> Test:
        self.check(p)
        if operator not in ("==", "!="):
            p.fail(f"{self.describe()} has no operator {operator}: strings are compared by == and !=")
        if isinstance(other, (str, bytes)):
            same = equal_bytes(p, self.lvalue, self._literal(p, other) + b"\0")
        else:
            string = local_string(p, other.beside(p, [self]) if isinstance(other, StringSource) else other)
            if string is None:
                p.fail(f"{self.describe()} cannot be compared with {describe(other)}, which is not a string")
            string.check(p)
            # Up to the end of the shorter: by then there has been a NUL in both, and only zeros follow.
            same = equal_lvalues(p, self.lvalue, string.lvalue, min(self.type.length, string.type.length))
        return same if operator == "==" else negate(same)

    def _literal(self, p: ProgramBuilder, literal: str | bytes) -> bytes:
        raw = _raw(literal)
        if len(raw) >= self.type.length or b"\0" in raw:
            p.fail(
                f"{literal!r} can never fit {self.type.name}: at most {self.type.length - 1} bytes, none of them NUL"
            )
        return raw

    def truth(self, p: ProgramBuilder) -> Test:
        if self.lvalue.may_be_null(p):
            return super().truth(p)
        self.check(p)
        address, offset = self.lvalue.address(p)
        return Compare(Relation.NE, p.b.load(address, offset, 1), p.b.const(0))

    def attribute(self, p: ProgramBuilder, name: str) -> object:
        return _method_of(p, self, name, {"startswith": self._starts_with, "endswith": self._ends_with})

    def _starts_with(self, p: ProgramBuilder, prefix: object) -> Test:
        self.check(p)
        wanted = [self._literal(p, each) for each in literals(p, "startswith", prefix)]
        if len(wanted) == 1:
            return equal_bytes(p, self.lvalue, wanted[0])
        return any_in_turn(p, (equal_bytes(p, self.lvalue, each) for each in wanted))

    def _ends_with(self, p: ProgramBuilder, suffix: object) -> Test:
        # Behind the first NUL there are only more: what a NUL follows stands at the end.
        self.check(p)
        wanted = [self._literal(p, each) for each in literals(p, "endswith", suffix)]
        if b"" in wanted:
            return Always(holds=True)
        return any_in_turn(p, (find_bytes(p, self, self.type.length, each + b"\0") for each in wanted))

    def length(self, p: ProgramBuilder) -> object:
        """Bytes before the NUL, by bisection: behind the first zero there are only zeros."""
        self.check(p)
        b = p.b
        most = self.type.length - 1
        if most == 0:
            return 0
        base, offset = movable(p, self.lvalue, self.type.size).address(p)
        count = b.variable(hint="length")
        b.write(count, b.const(0))
        step = 1 << most.bit_length() - 1
        while step:
            found = b.read_final(count)
            b.write(count, found)
            # Where N-1 is no power of two less one, the last steps could lead out.
            whole = relation(p, "<=", Int(found, S64), Int(b.const(most - step), S64))
            with b.if_(whole if b.bounds(found)[1] > most - step else Always(holds=True)):
                found = b.emit(Op.REFINE, found)
                last = b.load(b.emit(Op.OFFSET, base, found), offset + step - 1, 1)
                with b.if_(Compare(Relation.NE, last, b.const(0))):
                    more = b.binary(Op.ADD, found, b.const(step))
                    b.assume_bounds(more, step, most)
                    b.write(count, more)
            step >>= 1
        length = b.read_final(count)
        b.assume_bounds(length, 0, most)
        return Int(length, S64)

    def item(self, p: ProgramBuilder, index: object) -> object:
        self.check(p)
        if isinstance(index, slice):
            return self._slice(p, *_ends(p, index))
        lvalue = self.lvalue if isinstance(index, int) else movable(p, self.lvalue, self.type.size)
        address, offset = element_lvalue(p, self, lvalue, 1, self.type.length, index).address(p)
        return Character(p.b.load(address, offset, 1), S64, U8)

    def _slice(self, p: ProgramBuilder, start: int, stop: int | None) -> String:
        # Behind the end there are only zeros: what they are a part of is shorter, or empty.
        most = self.type.length - 1
        start, stop, _ = slice(start, stop).indices(most)
        kept = max(stop - start, 0)
        size = -(-(kept + 1) // 8) * 8
        slot = p.b.slot(size, name="string")
        address = p.b.slot_address(slot)
        source, offset = self.lvalue.address(p)
        copy(p, address, 0, source, offset + start, kept)
        zero(p, address, kept, size - kept)
        return String(CharArray(kept + 1), Lvalue(slot=slot, owner="a local", writable=False))

    def set_item(self, p: ProgramBuilder, index: object, value: object) -> None:
        p.fail(f"{self.describe()} cannot be changed byte by byte: assign a whole string")

    def contains(self, p: ProgramBuilder, item: object) -> Test:
        self.check(p)
        if not isinstance(item, (str, bytes)):
            p.fail(f"only a literal can be searched for in {self.describe()}, not {describe(item)}")
        wanted = self._literal(p, item)
        return find_bytes(p, self, self.type.length - 1, wanted) if wanted else Always(holds=True)

    def write_to(self, p: ProgramBuilder, address: ir.Value, offset: int, type_: Type) -> None:
        """Copy to memory of any string type: cut with a NUL at the end, or zeros to the end."""
        self.check(p)
        if not isinstance(type_, CharArray):
            p.fail(f"{self.describe()} does not fit {type_.name}")
        source, start = self.lvalue.address(p)
        whole = self.type.length <= type_.length
        kept = self.type.length if whole else type_.length - 1
        copy(p, address, offset, source, start, kept)
        zero(p, address, offset + kept, type_.length - kept)


class UntrustedString(String):
    """A `char[N]` that somebody else wrote, such as a field of a packet: it may be full, or have junk behind its NUL.

    It is the string that C would read, of at most N-1 bytes; what more than its beginning counts for, works on a copy
    that is as all strings are.
    """

    def clean(self, p: ProgramBuilder) -> String:
        """A copy as the language has strings."""
        slot = p.b.slot(-(-self.type.size // 8) * 8, name="string")
        self.write_to(p, p.b.slot_address(slot), 0, self.type)
        return String(self.type, Lvalue(slot=slot, owner=self.lvalue.owner, writable=False))

    def compare(self, p: ProgramBuilder, operator: str, other: object, *, reflected: bool = False) -> Test:
        if isinstance(other, (str, bytes)) and len(self._literal(p, other)) < self.type.length - 1:
            return super().compare(p, operator, other, reflected=reflected)
        return self.clean(p).compare(p, operator, other, reflected=reflected)

    def length(self, p: ProgramBuilder) -> object:
        return self.clean(p).length(p)

    def contains(self, p: ProgramBuilder, item: object) -> Test:
        return self.clean(p).contains(p, item)

    def _ends_with(self, p: ProgramBuilder, suffix: object) -> Test:
        return self.clean(p)._ends_with(p, suffix)

    def item(self, p: ProgramBuilder, index: object) -> object:
        return super().item(p, index) if isinstance(index, int) and index == 0 else self.clean(p).item(p, index)

    def write_to(self, p: ProgramBuilder, address: ir.Value, offset: int, type_: Type) -> None:
        """Copy up to the first NUL, and zeros from there on."""
        self.check(p)
        if not isinstance(type_, CharArray):
            p.fail(f"{self.describe()} does not fit {type_.name}")
        source, start = self.lvalue.address(p)
        kept = min(self.type.length, type_.length) - 1
        alignment = min(alignment_of(p, source), alignment_of(p, address))
        widest = next(width for width in (8, 4, 2, 1) if width <= alignment and (start - offset) % width == 0)
        going: ir.Value | None = None
        for first, width in pieces(offset, kept):
            step = min(width, widest)
            for at in range(first, first + width, step):
                piece = p.b.load(source, at - offset + start, step)
                if going is not None:
                    piece = p.b.binary(Op.AND, piece, going)
                kept_bits, going = until_nul(p, piece, step)
                p.b.store(address, at, p.b.binary(Op.AND, piece, kept_bits), step)
        zero(p, address, offset + kept, type_.length - kept)


def until_nul(p: ProgramBuilder, piece: ir.Value, width: int) -> tuple[ir.Value, ir.Value]:
    """All bits of a number's bytes before the first that is 0; and all bits if there is none such, else no bits."""
    b = p.b
    ones = int.from_bytes(b"\x01" * width, "little")
    # A byte that is 0 borrows when 1 is taken from it, and so sets its top bit, which it had not.
    inverse = b.binary(Op.XOR, piece, b.const(-1))
    tops = b.binary(Op.AND, b.binary(Op.AND, b.binary(Op.SUB, piece, b.const(ones)), inverse), b.const(ones << 7))
    # Bytes above the first may have borrowed from it: the lowest bit is sure.
    lowest = b.binary(Op.AND, tops, b.binary(Op.SUB, b.const(0), tops))
    nul = b.binary(Op.LSHR, lowest, b.const(7))
    before = b.binary(Op.SUB, nul, b.const(1))
    found = b.binary(Op.ASHR, b.binary(Op.SUB, b.const(0), nul), b.const(63))
    return before, b.binary(Op.XOR, found, b.const(-1))


def _method_of(p: ProgramBuilder, owner: Entity, name: str, methods: Mapping[str, Callable[..., object]]) -> Method:
    if hasattr(str, name) and name not in methods:
        p.fail(
            f"{owner.describe()} has no method {name}() in a probe, where strings have ==, in, startswith(), "
            "endswith(), len() and slices: do the rest in user space"
        )
    return method_of(p, owner, name, methods)


class StringSource(RunTimeValue):
    """A string still to be read: `comm()`, `user_string(p)`.

    `read_into(p, address, size)` writes at most size - 1 bytes and a NUL to zeroed memory. `size` is what the author or
    the intrinsic says where no destination does; None if nothing does. `where` is the expression's place: what reads it
    comes from there, however late that is built. One that `counts` takes any memory, and returns the number of bytes
    with the NUL, or a negative one after an error.
    """

    def __init__(
        self,
        name: str,
        read_into: Callable[[ProgramBuilder, ir.Value, int], ir.Value | None],
        size: int | None = None,
        where: Location | None = None,
        remedy: str = "give one, size=64 for example",
        *,
        counts: bool = False,
    ) -> None:
        self.counts = counts
        self.remedy = remedy
        self.name = name
        self.read_into = read_into
        self.size = size
        self.where = where

    @property
    def ssa_values(self) -> tuple[ir.Value, ...]:
        return ()

    @property
    def static_shape(self) -> Hashable:
        return ("string source", id(self))

    def with_ssa_values(self, values: tuple[ir.Value, ...]) -> StringSource:
        return self

    def describe(self) -> str:
        return self.name

    def local(self, p: ProgramBuilder) -> String:
        """Read it now, to the stack."""
        if self.size is None:
            p.fail(f"{self.name} has no destination that gives its size: {self.remedy}")
        return self._read(p, self.size)

    def sized(self, size: int) -> StringSource:
        """The same string, of at most `size` bytes with its NUL."""
        return StringSource(self.name, self.read_into, size, self.where, self.remedy, counts=self.counts)

    def beside(self, p: ProgramBuilder, others: Iterable[object]) -> String:
        """Read it now; where nothing gives its size, what it is compared with does: one byte more than the longest."""
        if self.size is not None:
            return self._read(p, self.size)
        rooms = [len(_raw(each)) + 2 for each in others if isinstance(each, (str, bytes))]
        rooms += [each.type.length + 1 for each in others if isinstance(each, String)]
        rooms += [each.size + 1 for each in others if isinstance(each, StringSource) and each.size is not None]
        return self._read(p, max(rooms)) if rooms else self.local(p)

    def _read(self, p: ProgramBuilder, size: int) -> String:
        slot = p.b.slot(-(-size // 8) * 8, name="string")
        type_ = CharArray(size)
        self.write_to(p, p.b.slot_address(slot), 0, type_)
        return String(type_, Lvalue(slot=slot, owner="a local", writable=False))

    def write_to(self, p: ProgramBuilder, address: ir.Value, offset: int, type_: Type) -> None:
        """Read it into its place, without a copy."""
        if not isinstance(type_, CharArray):
            p.fail(f"{self.name} does not fit {type_.name}")
        size = min(type_.length, self.size or type_.length)
        zero(p, address, offset, type_.length)
        with p.at(self.where or p.b.where):
            place = moved(p, address, offset)
            if place is not address:
                assume_alignment(p, place, min(alignment_of(p, address), offset & -offset))
            self.read_into(p, place, size)

    def binary(self, p: ProgramBuilder, operator: str, other: object, *, reflected: bool = False) -> NoReturn:
        p.fail(f"{self.name} has no operator {operator}: {_NO_OPERATOR}")

    def compare(self, p: ProgramBuilder, operator: str, other: object, *, reflected: bool = False) -> Test:
        return self.beside(p, [other]).compare(p, operator, other, reflected=reflected)

    def contains(self, p: ProgramBuilder, item: object) -> Test:
        return self.local(p).contains(p, item)

    def truth(self, p: ProgramBuilder) -> Test:
        return self.local(p).truth(p)

    def attribute(self, p: ProgramBuilder, name: str) -> object:
        # Where nothing tells the size, what it is compared with does.
        starts = self._starts_with if self.size is None else lambda p, *given: self.local(p)._starts_with(p, *given)
        methods = {"startswith": starts, "endswith": lambda p, *given: self.local(p)._ends_with(p, *given)}
        return _method_of(p, self, name, methods)

    def _starts_with(self, p: ProgramBuilder, prefix: object) -> Test:
        return self.beside(p, literals(p, "startswith", prefix))._starts_with(p, prefix)

    def length(self, p: ProgramBuilder) -> object:
        return self.local(p).length(p)

    def item(self, p: ProgramBuilder, index: object) -> object:
        last = _ends(p, index)[1] if isinstance(index, slice) else index
        if self.size is None and isinstance(last, int) and last >= 0:
            return self._read(p, last + 2).item(p, index)
        return self.local(p).item(p, index)


def local_string(p: ProgramBuilder, operand: object) -> String | None:
    """Return an operand as a string in memory that ends with zeros; None if it is nothing of the kind."""
    if isinstance(operand, StringSource):
        return operand.local(p)
    if isinstance(operand, UntrustedString):
        return operand.clean(p)
    return operand if isinstance(operand, String) else None


def _raw(literal: str | bytes) -> bytes:
    return literal.encode("utf-8", "surrogateescape") if isinstance(literal, str) else literal


def _ends(p: ProgramBuilder, part: slice) -> tuple[int, int | None]:
    """The ends of a slice: bytes from the first to before the second, to the last if that is None."""
    if part.step not in {None, 1}:
        p.fail("a slice of a string has no step: leave the step out")
    ends = [end for end in (part.start, part.stop) if end is not None]
    if any(not isinstance(end, int) for end in ends):
        p.fail("the ends of a string's slice are integers known at compile time")
    if any(end < 0 for end in ends):
        p.fail("the ends of a string's slice count from its beginning; for its end there is .endswith()")
    return part.start or 0, part.stop


def literals(p: ProgramBuilder, method: str, given: object) -> tuple[str | bytes, ...]:
    """The argument of `startswith` or `endswith`: a literal, or a tuple of literals."""
    found = given if isinstance(given, tuple) else (given,)
    for each in found:
        if not isinstance(each, (str, bytes)):
            p.fail(f"{method}() takes a literal, or a tuple of literals, not {describe(each)}")
    return found
