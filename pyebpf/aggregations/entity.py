"""Aggregations inside probes: `hist.add(v)`, `hist[key].add(v)`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from pyebpf.builder.drop_counters import FULL, count_drop
from pyebpf.builder.ssa.conditions import Compare
from pyebpf.builder.ssa.function import Join
from pyebpf.builder.values.entity import Entity, RunTimeValue
from pyebpf.builder.values.lvalue import temporary, zero
from pyebpf.builder.values.methods import method_of
from pyebpf.builder.values.operations import rvalue, to_int
from pyebpf.compiler.ir import Condition as Relation, Op, ValueType
from pyebpf.errors import InvalidValue
from pyebpf.specs import MapSpec
from pyebpf.types import U32, U64, ArrayType, TupleType
from pyebpf.uapi.bpf import MapType
from pyebpf.uapi.flags import BPF_F_RDONLY_PROG, BPF_NOEXIST
from pyebpf.uapi.helper_ids import MAP_LOOKUP_ELEM, MAP_UPDATE_ELEM

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping

    from pyebpf.aggregations.aggregation_type import AggregationType
    from pyebpf.builder.program import ProgramBuilder
    from pyebpf.builder.ssa.environment import Variable
    from pyebpf.compiler import ir
    from pyebpf.types import Type

R = TypeVar("R")


#: Zeros up to this size are written on the stack where a key is inserted; larger ones come from a template.
MAX_ON_STACK = 32


class Aggregation(Entity, Generic[R]):
    """One declared aggregation: the kind, its maps, and what probes do with it.

    With `key` there is one value a key, without it just one. `name` is what the kernel sees, empty until a module is
    compiled if its author gives none. `specs()` are its maps.
    """

    def __init__(self, kind: AggregationType[R], key: Type | None, size: int, name: str) -> None:
        if not 0 < size < 1 << 32:
            raise InvalidValue(f"size={size!r}: {kind.name} has 1 to {(1 << 32) - 1} keys")
        self.type = kind
        self.key = key
        self.size = size
        self.name = name

    @property
    def spec(self) -> MapSpec:
        """The map of the values."""
        if self.key is None:
            return MapSpec(self.name, MapType.PERCPU_ARRAY, U32, self.type.layout, 1)
        return MapSpec(self.name, MapType.PERCPU_HASH, self.key, self.type.layout, self.size)

    @property
    def template(self) -> MapSpec | None:
        """The frozen array whose one value, all zeros, new keys begin with; None where the stack has room for it.

        Aggregations with values of one size share it.
        """
        size = self.type.layout.size
        if self.key is None or size <= MAX_ON_STACK:
            return None
        zeros = ArrayType(U64, size // 8)
        return MapSpec(f".zeros{size}", MapType.ARRAY, U32, zeros, 1, flags=BPF_F_RDONLY_PROG, frozen=True)

    def specs(self) -> tuple[MapSpec, ...]:
        """Every map it needs, the values' first."""
        template = self.template
        return (self.spec,) if template is None else (self.spec, template)

    def current_name(self) -> str:
        """The name, or what stands in for it until a module is compiled."""
        return self.name or "(unnamed)"

    # -- in probes -----------------------------------------------------------------------------------------------------

    def describe(self) -> str:
        return f"the {self.type.name.partition(' ')[2]} {self.current_name()}"

    def attribute(self, p: ProgramBuilder, name: str) -> object:
        if self.key is not None:
            p.fail(f"{self.describe()} has a value for each key: write {self.current_name()}[key].{name}(…)")
        return method_of(p, self, name, {"add": self._add} if self.type.default is None else {"add": self._add_default})

    def item(self, p: ProgramBuilder, index: object) -> object:
        if self.key is None:
            p.fail(f"{self.describe()} has no keys: write {self.current_name()}.add(…), or declare it with key=")
        return _Entry(self, index)

    def _add(self, p: ProgramBuilder, value: object) -> None:
        number = to_int(p, value)
        with temporary(p, 8) as slot:
            index = p.b.slot_address(slot)
            p.b.store(index, 0, p.b.const(0), U32.size)
            place = p.b.call(
                MAP_LOOKUP_ELEM, self._handle(p), index, result=ValueType.POINTER, comment=f"{self.name}.add"
            )
        with p.b.if_(_non_null(p, place)):
            self.type.update(p, place, number)

    def _add_default(self, p: ProgramBuilder, n: object = None) -> None:
        self._add(p, self.type.default if n is None else n)

    def add_to(self, p: ProgramBuilder, key: object, value: object) -> None:
        """Append `self[key].add(value)`: look up, insert zeros where there is nothing, look up again, add."""
        assert self.key is not None
        if isinstance(key, (tuple, list)) and not isinstance(self.key, TupleType):
            p.fail(f"the keys of {self.describe()} are {self.key.name}: write {self.key.name}(…)")
        b, number = p.b, to_int(p, value)
        entry = b.variable(ValueType.POINTER, "entry")
        have, missing, dropped, done = Join("entry"), Join("no entry"), Join("no room"), Join("added")
        with temporary(p, self.key.size) as slot:
            place = b.slot_address(slot)
            p.store_value(place, 0, self.key, rvalue(p, key))
            self._look_up(p, place, entry, have, missing)
            b.start(missing)
            self._insert(p, place)
            self._look_up(p, place, entry, have, dropped)
        b.start(dropped)
        count_drop(p, FULL, self.name)
        b.jump(done)
        b.start(have)
        found = b.read(entry)
        if found is not None:  # None only where no event can come to
            self.type.update(p, found, number)
        b.jump(done)
        b.start(done)

    def _look_up(self, p: ProgramBuilder, key: ir.Value, entry: Variable, have: Join, missing: Join) -> None:
        found = p.b.call(MAP_LOOKUP_ELEM, self._handle(p), key, result=ValueType.POINTER, comment=f"{self.name}[key]")
        p.b.write(entry, found)
        p.b.branch(_non_null(p, found), have, missing)

    def find(self, p: ProgramBuilder, key: object) -> ir.Value:
        """The address of this processor's part of an entry, NULL if there is none."""
        assert self.key is not None
        with temporary(p, self.key.size) as slot:
            place = p.b.slot_address(slot)
            p.store_value(place, 0, self.key, rvalue(p, key))
            return p.b.call(MAP_LOOKUP_ELEM, self._handle(p), place, result=ValueType.POINTER)

    def _insert(self, p: ProgramBuilder, key: ir.Value) -> None:
        """Insert zeros for every processor; another one may be faster, and then nothing changes."""
        b, template, size = p.b, self.template, self.type.layout.size
        flags = b.const(BPF_NOEXIST)
        if template is not None:
            zeros = b.emit(Op.MAP_VALUE, symbol=p.use_map(template))
            b.call(MAP_UPDATE_ELEM, self._handle(p), key, zeros, flags, comment="insert zeros")
            return
        with temporary(p, size) as slot:
            zeros = b.slot_address(slot)
            zero(p, zeros, 0, size)
            b.call(MAP_UPDATE_ELEM, self._handle(p), key, zeros, flags, comment="insert zeros")

    def _handle(self, p: ProgramBuilder) -> ir.Value:
        return p.b.emit(Op.MAP, symbol=p.use_map(self.spec))


