"""Plain Python functions called with what only each event knows: translated where they are called."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from pyebpf.builder.ssa.function import Join
from pyebpf.builder.values.records import Record
from pyebpf.dsl.annotations import annotation_value, integer_type
from pyebpf.dsl.scope import Scope
from pyebpf.dsl.source import find_source
from pyebpf.dsl.translate.bodies import body, declared_type, end_of_function
from pyebpf.dsl.translate.compile_time import COMPILE_TIME
from pyebpf.dsl.translate.names import RETURN
from pyebpf.dsl.translate.tuples import is_run_time
from pyebpf.errors import CompileError

if TYPE_CHECKING:
    from collections.abc import Hashable
    from inspect import Signature
    from types import FunctionType

    from pyebpf.dsl.source import Source
    from pyebpf.dsl.translate.closures import LocalFunction
    from pyebpf.dsl.translate.frame import Frame

__all__ = ["inline", "inline_local"]

#: Calls written out in one program; ten levels of functions that call another twice are two thousand.
_MOST_CALLS = 2048
#: Functions that call each other, each written out in the one before.
_MOST_NESTED = 64


def inline(f: Frame, function: FunctionType, arguments: list[Any], keywords: dict[str, Any]) -> Any:
    """Translate a call's body here and return its value."""
    import inspect  # a millisecond that most modules save

    if inspect.iscoroutinefunction(function) or inspect.isgeneratorfunction(function):
        f.fail(f"{function.__name__} is a coroutine or a generator, which can't be inlined: call a plain function")
    if function.__code__.co_filename == COMPILE_TIME:
        f.fail("a function made inside a probe can't be inlined: define it outside")
    try:
        source = find_source(function)
    except CompileError as error:
        f.fail(error.message)
    signature = _signature(function)
    inner = _frame(f, source, Scope(function), function.__qualname__, function)
    for name, annotation in function.__annotations__.items():
        found = annotation_value(function, annotation) if isinstance(annotation, str) else annotation
        type_ = integer_type(found)
        if type_ is not None:
            inner.annotations[RETURN if name == "return" else name] = type_
    return _inlined(f, inner, function.__name__, signature, arguments, keywords)


@functools.lru_cache(maxsize=256)
def _signature(function: FunctionType) -> Signature:
    import inspect

    return inspect.signature(function)


def inline_local(f: Frame, function: LocalFunction, arguments: list[Any], keywords: dict[str, Any]) -> Any:
    """Translate a call of a function that the probe itself has made."""
    node = function.node
    place = (node.lineno, node.col_offset)
    inner = _frame(f, function.source, function.frame.scope, (function.__name__, place), (function.frame.key, place))
    inner.outer = function.frame
    for argument in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs):
        type_ = None if argument.annotation is None else declared_type(f, argument.annotation)
        if type_ is not None:
            inner.annotations[argument.arg] = type_
    return _inlined(f, inner, function.__name__, function.signature(), arguments, keywords)


def _frame(f: Frame, source: Source, scope: Scope, name: Hashable, function: Any) -> Frame:
    where = f.b.where
    assert where is not None
    if function in f.calls:
        shown = source.node.name if hasattr(source.node, "name") else "this lambda"
        f.fail(f"{shown} calls itself: what is inlined can't; write a loop")
    if len(f.calls) >= _MOST_NESTED:
        f.fail(f"functions that call functions are written out {_MOST_NESTED} deep: make one of them a @bpf.subprogram")
    f.p.inlined_calls += 1
    if f.p.inlined_calls > _MOST_CALLS:
        f.fail(
            f"more than {_MOST_CALLS} calls would be written out in this program: make what is called often a "
            "@bpf.subprogram, or call it in a loop"
        )
    inner = type(f)(f.p, source, scope, (f.key, where.line, where.column, name), returns=Join())
    inner.calls = (*f.calls, function)
    return inner


def _inlined(
    f: Frame, inner: Frame, name: str, signature: Signature, arguments: list[Any], keywords: dict[str, Any]
) -> Any:
    where = f.b.where
    try:
        bound = signature.bind(*arguments, **keywords)
    except TypeError as error:
        f.fail(f"{name}(): {error}")
    bound.apply_defaults()
    for parameter, value in bound.arguments.items():
        f.b.where = where
        extra = inner.source.node.args.kwarg
        if extra is not None and extra.arg == parameter and is_run_time(value):
            f.fail(f"{name}(): **{parameter} can't take what only each event knows: name each parameter")
        inner.assign(parameter, value)
    body(inner)
    end_of_function(inner)
    assert inner.returns is not None
    f.b.start(inner.returns)
    f.b.where = where
    value = inner.read(RETURN) if f.b.reachable else None
    if isinstance(value, Record):
        value.fresh = inner.gives_fresh
    inner.close()
    return value
