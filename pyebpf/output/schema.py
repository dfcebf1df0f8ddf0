"""The JSON Schema (draft 2020-12) of what a tool prints with --json: one object a line.

Types come from annotations: of the record's attributes, or `Column.type`. An integer of the kernel's is "integer", any
object that JSON does not know is its text.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from pyebpf.output.columns import TIME

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyebpf.output.columns import Column

DIALECT = "https://json-schema.org/draft/2020-12/schema"
Schema = dict[str, Any]

_TIME: Schema = {"type": "string", "format": "date-time", "description": "ISO 8601, with nanoseconds and zone"}
_COUNT: Schema = {"type": "integer", "minimum": 0}
_TEXTS: Schema = {"type": "array", "items": {"type": "string"}}
_NUMBERS = {"float": "number", "bool": "boolean", "int": "integer"}
_NUMBERS |= {f"{sign}{bits}": "integer" for sign in ("u", "s", "be") for bits in (8, 16, 32, 64)}
_LISTS = ("tuple[", "list[", "Sequence[")


def schema_of_lines(title: str, description: str, lines: Sequence[Schema]) -> Schema:
    """The schema of a tool: each line is one of `lines`, or says what was dropped."""
    return {"$schema": DIALECT, "title": title, "description": description, "oneOf": [*lines, drops_schema()]}


def record_schema(columns: Sequence[Column], record: type | None) -> Schema:
    """The schema of a record that is printed by columns."""
    fields: Schema = {TIME: _TIME}
    for column in columns:
        name = column.field_name()
        if name not in {"", TIME}:
            fields[name] = {**_of_annotation(_annotation(column, record)), "description": f"column {column.name}"}
    return _object("record", fields)


def histogram_schema() -> Schema:
    """The schema of a histogram: beside these fields an object has those of its key."""
    bound = {"type": ["integer", "null"]}
    bucket = _object("bucket", {"low": bound, "high": bound, "count": _COUNT})
    fields = {TIME: _TIME, "unit": {"type": "string"}, "buckets": {"type": "array", "items": bucket}}
    key = {
        "type": ["string", "integer", "number", "boolean", "null", "array"],
        "description": "a part of the key, by name",
    }
    found = {**_object("histogram", fields), "additionalProperties": key}
    found["properties"]["sum"] = {"type": "integer", "description": "sum of the values, in the unit"}
    return found


def stack_schema() -> Schema:
    """The schema of a stack with its count, frames from the innermost on."""
    one: Schema = {"comm": {"type": "string"}, "pid": {"type": "integer"}, "user": _TEXTS, "kernel": _TEXTS}
    one["cut"] = {"type": "boolean"}
    part = _object("part", {"name": {"type": "string"}, **one})
    part["required"] = ["name", "comm"]
    found = _object("stack", {TIME: _TIME, **one, "parts": {"type": "array", "items": part}, "count": _COUNT})
    found["required"] = [TIME, "comm", "count"]
    return found


def drops_schema() -> Schema:
    """The schema of the object that tells what was dropped so far."""
    reasons = {"type": "object", "additionalProperties": _COUNT, "description": "events dropped so far, by reason"}
    return _object("losses", {TIME: _TIME, "dropped": reasons})


def _object(title: str, fields: Mapping[str, Schema]) -> Schema:
    return {
        "title": title,
        "type": "object",
        "properties": dict(fields),
        "required": list(fields),
        "additionalProperties": False,
    }


def _annotation(column: Column, record: type | None) -> str:
    """The type of a column's value, as an annotation writes it; empty if nobody says."""
    if column.type:
        return column.type
    source = column.value or column.key or column.name.lower()
    if not isinstance(source, str):
        return "str"
    annotation, owner = "", record
    for name in source.split("."):
        if owner is None:
            return ""
        annotation, owner = _attribute(owner, name)
    return annotation


def _attribute(owner: type, name: str) -> tuple[str, type | None]:
    """The annotation of an attribute or property, and its class if that is known where it was written."""
    for each in owner.__mro__:
        found = getattr(each, "__annotations__", {}).get(name)
        if found is None:
            getter = getattr(each.__dict__.get(name), "fget", None)
            found = None if getter is None else getter.__annotations__.get("return")
        if found is not None:
            text = found if isinstance(found, str) else getattr(found, "__name__", str(found))
            known = getattr(sys.modules.get(each.__module__), text, None) if isinstance(found, str) else found
            return text, known if isinstance(known, type) else None
    return "", None


def _of_annotation(annotation: str) -> Schema:
    """The schema of a value whose type an annotation gives."""
    if not annotation:
        return {}
    several = [part.strip() for part in annotation.split(" | ")]
    parts = [part for part in several if part != "None"]
    if parts[0].startswith(_LISTS):
        element = parts[0].partition("[")[2].removesuffix("]").removesuffix(", ...")
        found: Schema = {"type": "array", "items": _of_annotation(element)}
    else:
        found = {"type": _NUMBERS.get(parts[0], "string") if len(parts) == 1 else "string"}
    if len(parts) < len(several):
        found["type"] = [found["type"], "null"]
    return found
