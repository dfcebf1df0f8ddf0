"""Enough of JSON Schema to hold what tools print to what `pyebpf schema` says: it refuses keywords that it lacks."""

from __future__ import annotations

from datetime import datetime
from typing import Any

_TYPES: dict[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "null": (type(None),),
}
_KNOWN = {"$schema", "title", "description", "type", "properties", "required", "additionalProperties", "items"}
_KNOWN |= {"oneOf", "format", "minimum"}


def faults(schema: dict[str, Any], value: Any, where: str = "$") -> list[str]:
    """Return the ways in which a value is not as its schema says, none if it is."""
    assert schema.keys() <= _KNOWN, schema.keys() - _KNOWN
    found: list[str] = []
    if "oneOf" in schema:
        each = [faults(one, value, where) for one in schema["oneOf"]]
        if sum(not one for one in each) != 1:
            found.append(f"{where} {value!r} is not one of oneOf: {each}")
    types = schema.get("type", [])
    if types and not any(_is(value, name) for name in ([types] if isinstance(types, str) else types)):
        return [f"{where}: {value!r} is not of type {types}"]
    if schema.get("format") == "date-time":
        datetime.fromisoformat(value)
    if "minimum" in schema and value < schema["minimum"]:
        found.append(f"{where}: {value!r} is below {schema['minimum']}")
    if isinstance(value, dict):
        found += [f"{where}: no {name}" for name in schema.get("required", []) if name not in value]
        for name, item in value.items():
            inner = schema.get("properties", {}).get(name, schema.get("additionalProperties", {}))
            found += [f"{where}: unknown {name}"] if inner is False else faults(inner, item, f"{where}.{name}")
    if isinstance(value, list) and "items" in schema:
        found += [each for i, item in enumerate(value) for each in faults(schema["items"], item, f"{where}[{i}]")]
    return found


def _is(value: Any, name: str) -> bool:
    return isinstance(value, _TYPES[name]) and (name == "boolean" or not isinstance(value, bool))
