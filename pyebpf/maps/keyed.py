"""`KeyedMap`: look-ups in probes, counts that lose nothing, entries written and removed; the kinds of hash tables."""

from __future__ import annotations

from errno import EEXIST
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar, overload

from pyebpf.builder.drop_counters import FULL, count_drop
from pyebpf.builder.ssa.conditions import Always, Compare, Test
from pyebpf.builder.ssa.function import Join
from pyebpf.builder.values import atomics
from pyebpf.builder.values.entity import Entity, describe
from pyebpf.builder.values.entries import MapEntries
from pyebpf.builder.values.integers import Int, read_int
from pyebpf.builder.values.lvalue import Lvalue, temporary
from pyebpf.builder.values.methods import method_of
from pyebpf.builder.values.operations import fits, rvalue, to_int
from pyebpf.builder.values.optional import OptionalInt
from pyebpf.builder.values.records import RecordLiteral
from pyebpf.builder.values.references import Reference, note_change
from pyebpf.builder.values.restating import is_index
from pyebpf.builder.values.tuples import built
from pyebpf.compiler.ir import Condition as Relation, Op, ValueType
from pyebpf.maps.declared import LoadedMap, bpf_type
from pyebpf.maps.mapping import StoredMapping
from pyebpf.specs import MapSpec
from pyebpf.specs.map_traits import MAP_TRAITS
from pyebpf.specs.maps import map_size
from pyebpf.types import S64, U32, U64, IntType, TupleType
from pyebpf.types.special import has_special
from pyebpf.uapi.flags import BPF_ANY, BPF_NOEXIST
from pyebpf.uapi.helper_ids import MAP_DELETE_ELEM, MAP_LOOKUP_ELEM, MAP_UPDATE_ELEM

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyebpf.builder.program import ProgramBuilder
    from pyebpf.compiler import ir
    from pyebpf.uapi.bpf import MapType

K = TypeVar("K")
V = TypeVar("V")
T = TypeVar("T")

#: Drop reasons.
OUT_OF_RANGE = "index out of range"

_USER_SIDE = ("clear", "interval", "per_cpu", "popitem", "setdefault", "update")
_VIEWS = ("items", "keys", "values")


