"""Plain Python functions called with values known only at run time: translated where they are called."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from pyebpf.builder.ssa.function import Join
from pyebpf.builder.values.entity import Entity
from pyebpf.builder.values.records import Record
from pyebpf.dsl.annotations import declared_annotations, integer_type
from pyebpf.dsl.parameters import parameters_of
from pyebpf.dsl.scope import Scope
from pyebpf.dsl.source import find_source
from pyebpf.dsl.translate.bodies import body, declared_type, end_of_function
from pyebpf.dsl.translate.compile_time import COMPILE_TIME, only_known
from pyebpf.dsl.translate.names import RETURN
from pyebpf.dsl.translate.tuples import TupleValue, is_run_time
from pyebpf.errors import CompileError, NotLoaded, OnlyInProbe

if TYPE_CHECKING:
    from collections.abc import Hashable
    from types import FunctionType

    from pyebpf.dsl.parameters import Parameters
    from pyebpf.dsl.source import Source
    from pyebpf.dsl.translate.closures import LocalFunction
    from pyebpf.dsl.translate.frame import Frame
    from pyebpf.types import IntType

#: Calls written out in one program; ten levels of functions that call another twice are two thousand.
_MAX_CALLS = 2048
#: Functions that call each other, each written out in the one before.
_MAX_NESTED = 64
#: Of a code object: inspect's CO_GENERATOR, CO_COROUTINE, CO_ASYNC_GENERATOR.
_SUSPENDED = 0x20 | 0x80 | 0x200


def inline(f: Frame, function: FunctionType, arguments: list[object], keywords: dict[str, object]) -> object:
    """Translate a call's body here and return its value."""
    if function.__code__.co_flags & _SUSPENDED:
        f.fail(f"{function.__name__} is a coroutine or a generator, which can't be inlined: call a plain function")
    if function.__code__.co_filename == COMPILE_TIME:
        f.fail("a function made inside a probe can't be inlined: define it outside")
    try:
        source = find_source(function)
    except CompileError as error:
        f.fail(error.message)
    inner = _frame(f, source, Scope(function), function.__qualname__, function)
    inner.annotations |= _declared(function)
    return _inlined(f, inner, function.__name__, parameters_of(function), arguments, keywords)


def computed(f: Frame, function: FunctionType, arguments: list[object], keywords: dict[str, object]) -> object:
    """Let Python call a function of known values; its annotations hold as they do where it is inlined.

    One that asks an intrinsic or a map, as by a method of an object that it is given, is inlined itself.
    """
    declared = _declared(function)
    if declared:
        try:
            given = parameters_of(function).bind(arguments, keywords)
        except TypeError:  # which the call says
            given = {}
        for name, value in given.items():
            _check_fits(f, f"{name} of {function.__name__}()", value, declared.get(name))
    try:
        result = only_known(f, function, *arguments, **keywords)
    except (OnlyInProbe, NotLoaded):
        return inline(f, function, arguments, keywords)
    _check_fits(f, f"the result of {function.__name__}()", result, declared.get(RETURN))
    return result


def asks_an_event(f: Frame, function: FunctionType, arguments: list[object], keywords: dict[str, object]) -> bool:
    """Whether a function asks an intrinsic or a map, though none of its names leads to one."""
    try:
        only_known(f, function, *arguments, **keywords)
    except (OnlyInProbe, NotLoaded):
        return True
    except CompileError:
        pass
    return False


def _declared(function: FunctionType) -> dict[str, IntType]:
    """Integer types that parameters and the result are annotated with."""
    declared = {}
    for name, annotation in declared_annotations(function).items():
        type_ = integer_type(annotation)
        if type_ is not None:
            declared[RETURN if name == "return" else name] = type_
    return declared


def _check_fits(f: Frame, what: str, value: object, declared: IntType | None) -> None:
    if declared is not None and isinstance(value, int) and not declared.minimum <= value <= declared.maximum:
        f.fail(
            f"{what} is annotated as {declared.name}, which {value} does not fit: it holds {declared.minimum} to "
            f"{declared.maximum}"
        )


def inline_local(f: Frame, function: LocalFunction, arguments: list[object], keywords: dict[str, object]) -> object:
    """Translate a call of a function that the probe itself has made."""
    node = function.node
    place = (node.lineno, node.col_offset)
    inner = _frame(f, function.source, function.frame.scope, (function.__name__, place), (function.frame.key, place))
    inner.outer = function.frame
    for argument in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs):
        type_ = None if argument.annotation is None else declared_type(f, argument.annotation)
        if type_ is not None:
            inner.annotations[argument.arg] = type_
    return _inlined(f, inner, function.__name__, function.parameters(), arguments, keywords)


def _frame(f: Frame, source: Source, scope: Scope, name: Hashable, function: object) -> Frame:
    where = f.b.where
    assert where is not None
    if function in f.calls:
        shown = source.node.name if hasattr(source.node, "name") else "this lambda"
        f.fail(f"{shown} calls itself: an inlined function cannot; write a loop")
    if len(f.calls) >= _MAX_NESTED:
        f.fail(f"functions are inlined {_MAX_NESTED} calls deep at most: make one of them a @bpf.subprogram")
    f.p.inlined_calls += 1
    if f.p.inlined_calls > _MAX_CALLS:
        f.fail(
            f"more than {_MAX_CALLS} calls would be inlined in this program: make what is called often a "
            "@bpf.subprogram, or call it in a loop"
        )
    inner = type(f)(f.p, source, scope, (f.key, where.line, where.column, name), returns=Join())
    inner.calls = (*f.calls, function)
    return inner


def _inlined(
    f: Frame, inner: Frame, name: str, parameters: Parameters, arguments: list[object], keywords: dict[str, object]
) -> object:
    where = f.b.where
    try:
        bound = parameters.bind_all(arguments, keywords)
    except TypeError as error:
        f.fail(f"{name}(): {error}")
    for parameter, value in bound.items():
        f.b.where = where
        extra = inner.source.node.args.kwarg
        if extra is not None and extra.arg == parameter and is_run_time(value):
            f.fail(f"{name}(): **{parameter} can't take values known only at run time: name each parameter")
        inner.assign(parameter, value)
    body(inner)
    end_of_function(inner)
    assert inner.returns is not None
    f.b.start(inner.returns)
    f.b.where = where
    value = inner.read(RETURN) if f.b.reachable else None
    if isinstance(value, Record):
        value.fresh = inner.gives_fresh
    if not _has_functions(value):  # which see the names of this one, whenever they are called
        inner.close()
    return value


def _has_functions(value: object) -> bool:
    """Whether a value is a function that the probe has made, or has one in it."""
    if isinstance(value, TupleValue):
        value = value.elements
    if isinstance(value, partial):
        value = (value.func, *value.args, *value.keywords.values())
    if isinstance(value, (tuple, list)):
        return any(map(_has_functions, value))
    if isinstance(value, dict):
        return any(map(_has_functions, value.values()))
    return isinstance(value, Entity) and hasattr(value, "frame")
