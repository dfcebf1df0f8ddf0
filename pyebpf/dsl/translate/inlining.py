"""Plain Python functions called with what only each event knows: translated where they are called."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyebpf.builder.function import Join
from pyebpf.dsl.scope import Scope
from pyebpf.dsl.source import find_source
from pyebpf.dsl.translate.expressions import COMPILE_TIME
from pyebpf.dsl.translate.frame import RETURN, Frame
from pyebpf.dsl.translate.tuples import is_run_time
from pyebpf.errors import CompileError

if TYPE_CHECKING:
    from types import FunctionType

__all__ = ["inline"]


def inline(f: Frame, function: FunctionType, arguments: list[Any], keywords: dict[str, Any]) -> Any:
    """Translate a call's body here and return its value."""
    import inspect  # a millisecond that most modules save

    from pyebpf.dsl.translate.returns import end_of_function
    from pyebpf.dsl.translate.statements import body

    where = f.b.where
    assert where is not None
    if inspect.iscoroutinefunction(function) or inspect.isgeneratorfunction(function):
        f.fail(f"{function.__name__} is a coroutine or a generator, which can't be inlined: call a plain function")
    if function.__code__.co_filename == COMPILE_TIME:
        f.fail("a function made inside a probe can't be inlined: define it outside")
    if function in f.calls:
        f.fail(f"{function.__name__} calls itself: what is inlined can't; write a loop")
    try:
        bound = inspect.signature(function).bind(*arguments, **keywords)
    except TypeError as error:
        f.fail(f"{function.__name__}(): {error}")
    bound.apply_defaults()
    end = Join()
    key = (f.key, where.line, where.column, function.__qualname__)
    try:
        source = find_source(function)
    except CompileError as error:
        f.fail(error.message)
    inner = Frame(f.p, source, Scope(function), f.times, key, returns=end)
    inner.calls = (*f.calls, function)
    for name, value in bound.arguments.items():
        f.b.where = where
        extra = source.node.args.kwarg
        if extra is not None and extra.arg == name and is_run_time(value):
            f.fail(f"{function.__name__}(): **{name} can't take what only each event knows: name each parameter")
        inner.assign(name, value)
    body(inner)
    end_of_function(inner)
    f.b.start(end)
    f.b.where = where
    value = inner.read(RETURN) if inner.is_assigned(RETURN) else None
    if value is None and inner.returned_value and f.b.reachable:
        value = inner.read(RETURN)
    inner.close()
    return value