class KeyedMap(LoadedMap, StoredMapping[K, V], Generic[K, V]):
    """A map of the hash, array, per-CPU or LRU kinds. `max_entries` counts entries."""

    REMEDIES: ClassVar[Mapping[str, str]] = {"length": "count the entries in a `for` loop"}

    def __init__(
        self, name: str, map_type: MapType, key: object, value: object, max_entries: int, flags: int = 0
    ) -> None:
        self.name = name
        self.map_type = map_type
        self.traits = MAP_TRAITS[map_type]
        self.key = bpf_type(key, "key")
        self.value = bpf_type(value, "value")
        self.max_entries = map_size(max_entries)
        self.flags = flags

    if TYPE_CHECKING:

        def for_each(self, function: Callable[[K, V], None] | Callable[[K, V], bool]) -> int:
            """In a probe: call `function(key, value)` for each entry until it returns True; how many there were."""

        @overload
        def get(self, key: K, /) -> V | None: ...
        @overload
        def get(self, key: K, default: V | T, /) -> V | T: ...
        def get(self, key: K, default: object = None, /) -> Any: ...

    @property
    def spec(self) -> MapSpec:
        """The spec of the map that the loader makes."""
        return MapSpec(self.map_name, self.map_type, self.key, self.value, self.max_entries, self.flags, with_btf=True)

    def describe(self) -> str:
        return f"the map {self.map_name}"

    # -- reading -------------------------------------------------------------------------------------------------------

    def item(self, p: ProgramBuilder, index: object) -> object:
        if not self.traits.is_array:
            name = self.map_name
            default = f", or {name}.get(k, 0)" if isinstance(self.value, IntType) else ""
            p.fail(f"{name}[k] may be missing: write {name}.get(k) and test it with `is None`{default}")
        if not self._in_range(p, index):
            p.fail(
                f"this index of {self.describe()} may lie outside 0 to {self.max_entries - 1}: test it first, "
                f"or write {self.map_name}.get(i) and test that with `is None`"
            )
        entry = self._find(p, index)
        self._leave_if_missing(p, entry)
        return p.load_value(self._place(entry), self.value, part=True)

    def contains(self, p: ProgramBuilder, item: object) -> Test:
        return _non_null(p, self._find(p, item))

    def attribute(self, p: ProgramBuilder, name: str) -> object:
        if name in _USER_SIDE:
            adds = "adds an entry that is new by .add(k, v), and " if name == "setdefault" else ""
            p.fail(
                f"{self.map_name}.{name} is for user space: a probe {adds}looks entries up one at a time, by .get(k)"
            )
        methods: dict[str, Callable[..., object]] = {
            "get": self._get,
            "add": self._add,
            "pop": self._pop,
            "for_each": self._for_each,
        }
        methods |= {view: partial(self._view, view) for view in _VIEWS}
        return method_of(p, self, name, methods)

    def entries(self, p: ProgramBuilder) -> MapEntries:
        return self._view("keys", p)

    def _view(self, view: str, p: ProgramBuilder) -> MapEntries:
        return MapEntries(self, view)

    def _for_each(self, p: ProgramBuilder, function: object) -> object:
        """`for_each(f)`: `f(key, value)` for each entry; how many there were, as far as it went."""
        from pyebpf.maps.for_each import for_each

        return for_each(p, self, function)

    def _get(self, p: ProgramBuilder, key: object, default: object = None) -> object:
        what = f"{self.map_name}.get(…)"
        if default is not None:
            return self._get_or(p, key, default)
        entry = self._find(p, key)
        if isinstance(self.value, IntType):
            return self._snapshot(p, entry, what)
        return p.load_value(self._place(entry, null_check=entry), self.value)

    def _get_or(self, p: ProgramBuilder, key: object, default: object) -> Int:
        number = self._stand_in(p, default, "get")
        found = self._value_or(p, self._find(p, key), number.value)
        return Int(found, U64 if U64 in (number.type, self.value) else S64)

    def _stand_in(self, p: ProgramBuilder, default: object, method: str) -> Int:
        """The number that stands in for a missing one."""
        if not isinstance(self.value, IntType):
            p.fail(
                f"{method}(k, default) is for maps of integers: write {self.map_name}.{method}(k) and test it with "
                "`is None`"
            )
        if isinstance(default, int):
            fits(p, self.value, default)
        number = to_int(p, default)
        unsigned = self.value == U64
        if unsigned != (number.type == U64) and p.b.bounds(number.value)[0] < 0:
            wanted = "u64" if unsigned else "s64"
            p.fail(
                f"{self.describe()} holds {self.value.name} and the default is {number.describe()}: write {wanted}(…)"
            )
        return number

    def _snapshot(self, p: ProgramBuilder, entry: ir.Value, what: str) -> OptionalInt:
        assert isinstance(self.value, IntType)
        value = self._value_or(p, entry, p.b.const(0))
        return OptionalInt(entry, value, *_held(self.value), what)

    def _value_or(self, p: ProgramBuilder, entry: ir.Value, other: ir.Value) -> ir.Value:
        """Return the entry's number now, or `other` if there is no entry."""
        assert isinstance(self.value, IntType)
        answer = p.b.variable(hint=self.map_name)
        with p.b.if_(_non_null(p, entry)):
            p.b.write(answer, read_int(p, entry, 0, self.value).value)
        with p.b.else_():
            p.b.write(answer, other)
        return p.b.read_final(answer)

    # -- writing -------------------------------------------------------------------------------------------------------

    def set_item(self, p: ProgramBuilder, index: object, value: object) -> None:
        if self.traits.is_array:
            self._set_element(p, index, value)
        else:
            note_change(p, self.value)
            failed = self._update(p, index, value, BPF_ANY)
            # The old entry's memory is free: the next key takes it, on this processor or another.
            p.b.invalidate_origin(self.map_name, f"`{self.map_name}[k] = …`")
            with p.b.if_(Compare(Relation.NE, failed, p.b.const(0))):
                count_drop(p, FULL, self.map_name)

    def _set_element(self, p: ProgramBuilder, index: object, value: object) -> None:
        """Write to an array's entry in place."""
        if isinstance(value, RecordLiteral) and not value.plain:
            # What it takes from memory may lie in the very entry.
            value = value.local(p)
        elif isinstance(self.value, TupleType) and not isinstance(value, Reference):
            value = built(p, self.value, value)
        note_change(p, self.value)
        inside = self._in_range(p, index)
        if has_special(self.value):
            # The kernel copies around what only it may touch.
            self._update(p, index, value, BPF_ANY)
            return
        entry = self._find(p, index)
        with p.b.if_(_non_null(p, entry)):
            p.store_value(entry, 0, self.value, value)
        if not inside:
            with p.b.else_():
                count_drop(p, OUT_OF_RANGE, self.map_name)

    def _add(self, p: ProgramBuilder, key: object, value: object) -> Test:
        """`add(k, v)`: insert if the key is new. True if it was."""
        if self.traits.is_array:
            p.fail(f"the entries of {self.describe()} always exist: assign to one")
        # Since Linux commit d7ba4cc900bf ("bpf: return long from bpf_map_ops funcs") (in v6.4) the status is a long;
        # where the verifier calls the map's own function instead of the helper, the upper half was junk before.
        status = p.b.emit(Op.SEXT, self._update(p, key, value, BPF_NOEXIST), size=4)
        with (
            p.b.if_(Compare(Relation.NE, status, p.b.const(0))),
            p.b.if_(Compare(Relation.NE, status, p.b.const(-EEXIST))),
        ):
            count_drop(p, FULL, self.map_name)
        return Compare(Relation.EQ, status, p.b.const(0))

    def augment_item(self, p: ProgramBuilder, index: object, operator: str, value: object) -> None:
        what = f"{self.map_name}[k]"
        type_ = atomics.check(p, self.value, operator, what)
        number = atomics.operand(p, type_, operator, value)
        if self.traits.is_array:
            self._augment_element(p, index, operator, number)
            return
        place, missed, end = Join(), Join(), Join()
        entry = p.b.variable(ValueType.POINTER, self.map_name)
        with self._key(p, index) as key, temporary(p, type_.size) as zeros:
            first = self._call(p, MAP_LOOKUP_ELEM, key)
            with p.b.if_(_non_null(p, first)):
                p.b.write(entry, first)
                p.b.jump(place)
            nothing = p.b.slot_address(zeros)
            p.b.store(nothing, 0, p.b.const(0), type_.size)
            # Another processor may be first to insert: then this does nothing, and the entry is found all the same.
            p.b.call(MAP_UPDATE_ELEM, self.handle(p), key, nothing, p.b.const(BPF_NOEXIST))
            second = self._call(p, MAP_LOOKUP_ELEM, key)
            p.b.write(entry, second)
            p.b.branch(_non_null(p, second), place, missed)
        p.b.start(missed)
        count_drop(p, FULL, self.map_name)
        p.b.jump(end)
        p.b.start(place)
        self._atomic(p, p.b.read_final(entry), operator, number)
        p.b.jump(end)
        p.b.start(end)

    def _augment_element(self, p: ProgramBuilder, index: object, operator: str, number: ir.Value) -> None:
        inside = self._in_range(p, index)
        entry = self._find(p, index)
        with p.b.if_(_non_null(p, entry)):
            self._atomic(p, entry, operator, number)
        if not inside:
            with p.b.else_():
                count_drop(p, OUT_OF_RANGE, self.map_name)

    def _atomic(self, p: ProgramBuilder, entry: ir.Value, operator: str, number: ir.Value) -> None:
        """Atomic in per-CPU maps too: an interrupt's program may come between on the same processor."""
        p.b.emit(Op.ATOMIC, entry, number, size=self.value.size, symbol=atomics.OPERATIONS[operator])

    def delete_item(self, p: ProgramBuilder, index: object) -> None:
        self._not_array(p, "del")
        with self._key(p, index) as key:
            self._delete(p, key, "del")

    def _pop(self, p: ProgramBuilder, key: object, default: object = None) -> object:
        """`pop(k)`, `pop(k, d)`: the entry's value, or None, or of integers `d`, and the entry is removed.

        Not in one step: another processor may change it between.
        """
        self._not_array(p, "pop")
        other = None if default is None else self._stand_in(p, default, "pop")
        what = f"{self.map_name}.pop(…)"
        with self._key(p, key) as address:
            entry = self._call(p, MAP_LOOKUP_ELEM, address)
            if isinstance(self.value, IntType):
                value = p.b.variable(hint=self.map_name)
                with p.b.if_(_non_null(p, entry)):
                    p.b.write(value, read_int(p, entry, 0, self.value).value)
                    self._delete(p, address, "pop")
                with p.b.else_():
                    p.b.write(value, p.b.const(0) if other is None else other.value)
                if other is not None:
                    return Int(p.b.read_final(value), U64 if U64 in (other.type, self.value) else S64)
                return OptionalInt(entry, p.b.read_final(value), *_held(self.value), what)
            slot = p.b.slot(-(-self.value.size // 8) * 8, name="popped")
            with p.b.if_(_non_null(p, entry)):
                p.store_value(p.b.slot_address(slot), 0, self.value, p.load_value(self._place(entry), self.value))
                self._delete(p, address, "pop")
        return p.load_value(Lvalue(slot=slot, owner=what, null_check=entry), self.value)

    # -- inside --------------------------------------------------------------------------------------------------------

    def _not_array(self, p: ProgramBuilder, what: str) -> None:
        if self.traits.is_array:
            p.fail(f"the entries of {self.describe()} always exist, {what} removes none: assign 0 to one")

    def _call(self, p: ProgramBuilder, helper: int, *arguments: ir.Value) -> ir.Value:
        result_type = ValueType.POINTER if helper == MAP_LOOKUP_ELEM else ValueType.SCALAR
        result = p.b.call(helper, self.handle(p), *arguments, result=result_type)
        if helper == MAP_LOOKUP_ELEM:
            p.b.assume_origin(result, self.map_name)
        return result

    def _delete(self, p: ProgramBuilder, key: ir.Value, word: str) -> None:
        note_change(p, self.value)
        self._call(p, MAP_DELETE_ELEM, key)
        p.b.invalidate_origin(self.map_name, f"`{word}` on {self.map_name}")

    def _place(self, entry: ir.Value, null_check: ir.Value | None = None) -> Lvalue:
        return Lvalue(base=entry, owner=f"an entry of {self.map_name}", null_check=null_check, shared=True)

    def _find(self, p: ProgramBuilder, key: object) -> ir.Value:
        """Address of the entry, NULL if there is none."""
        if self.traits.is_array:
            return self._element(p, key)
        with self._key(p, key) as address:
            return self._call(p, MAP_LOOKUP_ELEM, address)

    def _update(self, p: ProgramBuilder, key: object, value: object, flags: int) -> ir.Value:
        """Insert or replace; what the helper returns."""
        value = rvalue(p, value)
        with self._key(p, key) as key_address:
            if isinstance(value, Reference) and value.stands_ready(self.value):
                value.check(p)
                return self._call(p, MAP_UPDATE_ELEM, key_address, value.lvalue.exact(p), p.b.const(flags))
            with temporary(p, self.value.size) as slot:
                address = p.b.slot_address(slot)
                p.store_value(address, 0, self.value, value)
                return self._call(p, MAP_UPDATE_ELEM, key_address, address, p.b.const(flags))

    def _in_range(self, p: ProgramBuilder, index: object) -> bool:
        """Whether an array's index is provably inside. A constant outside is refused."""
        index = rvalue(p, index)
        if isinstance(index, int):
            if not 0 <= index < self.max_entries:
                p.fail(f"index {int(index)} is outside {self.describe()}, which has {self.max_entries} entries")
            return True
        if not isinstance(index, Entity):
            p.fail(f"{describe(index)} is not an index of {self.describe()}: give a number")
        return is_index(p, to_int(p, index).value, self.max_entries)

    def _element(self, p: ProgramBuilder, index: object) -> ir.Value:
        """Address of an array's entry; NULL for an index out of range."""
        inside = self._in_range(p, index)
        if self.max_entries == 1 and not self.traits.per_cpu and isinstance(index, int) and self.address is None:
            entry = p.b.emit(Op.MAP_VALUE, symbol=p.use_map(self.spec))
            p.b.assume_non_null(entry)
            return entry
        number = to_int(p, index).value
        low, high = p.b.bounds(number)
        if not inside and not 0 <= low <= high <= U32.maximum:
            # The key takes the low 32 bits: what lies above must not fold into the range.
            high_part = Compare(Relation.ULE, number, p.b.const(U32.maximum))
            kept = p.b.variable(hint="index")
            with p.b.if_(high_part):
                p.b.write(kept, p.b.emit(Op.REFINE, number))
            with p.b.else_():
                p.b.write(kept, p.b.const(U32.maximum))
            number = p.b.read_final(kept)
        with temporary(p, U32.size) as slot:
            address = p.b.slot_address(slot)
            p.b.store(address, 0, number, U32.size)
            return self._call(p, MAP_LOOKUP_ELEM, address)

    def _leave_if_missing(self, p: ProgramBuilder, entry: ir.Value) -> None:
        """Satisfy the verifier: an entry that must exist does not; never taken."""
        if not p.b.is_non_null(entry):
            with p.b.if_(Compare(Relation.EQ, entry, p.b.const(0), null_check=True)):
                p.leave_never()


class HashMap(KeyedMap[K, V]):
    """`bpf.hash(key=K, value=V)`, `lru_hash`, `percpu_hash`, `lru_percpu_hash`."""


def _non_null(p: ProgramBuilder, entry: ir.Value) -> Test:
    if p.b.is_non_null(entry):
        return Always(holds=True)
    return Compare(Relation.NE, entry, p.b.const(0), null_check=True)


def _held(type_: IntType) -> tuple[IntType, IntType | None]:
    """Type that a stored number is read as, and the narrower one that bounds it."""
    if type_.size == U64.size:
        return (S64 if type_.signed else U64), None
    return S64, type_
