"""Tuples with run-time values in them: they live while compiling, their elements at run time.

They are compared element by element, as Python compares tuples.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from pyebpf.builder import operations
from pyebpf.builder.conditions import All, Always, Any as AnyOf, Test, negate
from pyebpf.builder.entity import Entity, RunTime, describe
from pyebpf.builder.integers import Int, constant
from pyebpf.builder.operations import any_in_turn, settled, to_int
from pyebpf.builder.places import Place, zero
from pyebpf.builder.reading import read
from pyebpf.builder.records import Record
from pyebpf.builder.references import Reference
from pyebpf.dataclass import replace
from pyebpf.errors import closest
from pyebpf.types import TupleType

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Sequence

    from pyebpf.builder.program import ProgramBuilder
    from pyebpf.compiler import ir
    from pyebpf.types import Type

__all__ = ["TupleReference", "TupleValue", "built", "compare", "contains", "elements_of", "write_elements"]


class TupleValue(RunTime):
    """A tuple in a run-time variable: as many elements, each of one shape."""

    def __init__(self, elements: tuple[Any, ...], kind: Any = tuple) -> None:
        self.elements = elements
        #: The namedtuple that it is, which names the elements.
        self.kind = kind if hasattr(kind, "_fields") else tuple

    def describe(self) -> str:
        return f"a tuple of {len(self.elements)}"

    @property
    def parts(self) -> tuple[ir.Value, ...]:
        return tuple(part for element in self.elements if isinstance(element, RunTime) for part in element.parts)

    @property
    def shape(self) -> Hashable:
        return (
            "tuple",
            self.kind,
            tuple(
                element.shape if isinstance(element, RunTime) else ("constant", repr(element))
                for element in self.elements
            ),
        )

    def rebuild(self, parts: tuple[ir.Value, ...]) -> TupleValue:
        rest = list(parts)
        rebuilt = []
        for element in self.elements:
            if isinstance(element, RunTime):
                count = len(element.parts)
                rebuilt.append(element.rebuild(tuple(rest[:count])))
                del rest[:count]
            else:
                rebuilt.append(element)
        return TupleValue(tuple(rebuilt), self.kind)

    def local(self, p: ProgramBuilder) -> RunTime:
        """Integers become variables, so that another path may give others; the rest must be the same on each path."""
        return TupleValue(tuple(_local(p, element) for element in self.elements), self.kind)

    def attribute(self, p: ProgramBuilder, name: str) -> Any:
        names: tuple[str, ...] = getattr(self.kind, "_fields", ())
        if name not in names:
            p.fail(f"{self.describe()} has no attribute {name}{closest(name, names)}")
        return self.elements[names.index(name)]

    def item(self, p: ProgramBuilder, index: Any) -> Any:
        if not isinstance(index, int) or not -len(self.elements) <= index < len(self.elements):
            p.fail(
                f"a tuple of {len(self.elements)} is indexed by a number known while compiling, not by "
                f"{describe(index)}"
            )
        return self.elements[index]

    def length(self, p: ProgramBuilder) -> int:
        return len(self.elements)

    def truth(self, p: ProgramBuilder) -> Test:
        return Always(bool(self.elements))

    def compare(self, p: ProgramBuilder, operator: str, other: Any, *, reflected: bool = False) -> Test:
        return compare(p, operator, other, self) if reflected else compare(p, operator, self, other)

    def contains(self, p: ProgramBuilder, item: Any) -> Test:
        return contains(p, item, self.elements)

    def write_to(self, p: ProgramBuilder, address: ir.Value, offset: int, type_: Type) -> None:
        """Write each element in its place."""
        if not isinstance(type_, TupleType):
            p.fail(f"{self.describe()} does not fit {type_.name}")
        write_elements(p, address, offset, type_, self.elements)


class TupleReference(Record):
    """A tuple in memory: a map's key or value, read element by element where the source does."""

    type: TupleType

    def describe(self) -> str:
        owner = f" ({self.place.owner})" if self.place.owner else ""
        return f"the tuple {self.type.name}{owner}"

    def taken(self, p: ProgramBuilder) -> TupleValue:
        """Its elements as they are now; text where it stands."""
        self.check(p)
        place = replace(self.place, presence=None)
        return TupleValue(tuple(read(p, place.at(field.offset), field.type) for field in self.type.fields))

    def attribute(self, p: ProgramBuilder, name: str) -> Any:
        p.fail(f"{self.describe()} has no attribute {name}: its elements have numbers, t[0], or names, `a, b = t`")

    def set_attribute(self, p: ProgramBuilder, name: str, value: Any) -> None:
        self.attribute(p, name)

    def augment_attribute(self, p: ProgramBuilder, name: str, operator: str, value: Any) -> None:
        self.attribute(p, name)

    def item(self, p: ProgramBuilder, index: Any) -> Any:
        return self.taken(p).item(p, index)

    def set_item(self, p: ProgramBuilder, index: Any, value: Any) -> None:
        p.fail(f"{self.describe()} is not changed in part, as Python's are not: assign a whole one, or use a Struct")

    def augment_item(self, p: ProgramBuilder, index: Any, operator: str, value: Any) -> None:
        self.set_item(p, index, value)

    def length(self, p: ProgramBuilder) -> int:
        return len(self.type.fields)

    def compare(self, p: ProgramBuilder, operator: str, other: Any, *, reflected: bool = False) -> Test:
        return self.taken(p).compare(p, operator, other, reflected=reflected)

    def contains(self, p: ProgramBuilder, item: Any) -> Test:
        return self.taken(p).contains(p, item)


