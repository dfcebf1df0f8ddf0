"""Annotations of functions: those that a function itself declares.

`functools.wraps` gives a wrapper the annotations of what it wraps, which a call of the wrapper does not follow.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from pyebpf.errors import CompileError
from pyebpf.types import IntType

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FunctionType

#: The value of an annotation that has none here, such as a name that only type checkers have.
UNKNOWN: object = object()
_EVALUATED_LATER = 0x1000000  # __future__.annotations.compiler_flag


def declared_annotations(function: FunctionType) -> dict[str, object]:
    """Annotations of a function's own parameters and of its result, by name and "return".

    Those of a wrapper are what its source says.
    """
    if "__wrapped__" in function.__dict__:
        return dict(_in_source(function))
    return {
        name: annotation_value(function, each) if isinstance(each, str) else each
        for name, each in function.__annotations__.items()
    }


def _in_source(function: FunctionType) -> Iterator[tuple[str, object]]:
    from pyebpf.dsl.source import find_source

    try:
        source = find_source(function)
    except CompileError:  # then Python itself runs it, or nobody does
        return
    node, arguments = source.node, source.node.args
    declared = (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)
    annotated = [(each.arg, each.annotation) for each in declared]
    if isinstance(node, ast.FunctionDef):
        annotated.append(("return", node.returns))
    for name, annotation in annotated:
        if annotation is None:
            continue
        value = annotation_value(function, ast.unparse(annotation))
        if value is UNKNOWN and not function.__code__.co_flags & _EVALUATED_LATER:
            # Python has evaluated it, and functools.wraps has replaced the value.
            raise CompileError(
                f"{function.__name__} is a wrapper, whose annotations functools.wraps replaces, and "
                f"{ast.unparse(annotation)} is a local name around it: annotate with a name of the module",
                source.at(annotation),
            )
        yield name, value


def annotation_value(function: FunctionType, text: str) -> object:
    """The meaning of an annotation that is left as text, by `from __future__ import annotations`; `UNKNOWN` if none."""
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    names = dict(function.__globals__)
    for name, cell in cells:
        try:
            names[name] = cell.cell_contents
        except ValueError:
            continue
    try:
        value = eval(text, names)  # noqa: S307 - the program's own source
        # Quoted by hand, besides.
        return eval(value, names) if isinstance(value, str) else value  # noqa: S307 - as above
    except Exception:  # noqa: BLE001 - names under TYPE_CHECKING, whatever a checker alone understands
        return UNKNOWN


def integer_type(annotation: object) -> IntType | None:
    """The integer type that an annotation's value stands for; None for what says nothing here (`int`, a Struct)."""
    if annotation is bool:
        from pyebpf.types import BOOL

        return BOOL
    return annotation if isinstance(annotation, IntType) else None
