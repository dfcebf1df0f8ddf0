"""Names of a function being translated: what each stands for, and whether that is known at compile time."""

from __future__ import annotations

import ast
import functools
from typing import TYPE_CHECKING, NoReturn

from pyebpf.builder.intrinsics.base import Intrinsic
from pyebpf.builder.ssa.conditions import Test
from pyebpf.builder.ssa.environment import Variable
from pyebpf.builder.values.entity import Entity, RunTimeValue, describe
from pyebpf.builder.values.integers import Character, Int
from pyebpf.builder.values.kernel_numbers import AddressNumber
from pyebpf.builder.values.methods import Method
from pyebpf.builder.values.operations import to_int
from pyebpf.builder.values.optional import Maybe, Nothing, OptionalInt
from pyebpf.builder.values.own_methods import check_own
from pyebpf.compiler import ir
from pyebpf.dataclass import dataclass, field
from pyebpf.dsl.binding_time import BindingTimes, Reason
from pyebpf.dsl.scope import ReboundName
from pyebpf.dsl.translate import turns
from pyebpf.dsl.translate.assigned import assigned_names
from pyebpf.dsl.translate.constants import ConstantEntity, run_time_method
from pyebpf.dsl.translate.tuples import TupleValue, described, is_run_time
from pyebpf.dsl.tree import walk
from pyebpf.errors import closest
from pyebpf.types import S64, U64

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable

    from pyebpf.builder.program import ProgramBuilder
    from pyebpf.builder.ssa.environment import Values
    from pyebpf.builder.ssa.function import FunctionBuilder
    from pyebpf.dsl.scope import Scope
    from pyebpf.dsl.source import Source
    from pyebpf.dsl.translate.frame import LoopContext
    from pyebpf.dsl.translate.string_buffers import StringBuffers
    from pyebpf.errors import Location
    from pyebpf.types import IntType

#: The name under which an inlined function keeps what it returns.
RETURN = "<return value>"
#: Texts that markers of places are given.
_ASSIGNED = ir.Value(-1)


@dataclass(slots=True)
class NamePlace:
    """The variables that hold a name's values of one shape.

    `marker` tells, where there are none, that it is assigned.
    """

    prototype: RunTimeValue
    variables: tuple[Variable, ...]
    marker: Variable


@dataclass(slots=True)
class NameEntry:
    """A run-time name: its places by shape, where it was first assigned, and what integers it holds.

    `latest` is the place that was written last. `only_constants` tells whether the integers were constants that are as
    well unsigned. `buffers` is its memory for strings that different paths assign.
    """

    places: dict[Hashable, NamePlace] = field(default_factory=dict)
    first: Location | None = None
    integer: IntType | None = None
    only_constants: bool = True
    buffers: StringBuffers | None = None
    latest: NamePlace | None = None

    def assigned(self, values: Values) -> NamePlace | None:
        """The place that holds the name's value where the variables have these: on no path is it more than one."""
        latest = self.latest
        if latest is not None and latest.marker in values:
            return latest
        return next((place for place in self.places.values() if place.marker in values), None)


