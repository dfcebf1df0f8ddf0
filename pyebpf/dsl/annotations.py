"""Annotations of functions: what the text means that `from __future__ import annotations` has left."""

from __future__ import annotations

from typing import Any

from pyebpf.types import IntType

__all__ = ["annotation_value", "integer_type"]


def annotation_value(function: Any, text: str) -> Any:
    """The meaning of an annotation that `from __future__ import annotations` has left as text; None if it has none."""
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
        return None


def integer_type(annotation: Any) -> IntType | None:
    """The integer type that an annotation's value stands for; None for what says nothing here (`int`, a Struct)."""
    if annotation is bool:
        from pyebpf.types import BOOL

        return BOOL
    return annotation if isinstance(annotation, IntType) else None
