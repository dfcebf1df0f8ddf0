"""Values read from JSON as annotations declare them: a class's fields are the schema of what it is made of.

Whoever hands facts over may have written them by hand. What has another type is refused here, once, with its place.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from pyebpf.errors import MalformedData

if TYPE_CHECKING:
    from collections.abc import Mapping

_PLAIN: dict[str, tuple[type, str]] = {
    "str": (str, "a text"),
    "int": (int, "an integer"),
    "bool": (bool, "true or false"),
    "None": (type(None), "null"),
}
_JSON = {dict: "an object", list: "an array", str: "the text", float: "the number", int: "the number"}
_U64, _S64 = 1 << 64, 1 << 63
#: Numbers in records are sizes, offsets in bytes or bits, and ids.
_MAX_INTEGER = 1 << 32


def read(annotation: str, value: object, place: str, classes: Mapping[str, object]) -> Any:
    """The value of an annotation, of what JSON gave. MalformedData names the `place` of what does not fit.

    `classes` are those that annotations name: classes with annotated fields, and texts, which are other annotations.
    """
    kinds = annotation.split(" | ")
    for kind in kinds:
        if isinstance(alias := classes.get(kind), str):
            return read(alias, value, place, classes)
        if kind in _PLAIN and type(value) is _PLAIN[kind][0]:
            if type(value) is int and not -_S64 <= value < _U64:
                raise MalformedData(f"{place} is the number {value}, which 64 bits do not hold")
            return value
        if kind.startswith("Literal[") and value in _literals(kind):
            return value
        if kind.startswith("tuple[") and type(value) is list:
            return _tuple(kind[len("tuple[") : -1].split(", "), value, place, classes)
        if kind in classes and type(value) is dict:
            return _record(classes[kind], value, place, classes)
    raise MalformedData(f"{place} is {_shown(value)}, not {' or '.join(_words(kind) for kind in kinds)}")


def _tuple(kinds: list[str], values: list[object], place: str, classes: Mapping[str, object]) -> tuple[object, ...]:
    if kinds[-1] == "...":
        kinds = kinds[:1] * len(values)
    if len(values) != len(kinds):
        raise MalformedData(f"{place} has {len(values)} elements, not {len(kinds)}")
    return tuple(
        read(kind, each, f"{place}[{number}]", classes)
        for number, (kind, each) in enumerate(zip(kinds, values, strict=True))
    )


def _record(cls: Any, plain: dict[str, object], place: str, classes: Mapping[str, object]) -> object:
    annotations: dict[str, str] = {}
    for each in reversed(cls.__mro__):
        annotations |= vars(each).get("__annotations__", {})
    unknown = [name for name in plain if name not in cls.__match_args__]
    if unknown:
        raise MalformedData(f"{place} has no field {unknown[0]!r}")
    fields = {name: read(annotations[name], value, f"{place}.{name}", classes) for name, value in plain.items()}
    for name, value in fields.items():
        if type(value) is int and not 0 <= value < _MAX_INTEGER:
            raise MalformedData(f"{place}.{name} is the number {value}: sizes, offsets and ids have 32 bits")
    try:
        return cls(**fields)
    except TypeError as error:
        raise MalformedData(f"{place}: {error}") from None


def _literals(kind: str) -> list[str]:
    return re.findall("""["']([^"']*)["']""", kind)


def _words(kind: str) -> str:
    if kind in _PLAIN:
        return _PLAIN[kind][1]
    if kind.startswith("Literal["):
        return " or ".join(map(repr, _literals(kind)))
    return "an array" if kind.startswith("tuple[") else "an object"


def _shown(value: object) -> str:
    if value is None or isinstance(value, bool):
        return str(value).lower().replace("none", "null")
    text = repr(value)
    return f"{_JSON[type(value)]} {text if len(text) <= 40 else text[:37] + '...'}"
