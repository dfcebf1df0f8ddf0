"""`PythonSubprogram`: a Python function that programs call in the kernel."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyebpf.builder.subprograms import MAX_PARAMETERS, Signature, Subprogram
from pyebpf.dsl.annotations import declared_annotations, integer_type
from pyebpf.dsl.parameters import parameters_of
from pyebpf.dsl.scope import Scope
from pyebpf.dsl.source import find_source

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from types import FunctionType

    from pyebpf.builder.program import ProgramBuilder
    from pyebpf.builder.subprograms import Refusing
    from pyebpf.builder.values.integers import Int
    from pyebpf.errors import Location
    from pyebpf.types import IntType


class PythonSubprogram(Subprogram):
    """A function, with its free names as they were bound when its decorator ran."""

    def __init__(self, function: FunctionType, *, replaceable: bool = False) -> None:
        super().__init__(function.__name__, replaceable=replaceable)
        self.function = function
        self.scope = Scope(function)
        self.__doc__ = function.__doc__
        self.__wrapped__ = function

    @property
    def where(self) -> Location:
        return find_source(self.function).location

    def signature(self, p: Refusing) -> Signature:
        function = self.function
        annotations = declared_annotations(function)
        types: dict[str, IntType] = {}
        parameters = parameters_of(function)
        for name in parameters.names:
            if name in (parameters.rest, parameters.keywords):
                p.fail(f"{function.__name__}: a subprogram takes no *{name}", self.where)
            type_ = integer_type(annotations.get(name))
            if type_ is None:
                given = name in annotations
                has = (
                    f"{name} is annotated with what is not an integer type of a width: give it"
                    if given
                    else f"annotate {name} with"
                )
                p.fail(f"{function.__name__}: {has} an integer type, such as `{name}: u64`", self.where)
            types[name] = type_
        most = MAX_PARAMETERS + self.replaceable
        if len(types) > most:
            p.fail(f"{function.__name__} has {len(types)} parameters: a subprogram takes at most {most}", self.where)
        returns = annotations.get("return")
        result = integer_type(returns)
        if result is None and not ("return" in annotations and returns is None):
            p.fail(f"{function.__name__}: annotate what it returns, `-> u64`, or `-> None`", self.where)
        return Signature(types, result)

    def bound(
        self, p: ProgramBuilder, arguments: Sequence[object], keywords: Mapping[str, object]
    ) -> Mapping[str, object]:
        try:
            return parameters_of(self.function).bind_all(arguments, keywords)
        except TypeError as error:
            p.fail(f"{self.__name__}(): {error}")

    def build(self, p: ProgramBuilder, signature: Signature, arguments: Mapping[str, Int]) -> None:
        from pyebpf.dsl.translate import Translator, body, end_of_function

        source = find_source(self.function)
        frame = Translator(p, source, self.scope, ("subprogram", self.function.__qualname__, source.node.lineno))
        frame.is_subprogram, frame.result = True, signature.result
        # As for locals: an annotation holds for every assignment to its name.
        frame.annotations.update(signature.parameters)
        for name, value in arguments.items():
            frame.assign(name, value)
        body(frame)
        end_of_function(frame)