class Names:
    """The names of one function, as `Frame` has them."""

    def __init__(self, p: ProgramBuilder, source: Source, scope: Scope, key: Hashable) -> None:
        self.p = p
        self.source = source
        self.scope = scope
        self.times = p.analysis(BindingTimes)
        self.key = key
        arguments = source.node.args
        self.parameters = [
            argument.arg
            for argument in (
                *arguments.posonlyargs,
                *arguments.args,
                *arguments.kwonlyargs,
                arguments.vararg,
                arguments.kwarg,
            )
            if argument is not None
        ]
        nodes = source.node.body if isinstance(source.node, ast.FunctionDef) else [source.node.body]
        self.local_names = frozenset(self.parameters) | frozenset(assigned_names(nodes))
        self.annotations: dict[str, IntType] = {}
        self.constants: dict[str, object] = {}
        #: Targets of comprehensions being written out, innermost last.
        self.targets: list[dict[str, object]] = []
        #: The function around one that a probe defines inside itself.
        self.outer: Names | None = None
        self.loops: list[LoopContext] = []
        #: Run-time conditions and loops of this function that stand around the current statement.
        self.depth = 0
        self._names: dict[str, NameEntry] = {}
        #: Names that have had a value known at compile time, even if they have none any more.
        self._known: set[str] = set()
        #: Targets of unrolled loops that are over.
        self._forgotten: set[str] = set()
        #: Names of what a `with` held that is over.
        self._ended: set[str] = set()

    @property
    def b(self) -> FunctionBuilder:
        """The function being built."""
        return self.p.b

    @functools.cached_property
    def named(self) -> frozenset[str]:
        """Names that `:=` assigns, within a statement."""
        return _named(self.source.node)

    def fail(self, message: str) -> NoReturn:
        """Raise CompileError at the current place."""
        self.p.fail(message)

    def mark(self, names: Iterable[str], what: str, where: Location) -> None:
        """Note that names are run-time variables."""
        for name in names:
            if not self.times.is_run_time(self.key, name):
                self.times.mark(self.key, name, Reason(what, where), relied_on=name in self._known)

    def assign(self, name: str, value: object) -> None:
        """Bind a local name at the current place."""
        where = self.b.where
        assert where is not None
        method = run_time_method(value)
        if method is not None:
            self.fail(f"{method.describe()} cannot be stored in a variable: call it directly")
        if isinstance(value, AddressNumber):  # the name may be used more than once
            value = Int(value.value, value.type)
        declared = self.annotations.get(name)
        if not self.times.is_run_time(self.key, name):
            if self.depth:
                self.mark([name], "is assigned under a run-time condition", where)
            elif is_run_time(value) and name in self.parameters and name not in self._names:
                self.mark([name], "is a parameter", where)
            elif is_run_time(value) or (declared is not None and isinstance(value, Entity)):
                self.mark([name], f"is assigned {described(value)}", where)
            else:
                self.bind_constant(name, value if declared is None else self._constant(name, value, declared))
                return
        self.constants.pop(name, None)
        entry = self._names.get(name)
        if entry is None:
            entry = self._names[name] = NameEntry(first=where)
        if value is None:
            self._write(name, entry, turns.none_value(self, name, entry))
            return
        own = turns.own_memory(self, name, entry, value)
        value = self._variable_value(name, value) if own is None else own
        value = turns.elements_joined(self, name, value)
        if isinstance(value, Maybe):
            self._write(name, entry, turns.optional_value(self, name, value))
            return
        if declared is not None:
            value = to_int(self.p, value.convert(self.p, declared))
        if isinstance(value, Character) and self.times.is_number(self.key, name):
            value = Int(value.value, value.type, value.loaded)
        if isinstance(value, Int) and declared is None:
            value = self._in_place_of_none(entry, value)
        if isinstance(value, Int) and declared is None:
            value = self._constant_joins(name, entry, value)
            self._join_integer(name, entry, value)
        if self.times.optional(self.key, name) is not None:
            value = turns.optional_value(self, name, value)
        self._write(name, entry, value)

    def shown(self, name: str) -> str:
        """A name, as messages call it."""
        return f"what {self.scope.function.__name__}() returns" if name == RETURN else name

    def bind_constant(self, name: str, value: object) -> None:
        """Bind a name that is known at compile time whatever stands around it: the target of an unrolled loop."""
        self.constants[name] = value
        self._known.add(name)

    def _constant(self, name: str, value: object, declared: IntType) -> int:
        if not isinstance(value, int):
            self.fail(f"{name} is annotated as {declared.name}, and {describe(value)} is not an integer")
        if not declared.minimum <= value <= declared.maximum:
            self.fail(f"{value} does not fit {declared.name}: it holds {declared.minimum} to {declared.maximum}")
        return declared.wrap(value)

    def _variable_value(self, name: str, value: object) -> RunTimeValue:
        """The value as a run-time variable holds it."""
        if isinstance(value, RunTimeValue):
            return value.local(self.p)
        if isinstance(value, Test):
            return to_int(self.p, value)
        check_own(self.p, (value,))
        if isinstance(value, int):
            declared = self.annotations.get(name)
            if declared is not None:
                value = self._constant(name, value, declared)
            return to_int(self.p, value)
        if isinstance(value, tuple):
            return TupleValue(value, type(value)).local(self.p)
        if isinstance(value, Entity) and not isinstance(value, Method) and name not in self.annotations:
            return ConstantEntity(value)
        if isinstance(value, str):
            turns.mark_joined(self, name, self._names[name], value)
        if name == RETURN:
            self.fail(
                f"which value this function returns is decided at run time, and {described(value)} is known only "
                f"at compile time: return a number, a string or a record"
            )
        reason = self.times.reason(self.key, name)
        why = f" since line {reason.where.line}, where it {reason.what}" if reason else ""
        self.fail(
            f"{name} is a run-time variable{why}; {described(value)} is known only at compile time: give "
            "it a name of its own"
        )

    def _constant_joins(self, name: str, entry: NameEntry, value: Int) -> Int:
        """A constant that is not negative is as well a u64, if that is what else the name is given."""
        constant = value.literal is not None and value.literal >= 0
        unsigned = entry.integer == U64 or self.times.is_unsigned(self.key, name)
        if constant and value.type == S64 and unsigned:
            return Int(value.value, U64, literal=value.literal)
        if entry.integer == S64 and value.type == U64 and entry.only_constants:
            self.times.mark_unsigned(self.key, name)
            entry.integer = U64
        entry.only_constants &= constant
        return value

    def _in_place_of_none(self, entry: NameEntry, value: Int) -> RunTimeValue:
        """After `x = m.get(k)`, `if x is None: x = 0`: the number stands where the look-up's does, and is not None."""
        place = entry.assigned(self.b.environment.values)
        found = None if place is None else place.prototype
        if place is not None and isinstance(found, OptionalInt) and self._may_be_none(place):
            if found.type == U64 != value.type and value.literal is not None and value.literal >= 0:
                value = Int(value.value, U64, literal=value.literal)
            low, high = self.b.bounds(value.value)
            fits = found.loaded is None or found.loaded.minimum <= low <= high <= found.loaded.maximum
            if found.type == value.type and fits:
                return found.with_ssa_values((self.p.context, value.value))
        return value

    def to_rvalue(self, names: Iterable[str]) -> None:
        """Before a loop that assigns the names: a look-up found to have a number is that number in the loop, too."""
        for name in names:
            entry = self._names.get(name)
            if entry is None or self.times.optional(self.key, name) is not None:
                continue
            if not any(isinstance(place.prototype, OptionalInt) for place in entry.places.values()):
                continue
            value = self.read(name) if self.is_assigned(name) else None
            if isinstance(value, OptionalInt) and self.b.is_non_null(value.null_check):
                number = value.to_rvalue(self.p)
                self._join_integer(name, entry, number)
                self._write(name, entry, number)

    def _may_be_none(self, place: NamePlace) -> bool:
        """Whether no test has found what a look-up's place holds here to be a number."""
        null_check = self.b.environment.values.get(place.variables[0])
        return null_check is not None and not self.b.is_non_null(null_check)

    def _join_integer(self, name: str, entry: NameEntry, value: Int) -> None:
        if entry.integer is None:
            entry.integer = value.type
        elif entry.integer != value.type:
            line = entry.first.line if entry.first else 0
            shown = "the value returned" if name == RETURN else name
            remedy = f"annotate it, `{name}: u64 = …` or `{name}: s64 = …`"
            if name == RETURN or name.startswith("<sum"):
                shown = "the value returned" if name == RETURN else "the sum"
                remedy = "convert one of them"
            elif name in self.parameters:
                remedy = f"annotate the parameter, `{name}: u64` or `{name}: s64`"
            elif name in _annotated(self.source.node):
                remedy = f"annotate it with its width, `{name}: u64` or `{name}: s64`, which `int` does not say"
            self.fail(f"{shown} is {entry.integer.name} on line {line} and {value.type.name} here: {remedy}")

    def _write(self, name: str, entry: NameEntry, value: RunTimeValue) -> None:
        b = self.b
        place = entry.places.get(value.static_shape)
        if place is None:
            variables = tuple(Variable(part.type, name) for part in value.ssa_values)
            place = entry.places[value.static_shape] = NamePlace(value, variables, Variable(ir.ValueType.SCALAR, name))
        values = b.environment.values
        other = entry.assigned(values)
        if other is not None and other is not place:
            for loop in self.loops:
                if not loop.unrolled and (other.marker in loop.carried or loop.carried.intersection(other.variables)):
                    turns.mark_joined(self, name, entry, value)
                    self.fail(
                        f"{name} refers to {other.prototype.describe()} before the loop and to {value.describe()} in "
                        "it: use two names"
                    )
            for variable in (*other.variables, other.marker):
                values.pop(variable)
        entry.latest = place
        for variable, part in zip(place.variables, value.ssa_values, strict=True):
            values[variable] = part
        # One value whatever the path: where paths meet it needs no parameter, and it is never part of the code.
        values[place.marker] = _ASSIGNED

    def read(self, name: str) -> object:
        """The meaning of a name here; `MISSING` if it is not a name at all."""
        shown = "the value returned" if name == RETURN else name
        for targets in reversed(self.targets):
            if name in targets:
                return targets[name]
        if name not in self.local_names and not name.startswith("<"):
            return self._free(name)
        if name in self.constants:
            value = self.constants[name]
            if type(value) is int and self.annotations.get(name) == U64:
                # As u64(5), which is no literal: what it is computed with is wrapped to u64.
                return Int(self.b.const(value), U64, literal=value)
            return value
        entry = self._names.get(name)
        if entry is not None:
            values = self.b.environment.values
            place = entry.assigned(values)
            variables = () if place is None else place.variables
            parts = [part for variable in variables if (part := values.get(variable)) is not None]
            if place is not None and len(parts) == len(variables):
                if isinstance(place.prototype, ConstantEntity):
                    return place.prototype.entity
                if isinstance(place.prototype, Nothing):
                    return None
                found = place.prototype.with_ssa_values(tuple(parts))
                if isinstance(found, Maybe) and self.b.is_non_null(found.flag):
                    found = found.inner
                # Where the rest of the statement may write to the name's memory, what it was is kept.
                moving = turns.is_own_text(entry, found) and name in self.named
                return found.local(self.p) if moving else found
            if len(entry.places) > 1:
                turns.mark_joined(self, name, entry)
            if len({place.prototype.describe() for place in entry.places.values()}) == 1 < len(entry.places):
                what = next(iter(entry.places.values())).prototype.describe()
                self.fail(f"{shown} may refer to either of two things here, each {what}: use a name for each")
            if len(entry.places) > 1:
                shapes = " or ".join(place.prototype.describe() for place in entry.places.values())
                self.fail(f"{shown} may refer to {shapes} here: use a name for each")
        if entry is not None and entry.first is not None and name not in self._ended:
            self.fail(
                f"{shown} is assigned on one path only (line {entry.first.line}): assign it on every path to here"
            )
        if name in self._forgotten:
            self.fail(
                f"{name} was the target of an unrolled loop, and its last iteration is known only at run time: "
                "assign what you need to another name inside the loop"
            )
        if name in self._ended:
            self.fail(f"{name} is no longer valid after its `with`: use it inside")
        if self.loops:
            self.fail(f"{shown} has no value on the first iteration of the loop: assign it before")
        if self.scope.knows(name):
            self.fail(
                f"{name} is assigned in this function, which makes it a local name, and has no value here: a "
                "probe can't "
                f"assign to an outer name; keep the value in a map"
            )
        meant = closest(name, self.local_names - {name})
        self.fail(f"{shown} has no value here{meant}: assign it first")

    def _free(self, name: str) -> object:
        if self.outer is not None and self.outer.binds(name):
            return self.outer.read(name)
        try:
            return self.scope.look_up(name, self.source)
        except ReboundName as change:
            self.fail(
                f"{name} was {_short(change.before)} when the probe was made, and is {_short(change.after)} "
                "now: a probe keeps the value that it "
                f"saw; give the other one another name"
            )

    def binds(self, name: str) -> bool:
        """Whether a name is this function's own, or one's around it inside the probe."""
        if name in self.local_names or any(name in targets for targets in self.targets):
            return True
        return self.outer is not None and self.outer.binds(name)

    def hides_word(self, name: str) -> bool:
        """Whether a local name means something else than the intrinsic of that name outside."""
        return name in self.local_names and isinstance(self.scope.outside(name), Intrinsic)

    def is_assigned(self, name: str) -> bool:
        """Whether reading a local would find a value."""
        if name in self.constants:
            return True
        entry = self._names.get(name)
        values = self.b.environment.values
        return entry is not None and entry.assigned(values) is not None

    def forget(self, name: str) -> None:
        """Leave the target of an unrolled loop without a value."""
        self.constants.pop(name, None)
        self._forgotten.add(name)

    def end(self, name: str, entity: Entity) -> None:
        """Leave what a `with` held without its name: it is sent, or given back."""
        if self.constants.get(name) is entity:
            del self.constants[name]
            self._ended.add(name)
        for place in self._names[name].places.values() if name in self._names else ():
            found = place.prototype
            if isinstance(found, ConstantEntity) and found.entity is entity:
                self.b.environment.values.pop(place.marker)
                self._ended.add(name)

    def carried(self, names: Iterable[str]) -> list[Variable]:
        """Variables with a value here that hold any of the names."""
        values = self.b.environment.values
        return [
            variable
            for name in names
            if name in self._names
            for place in self._names[name].places.values()
            for variable in place.variables
            if variable in values
        ]

    def markers(self, names: Iterable[str]) -> list[Variable]:
        """Markers of the places that hold any of the names here."""
        values = self.b.environment.values
        return [
            place.marker
            for name in names
            if name in self._names
            for place in self._names[name].places.values()
            if place.marker in values
        ]

    def close(self) -> None:
        """Drop the variables of a function that has been inlined."""
        for entry in self._names.values():
            for place in entry.places.values():
                for variable in (*place.variables, place.marker):
                    self.b.environment.values.pop(variable)


@functools.lru_cache(maxsize=256)
def _annotated(node: ast.AST) -> frozenset[str]:
    """Locals with an annotation, be it one that says no width."""
    found = (each.target for each in ast.walk(node) if isinstance(each, ast.AnnAssign))
    return frozenset(target.id for target in found if isinstance(target, ast.Name))


@functools.lru_cache(maxsize=256)
def _named(node: ast.AST) -> frozenset[str]:
    return frozenset(each.target.id for each in walk(node) if isinstance(each, ast.NamedExpr))


def _short(value: object) -> str:
    text = describe(value)
    return text if len(text) <= 40 else text[:37] + "..."
