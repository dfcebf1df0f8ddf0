"""Subprograms: functions of a program that it calls (BPF-to-BPF), in place of being written out at each call."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyebpf.builder.ssa.function import FunctionBuilder
from pyebpf.builder.values.integers import Int
from pyebpf.builder.values.operations import to_int
from pyebpf.compiler.ir import Kind, Op
from pyebpf.dataclass import dataclass
from pyebpf.dsl.annotations import annotation_value, integer_type
from pyebpf.dsl.probe_builder import ProbeBuilder
from pyebpf.dsl.source import find_source
from pyebpf.dsl.translate import Translator, body, end_of_function
from pyebpf.specs.programs import Exported
from pyebpf.types import S64, U64, IntType

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import NoReturn, Protocol

    from pyebpf.builder.program import ProgramBuilder
    from pyebpf.dsl.probe import SubprogramEntity

    class Refusing(Protocol):
        """The receiver of a message, as a program under construction is."""

        def fail(self, message: str, where: Any = None) -> NoReturn: ...


__all__ = ["BuiltSubprogram", "call_subprogram", "from_register", "signature"]

#: r1 to r5 carry arguments, and the first of them carries the context.
MOST_PARAMETERS = 4


@dataclass(frozen=True, slots=True)
class BuiltSubprogram:
    """A subprogram in a program: `invalidated` are the maps whose entries it makes invalid, with the reasons."""

    symbol: str
    parameters: dict[str, IntType]
    result: IntType | None
    invalidated: Mapping[str, str]


def call_subprogram(
    p: ProgramBuilder, entity: SubprogramEntity, arguments: Sequence[Any], keywords: Mapping[str, Any]
) -> Any:
    """Append a call, building the function first if this is the program's first call of it."""
    import inspect  # a millisecond that most modules save

    assert isinstance(p, ProbeBuilder)
    built = p.subprograms[entity] if entity in p.subprograms else _build(p, entity)
    if built is None:
        p.fail(f"{entity.__name__} calls itself: the kernel has no room for recursion; write a loop")
    try:
        bound = inspect.signature(entity.function).bind(*arguments, **keywords)
    except TypeError as error:
        p.fail(f"{entity.__name__}(): {error}")
    bound.apply_defaults()
    values = [] if entity.replaceable else [p.context]
    for name, type_ in built.parameters.items():
        converted = to_int(p, to_int(p, bound.arguments[name]).convert(p, type_))
        values.append(converted.value)
    result = p.b.emit(Op.CALL_LOCAL, *values, result=Kind.SCALAR, symbol=built.symbol)
    for origin, reason in built.invalidated.items():
        p.b.invalidate_origin(origin, f"{entity.__name__}() and its {reason}")
    return None if built.result is None else from_register(p, result, built.result)


def from_register(p: ProgramBuilder, value: Any, type_: IntType) -> Int:
    """A register that the other side has filled with a value of `type_`."""
    if type_.size == U64.size:
        return Int(value, U64 if not type_.signed else S64)
    if not type_.signed:
        # The verifier does not carry bounds into or out of a subprogram.
        value = p.b.emit(Op.ZEXT, value, size=type_.size)
    p.b.assume_bounds(value, type_.minimum, type_.maximum)
    return Int(value, S64, type_)


def signature(p: Refusing, entity: SubprogramEntity) -> tuple[dict[str, IntType], IntType | None]:
    """Types of a subprogram's parameters, and of what it returns."""
    import inspect

    function = entity.function
    source = find_source(function)
    types: dict[str, IntType] = {}
    for name, parameter in inspect.signature(function).parameters.items():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            p.fail(f"{function.__name__}: a subprogram takes no *{name}", source.location)
        type_ = _integer(entity, parameter.annotation)
        if type_ is None:
            given = parameter.annotation is not inspect.Parameter.empty
            has = (
                f"{name} is annotated with what is no integer type of a width: give it"
                if given
                else f"annotate {name} with"
            )
            p.fail(f"{function.__name__}: {has} an integer type, such as `{name}: u64`", source.location)
        types[name] = type_
    most = MOST_PARAMETERS + entity.replaceable
    if len(types) > most:
        p.fail(
            f"{function.__name__} has {len(types)} parameters: a subprogram takes at most {most}",
            source.location,
        )
    returns = inspect.signature(function).return_annotation
    result = None if returns in (None, "None") else _integer(entity, returns)
    if result is None and returns not in (None, "None"):
        p.fail(f"{function.__name__}: annotate what it returns, `-> u64`, or `-> None`", source.location)
    return types, result


def _build(p: ProbeBuilder, entity: SubprogramEntity) -> BuiltSubprogram:
    function = entity.function
    source = find_source(function)
    types, result = signature(p, entity)
    # Those being built count as well: this one may be called by another of its name.
    symbol = f"{function.__name__}.{len(p.subprograms)}"
    p.subprograms[entity] = None
    first = () if entity.replaceable else (Kind.POINTER,)
    made = FunctionBuilder(symbol, (*first, *[Kind.SCALAR] * len(types)), source.location)
    with p.function(made):
        if entity.replaceable:
            # Named as it is, for who replaces it; verified by itself, for any arguments.
            p.contextless.add(made)
            p.exported.append(Exported(symbol, tuple(types)))
        else:
            made.assume_present(p.context)
        key = ("subprogram", function.__qualname__, source.node.lineno)
        frame = Translator(p, source, entity.scope, p.times, key)
        frame.is_subprogram, frame.result = True, result
        # As for locals: an annotation holds for every assignment to its name.
        frame.annotations.update(types)
        for (name, type_), value in zip(types.items(), made.parameters[len(first) :], strict=True):
            frame.assign(name, from_register(p, value, type_))
        body(frame)
        end_of_function(frame)
    built = p.subprograms[entity] = BuiltSubprogram(symbol, types, result, made.invalidated)
    return built


def _integer(entity: SubprogramEntity, annotation: Any) -> IntType | None:
    if isinstance(annotation, str):
        annotation = annotation_value(entity.function, annotation)
    return integer_type(annotation)
