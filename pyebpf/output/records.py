"""The base of records that are no Struct: their fields as a dictionary."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyebpf.dataclass import fields


class Record:
    """The base of a tool's records that are dataclasses; a Struct has the same method by itself."""

    __slots__ = ()

    def as_dict(self) -> dict[str, Any]:
        """The fields by name: records in them as dictionaries too, sequences as lists, addresses and the like as text.

        Bytes stay, as in a Struct's: `json.dumps(record.as_dict(), default=bytes.hex)`.
        """
        return {item.name: as_plain(getattr(self, item.name)) for item in fields(self)}


def as_plain(value: object) -> Any:
    """A value of a field as `as_dict` gives it."""
    if value is None or isinstance(value, str | bytes | int | float):
        return value
    if isinstance(value, Mapping):
        return {str(key): as_plain(each) for key, each in value.items()}
    if isinstance(value, tuple | list | set | frozenset):
        return [as_plain(each) for each in value]
    method = getattr(type(value), "as_dict", None)
    return str(value) if method is None else method(value)