def built(p: ProgramBuilder, type_: TupleType, value: Any) -> TupleReference:
    """A tuple on the stack: what goes into it may stand where the tuple is to go."""
    slot = p.b.slot(-(-type_.size // 8) * 8, name="tuple")
    operations.store(p, p.b.slot_address(slot), 0, type_, value)
    return TupleReference(type_, Place(slot=slot, owner="a local"))


def write_elements(p: ProgramBuilder, address: ir.Value, offset: int, type_: TupleType, values: Sequence[Any]) -> None:
    """Write values as a tuple in memory, zeros between them."""
    if len(values) != len(type_.fields):
        p.fail(f"{describe(tuple(values))} does not fit {type_.name}: give {len(type_.fields)} values")
    for start, size in type_.padding:
        zero(p, address, offset + start, size)
    for field, value in zip(type_.fields, values, strict=True):
        operations.store(p, address, offset + field.offset, field.type, value)


def _local(p: ProgramBuilder, element: Any) -> Any:
    if isinstance(element, RunTime):
        return element.local(p)
    if isinstance(element, int):
        return to_int(p, element)
    return TupleValue(element, type(element)).local(p) if isinstance(element, tuple) else element


def elements_of(value: Any) -> tuple[Any, ...] | list[Any] | None:
    """The elements of a tuple or list, with run-time values or without; None of anything else."""
    if isinstance(value, TupleValue):
        return value.elements
    return value if isinstance(value, tuple | list) else None


def compare(p: ProgramBuilder, operator: str, left: Any, right: Any) -> Test:
    """`left operator right`, where one of them is a tuple or a list."""
    left, right = _taken(p, left), _taken(p, right)
    if operator in ("==", "!="):
        same = _equal(p, left, right)
        return same if operator == "==" else negate(same)
    return _ordered(p, operator, left, right)


def contains(p: ProgramBuilder, item: Any, container: Iterable[Any]) -> Test:
    """`item in container`, where only each event knows the item, or some of the elements."""
    candidates = [_taken(p, each) for each in container]
    item = read_once(p, _taken(p, item), candidates)
    joined = _any if _in_registers(item) and _in_registers(candidates) else functools.partial(any_in_turn, p)
    if elements_of(item) is None:
        return joined(operations.compare(p, "==", item, each) for each in candidates)
    fitting = [each for each in candidates if _why_never(item, each) is None]
    if candidates and not fitting:
        p.fail(f"{_why_never(item, candidates[0])}: nothing in {_short(candidates)} can be it")
    return joined(_equal(p, item, each) for each in fitting)


def _in_registers(value: Any) -> bool:
    """Whether a comparison of a value loads nothing."""
    elements = elements_of(value)
    return not isinstance(value, Reference) if elements is None else all(map(_in_registers, elements))


def read_once(p: ProgramBuilder, item: Any, others: Sequence[Any]) -> Any:
    """`item` with its strings read into memory, with room to tell each from what it is compared with."""
    from pyebpf.builder.strings import StringSource

    if isinstance(item, StringSource):
        return item.beside(p, others)
    elements = elements_of(item)
    if elements is None:
        return item
    alike = [found for found in map(elements_of, others) if found is not None and len(found) == len(elements)]
    read = [read_once(p, each, [other[i] for other in alike]) for i, each in enumerate(elements)]
    return read if isinstance(item, list) else tuple(read)


def _short(candidates: Sequence[Any]) -> str:
    shown = describe(list(candidates))
    return shown if len(shown) <= 60 else f"{shown[:56]} …]"


def _why_never(left: Any, right: Any) -> str | None:
    """Why two values are never equal, whatever is in them, one of which is a tuple or a list; None if they may be."""
    one, other = elements_of(left), elements_of(right)
    if one is None or other is None:
        return f"{describe(left)} is never equal to {describe(right)}"
    if isinstance(one, list) != isinstance(other, list):
        return f"{describe(left)} is never equal to {describe(right)}, as a tuple is no list: write tuple(…)"
    if len(one) != len(other):
        return f"a tuple of {len(one)} is never equal to one of {len(other)}"
    return None


def _taken(p: ProgramBuilder, value: Any) -> Any:
    """A tuple in memory as its elements; anything else as it is."""
    return value.taken(p) if isinstance(value, TupleReference) else value


def _equal(p: ProgramBuilder, left: Any, right: Any) -> Test:
    left, right = _taken(p, left), _taken(p, right)
    one, other = elements_of(left), elements_of(right)
    if one is None and other is None:
        return _element_equal(p, left, right)
    reason = _why_never(left, right)
    if reason is not None:
        p.fail(reason)
    assert one is not None
    assert other is not None
    tests: list[Test] = []
    # What is known while compiling first: where that decides, nothing is built.
    pairs = sorted(zip(one, other, strict=True), key=lambda pair: _is_built(pair[0]) or _is_built(pair[1]))
    for first, second in pairs:
        test = _equal(p, first, second)
        if isinstance(test, Always):
            if not test.holds:
                return test
        else:
            tests.append(test)
    return _all(tests)


def _is_built(value: Any) -> bool:
    elements = elements_of(value)
    return isinstance(value, Entity | Test) if elements is None else any(map(_is_built, elements))


def _element_equal(p: ProgramBuilder, left: Any, right: Any) -> Test:
    if left is None or right is None:
        other = right if left is None else left
        if not isinstance(other, Entity):
            return Always(other is None)
        never = type(other).is_none is Entity.is_none or (isinstance(other, Reference) and other.place.presence is None)
        return Always(holds=False) if never else other.is_none(p)
    return operations.compare(p, "==", left, right)


def _ordered(p: ProgramBuilder, operator: str, left: Any, right: Any) -> Test:
    """By the first elements that differ; where none does, the shorter one is less."""
    one, other = elements_of(left), elements_of(right)
    if one is None or other is None or isinstance(one, list) != isinstance(other, list):
        p.fail(f"{describe(left)} cannot be compared with {describe(right)} by {operator}")
    strict = operator[0]
    common = min(len(one), len(other))
    found = operations.compare(p, operator, len(one), len(other))
    for number, (first, second) in reversed(list(enumerate(zip(one, other, strict=False)))):
        if number == common - 1 and len(one) == len(other):
            found = _exact(p, operator, first, second)
        else:
            found = _any((_exact(p, strict, first, second), _all((_exact(p, "==", first, second), found))))
    return found


def _exact(p: ProgramBuilder, operator: str, left: Any, right: Any) -> Test:
    """A comparison of two elements, even one that a type decides: the next ones may be what matters."""
    if elements_of(left) is not None or elements_of(right) is not None:
        return compare(p, operator, left, right)
    left, right = settled(p, left), settled(p, right)
    if isinstance(left, Int) and isinstance(right, int):
        return left.compare(p, operator, constant(p, right))
    if isinstance(left, int) and isinstance(right, Int):
        return right.compare(p, operator, constant(p, left), reflected=True)
    return operations.compare(p, operator, left, right)


def _all(tests: Iterable[Test]) -> Test:
    open_tests = []
    for test in tests:
        if not isinstance(test, Always):
            open_tests.append(test)
        elif not test.holds:
            return test
    if not open_tests:
        return Always(holds=True)
    return open_tests[0] if len(open_tests) == 1 else All(tuple(open_tests))


def _any(tests: Iterable[Test]) -> Test:
    open_tests = []
    for test in tests:
        if not isinstance(test, Always):
            open_tests.append(test)
        elif test.holds:
            return test
    if not open_tests:
        return Always(holds=False)
    return open_tests[0] if len(open_tests) == 1 else AnyOf(tuple(open_tests))
