"""Subprograms: functions of a program that it calls (BPF-to-BPF), in place of being written out at each call."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyebpf.builder.ssa.conditions import Always
from pyebpf.builder.values.entity import Entity
from pyebpf.builder.values.integers import Int
from pyebpf.builder.values.operations import to_int
from pyebpf.compiler.ir import Op, ValueType
from pyebpf.dataclass import dataclass
from pyebpf.errors import OnlyInProbe
from pyebpf.specs.programs import GlobalFunction
from pyebpf.types import S64, U64, IntType

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import NoReturn, Protocol

    from pyebpf.builder.program import ProgramBuilder
    from pyebpf.builder.ssa.conditions import Test
    from pyebpf.compiler import ir
    from pyebpf.errors import Location

    class Refusing(Protocol):
        """The receiver of a message, as a program under construction is."""

        def fail(self, message: str, where: Location | None = None) -> NoReturn: ...


#: r1 to r5 carry arguments, and the first of them carries the context.
MAX_PARAMETERS = 4


@dataclass(frozen=True, slots=True)
class Signature:
    """Types of a subprogram's parameters, by name, and of what it returns; None for nothing."""

    parameters: dict[str, IntType]
    result: IntType | None


@dataclass(frozen=True, slots=True)
class BuiltSubprogram:
    """A subprogram in a program: `invalidated` are the maps whose entries it makes invalid, with the reasons.

    `scratch_owner` is the function within whose claim of scratch memory it has its large slots, if it has any.
    """

    symbol: str
    signature: Signature
    invalidated: Mapping[str, str]
    scratch_owner: str = ""


class Subprogram(Entity):
    """A function that programs call in the kernel, compiled once for each program that uses it.

    A `replaceable` one has no context, and another program may take its place in those that are loaded. A front end's
    own class has the code: `signature`, `bound` and `build`.
    """

    def __init__(self, name: str, *, replaceable: bool = False) -> None:
        self.__name__ = name
        self.replaceable = replaceable

    @property
    def where(self) -> Location | None:
        """The place that errors about the whole function name."""
        return None

    def signature(self, p: Refusing) -> Signature:
        """Types of its parameters and of its result. What cannot be said is told to `p`."""
        raise NotImplementedError

    def bound(
        self, p: ProgramBuilder, arguments: Sequence[object], keywords: Mapping[str, object]
    ) -> Mapping[str, object]:
        """A call's arguments by the names of the parameters."""
        raise NotImplementedError

    def build(self, p: ProgramBuilder, signature: Signature, arguments: Mapping[str, Int]) -> None:
        """Build the function, `p.b`, every path of which returns."""
        raise NotImplementedError

    def describe(self) -> str:
        return f"the subprogram {self.__name__}"

    def truth(self, p: ProgramBuilder) -> Test:
        return Always(holds=True)

    def call(self, p: ProgramBuilder, arguments: Sequence[object], keywords: Mapping[str, object]) -> Int | None:
        """Append a call, building the function first if this is the program's first call of it."""
        key = self._key(p)
        built = p.subprograms[key] if key in p.subprograms else self._build(p)
        if built is None:
            p.fail(f"{self.__name__} calls itself: the kernel has no room for recursion; write a loop")
        if self.replaceable and p.scratch is not None and p.scratch.is_other(built.scratch_owner):
            p.fail(
                f"{self.__name__} is replaceable, and both the program and a timer's function call it: such a function "
                "cannot have records too large for the stack; keep them in a map"
            )
        given = self.bound(p, arguments, keywords)
        values = [] if self.replaceable else [p.context]
        for name, type_ in built.signature.parameters.items():
            converted = to_int(p, to_int(p, given[name]).convert(p, type_))
            values.append(converted.value)
        result = p.b.emit(Op.CALL_LOCAL, *values, result=ValueType.SCALAR, symbol=built.symbol)
        for origin, reason in built.invalidated.items():
            p.b.invalidate_origin(origin, f"{self.__name__}() and its {reason}")
        returned = built.signature.result
        return None if returned is None else _from_register(p, result, returned)

    def __call__(self, *_arguments: object, **_keywords: object) -> NoReturn:
        raise OnlyInProbe(f"{self.__name__} is a subprogram: probes call it in the kernel, Python can't")

    def _build(self, p: ProgramBuilder) -> BuiltSubprogram:
        signature = self.signature(p)
        types = signature.parameters
        # Those being built count as well: this one may be called by another of its name.
        symbol = f"{self.__name__}.{len(p.subprograms)}"
        p.subprograms[self._key(p)] = None
        first = () if self.replaceable else (ValueType.POINTER,)
        made = p.new_function(symbol, (*first, *[ValueType.SCALAR] * len(types)), self.where)
        with p.function(made):
            if self.replaceable:
                # Named as it is, for who replaces it; verified by itself, for any arguments.
                p.contextless.add(made)
                p.global_functions.append(GlobalFunction(symbol, tuple(types)))
            else:
                made.assume_non_null(p.context)
            given = zip(types.items(), made.parameters[len(first) :], strict=True)
            self.build(p, signature, {name: _from_register(p, value, type_) for (name, type_), value in given})
        owner = "" if p.scratch is None else p.scratch.owner
        built = p.subprograms[self._key(p)] = BuiltSubprogram(symbol, signature, made.invalidated, owner)
        return built

    def _key(self, p: ProgramBuilder) -> tuple[Subprogram, str]:
        """Its key in `p.subprograms`: there is one of it for each owner of scratch memory, unless it is replaceable."""
        return self, "" if p.scratch is None or self.replaceable else p.scratch.owner


def _from_register(p: ProgramBuilder, value: ir.Value, type_: IntType) -> Int:
    """A register that the other side has filled with a value of `type_`."""
    if type_.size == U64.size:
        return Int(value, U64 if not type_.signed else S64)
    if not type_.signed:
        # The verifier does not carry bounds into or out of a subprogram.
        value = p.b.emit(Op.ZEXT, value, size=type_.size)
    p.b.assume_bounds(value, type_.minimum, type_.maximum)
    return Int(value, S64, type_)
