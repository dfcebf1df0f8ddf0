"""`PythonBody`: a Python function as the body of a probe."""

from __future__ import annotations

from types import FunctionType
from typing import TYPE_CHECKING, Any

from pyebpf.builder.context import Context
from pyebpf.builder.values.strings import StringSource
from pyebpf.dsl.annotations import UNKNOWN, declared_annotations
from pyebpf.dsl.depth import room
from pyebpf.dsl.scope import Scope
from pyebpf.dsl.source import find_source
from pyebpf.errors import InvalidValue
from pyebpf.module.body import Body
from pyebpf.uapi.bpf import ProgramType

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyebpf.builder.program import Callback, ProgramBuilder
    from pyebpf.dsl.translate import Translator
    from pyebpf.errors import Location

#: Of a code object, as inspect has them; that takes a millisecond to import.
CO_COROUTINE, CO_ASYNC_GENERATOR = 0x80, 0x200


def plain_function(value: object, decorator: str) -> FunctionType:
    """The function that a decorator was put on. Raises InvalidValue for anything else; None are its parentheses."""
    if value is None:
        raise InvalidValue(f"@bpf.{decorator}() is used with parentheses: write @bpf.{decorator}, without them")
    if isinstance(value, FunctionType):
        if value.__code__.co_flags & (CO_COROUTINE | CO_ASYNC_GENERATOR):
            raise InvalidValue(f"@bpf.{decorator} decorates a plain function: a probe can't wait, leave out `async`")
        return value
    raise InvalidValue(f"@bpf.{decorator} decorates a function, not {value!r}")


class PythonBody(Body):
    """A function, with its free names as they were bound when its decorator ran."""

    def __init__(self, function: FunctionType) -> None:
        self.function = self.wrapped = function
        self.scope = Scope(function)
        code = function.__code__
        parameters = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
        self.name = function.__name__.replace("<lambda>", "lambda")
        self.parameters = [name for name in parameters if name != "ctx"]

    @property
    def where(self) -> Location:
        return find_source(self.function).location

    def where_requested(self, number: int, count: int) -> Location:
        source = find_source(self.function)
        decorators = getattr(source.node, "decorator_list", ())
        # The nearest one made the first request. One that was called without @ has no line to show.
        return source.at(decorators[-1 - number]) if len(decorators) == count else source.location

    def map_names(self) -> Iterator[tuple[object, str]]:
        # Maps may all have names.
        from pyebpf.dsl.identifiers import identifiers

        return identifiers(self.function, self.scope)

    def build(self, p: ProgramBuilder) -> None:
        # Forty modules that programs of another front end (pyebpf.script) do without.
        from pyebpf.dsl.translate import Translator, body, end_of_function

        p.callback_builder = _build_callback
        try:
            with room():
                frame = Translator(p, find_source(self.function), self.scope, "probe")
                if p.program_type is ProgramType.EXT:
                    attach: Any = p.attach  # a Freplace
                    frame.is_subprogram, frame.result = True, attach.result
                self._bind_parameters(frame)
                body(frame)
                end_of_function(frame)
        except RecursionError:
            p.fail("the inlined code is nested too deep: move a part of it into a @bpf.subprogram")

    def _bind_parameters(self, f: Translator) -> None:
        """Bind each parameter to what the attach point calls by its name."""
        arguments = f.source.node.args
        for extra in (arguments.vararg, arguments.kwarg):
            if extra is not None:
                f.fail(f"a probe's parameters are named one by one: leave out *{extra.arg}", extra)
        for number, argument in enumerate((*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)):
            f.b.where = f.at(argument)
            if arguments.defaults or any(arguments.kw_defaults):
                f.fail("a probe's parameters have no defaults: the kernel gives every argument")
            if argument.arg == "ctx":
                if number:
                    f.fail("`ctx`, the context, is the first parameter; a kernel argument of that name is `ctx_`")
                f.bind_constant("ctx", Context())
                continue
            name = "ctx" if argument.arg == "ctx_" else argument.arg
            value = f.p.parameter(name, self.annotation(argument.arg), argument.arg)
            if isinstance(value, StringSource) and value.size is None and not f.times.is_run_time(f.key, argument.arg):
                # Read where it is used, which tells how much of it.
                f.bind_constant(argument.arg, value)
            else:
                f.assign(argument.arg, value)

    def annotation(self, parameter: str) -> object:
        found = declared_annotations(self.function).get(parameter)
        return None if found is UNKNOWN else found


def _build_callback(p: ProgramBuilder, *given: Any, **named: Any) -> Callback:
    # Few probes have one.
    from pyebpf.dsl.callbacks import build_callback

    return build_callback(p, *given, **named)
