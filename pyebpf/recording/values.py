"""Values of records as JSON has them, and back: numbers, text, sequences and mappings.

An array is a tuple. What JSON has no word for is an object with one member: `{"list": […]}`,
`{"map": [[key, value], …]}`, `{"float": "nan"}`. Any other object is its text, which is what every output makes of it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from pyebpf.output.escape import text_of

#: Types that JSON has as they are.
PLAIN = frozenset({int, str, bool, type(None)})
_MAX_DEPTH = 16


def encoded(value: object) -> object:
    """A value for JSON."""
    if type(value) in PLAIN:
        return value
    if isinstance(value, str):
        return str(value)
    if isinstance(value, bytes):
        return text_of(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else {"float": str(float(value))}
    if isinstance(value, int):
        return int(value)
    if isinstance(value, Mapping):
        return {"map": [[encoded(key), encoded(item)] for key, item in value.items()]}
    if isinstance(value, tuple):
        return [encoded(item) for item in value]
    if isinstance(value, list | set | frozenset):
        return {"list": [encoded(item) for item in value]}
    return str(value)


def decoded(value: Any, depth: int = 0) -> Any:
    """A value of JSON as it was. Raises ValueError for an object that `encoded` does not make."""
    if type(value) in PLAIN or type(value) is float:
        return value
    if depth > _MAX_DEPTH:
        raise ValueError("a value in a value in a value")
    if isinstance(value, list):
        return tuple(decoded(item, depth + 1) for item in value)
    [(kind, content)] = value.items()
    if kind == "float" and content in {"nan", "inf", "-inf"}:
        return float(content)
    if kind == "list" and isinstance(content, list):
        return [decoded(item, depth + 1) for item in content]
    if kind == "map" and isinstance(content, list):
        pairs = [(decoded(key, depth + 1), decoded(item, depth + 1)) for key, item in content]
        return {key if isinstance(key, str | int | float | None) else str(key): item for key, item in pairs}
    raise ValueError(kind)