def _non_null(p: ProgramBuilder, address: ir.Value) -> Compare:
    return Compare(Relation.NE, address, p.b.const(0), null_check=True)


class _Entry(RunTimeValue):
    """`aggregation[key]`, whose `add` is called at once: the key is written where `add` looks it up."""

    REMEDIES: ClassVar[Mapping[str, str]] = {"binary": "write .add(…) behind it, and read it in user space"}

    def __init__(self, owner: Aggregation[Any], key: object) -> None:
        self.owner = owner
        self.key = key

    @property
    def ssa_values(self) -> tuple[ir.Value, ...]:
        return ()

    @property
    def static_shape(self) -> Hashable:
        return ("entry of an aggregation", id(self))

    def with_ssa_values(self, values: tuple[ir.Value, ...]) -> _Entry:  # noqa: ARG002 - the protocol's
        return self

    def local(self, p: ProgramBuilder) -> RunTimeValue:
        p.fail(
            f"{self.describe()} cannot be stored in a variable: write "
            f"{self.owner.current_name()}[key].add(…) in one expression"
        )

    def describe(self) -> str:
        return f"an entry of {self.owner.describe()}"

    def attribute(self, p: ProgramBuilder, name: str) -> object:
        default = self.owner.type.default
        return method_of(p, self, name, {"add": self._add} if default is None else {"add": self._add_default})

    def _add(self, p: ProgramBuilder, value: object) -> None:
        self.owner.add_to(p, self.key, value)

    def _add_default(self, p: ProgramBuilder, n: object = None) -> None:
        self.owner.add_to(p, self.key, self.owner.type.default if n is None else n)
