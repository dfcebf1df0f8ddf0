"""Names: sets of them, and those of objects; one of the author's may answer anything when asked for its name."""

from __future__ import annotations

import operator
from functools import partial
from typing import Any


def words(text: str) -> frozenset[str]:
    """The words of a text, as a set."""
    return frozenset(text.split())


def text_of(value: object, attribute: str = "__name__") -> str:
    """An attribute such as `__name__`, `__qualname__`, `__module__`; empty if it is no string, or cannot be read."""
    try:
        found = getattr(value, attribute, "")
    except Exception:  # noqa: BLE001 - the author's own code may raise anything
        return ""
    return found if type(found) is str else ""


def called_method(function: object) -> str:
    """The method that an `operator.methodcaller` calls; empty for all others."""
    if type(function) is not operator.methodcaller:
        return ""
    reduced: Any = function.__reduce__()
    make, arguments = reduced[:2]
    return str(make.args[0] if isinstance(make, partial) else arguments[0])  # a partial has its keywords
