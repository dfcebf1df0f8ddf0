"""Functions that a helper calls back: each becomes a function of its own in the program."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyebpf.builder.intrinsics.callbacks import function_number
from pyebpf.compiler.ir import Op, ValueType
from pyebpf.dsl.annotations import UNKNOWN, declared_annotations
from pyebpf.dsl.scope import Scope
from pyebpf.dsl.source import find_source
from pyebpf.dsl.translate import Translator, body, end_of_function
from pyebpf.types import BOOL

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import FunctionType

    from pyebpf.builder.program import Callback, ProgramBuilder
    from pyebpf.compiler import ir

    Arguments = Callable[[Sequence[ir.Value]], Sequence[object]]

_POINTER = 8


def build_callback(
    p: ProgramBuilder,
    function: FunctionType,
    registers: Sequence[ValueType],
    arguments: Arguments,
    what: str,
    *,
    context: bool = True,
    noting: Callable[[str], None] | None = None,
) -> Callback:
    """Build it, as `ProgramBuilder.build_callback` says."""
    where = p.b.where
    source = find_source(function)
    result = declared_annotations(function).get("return")
    if result not in (None, bool, UNKNOWN):
        p.fail(f"{function.__name__}: {what} returns nothing, or True to stop: annotate `-> None` or `-> bool`")
    symbol = f"{function.__name__}.c{function_number(p)}"
    if noting is not None:
        noting(symbol)
    # The context goes along through the caller's stack, since the function's registers are the helper's.
    passed = p.b.const(0)
    if context:
        passed = p.b.slot_address(p.b.slot(_POINTER, name="context"))
        p.b.store(passed, 0, p.context, _POINTER)
    types = (*registers, ValueType.POINTER) if context else tuple(registers)
    made = p.new_function(symbol, types, source.location)
    with p.function(made, detached=not context):
        for parameter, type_ in zip(made.parameters, types, strict=True):
            if type_ is ValueType.POINTER:
                made.assume_non_null(parameter)
        if context:
            found = made.emit(Op.LOAD, made.parameters[-1], result=ValueType.POINTER, size=_POINTER)
            made.assume_non_null(found)
            p.contexts[made] = found
        key = ("callback", function.__qualname__, source.node.lineno, where)
        frame = Translator(p, source, Scope(function), key)
        frame.is_subprogram, frame.result = True, BOOL if result is bool else None
        given = arguments(made.parameters[: len(registers)])
        if len(frame.parameters) != len(given):
            p.fail(f"{function.__name__}: {what} takes {len(given)} arguments, not {len(frame.parameters)}")
        for name, value in zip(frame.parameters, given, strict=True):
            frame.assign(name, value)
        body(frame)
        end_of_function(frame)
    return p.b.emit(Op.FUNCTION, symbol=symbol), passed, made.invalidated
