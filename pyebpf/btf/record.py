"""`Record`: frozen values with slots, declared as dataclasses are.

`dataclass` writes and compiles six functions a class, a third of a millisecond; for the two dozen classes of BTF nodes
and kernel facts that would be a tenth of a tool's start. Here the functions are written once.
"""

from __future__ import annotations

from typing import Any, dataclass_transform


@dataclass_transform(frozen_default=True)
class RecordType(type):
    """Turns a class's annotations into slots, in order after its base's; values given to them are defaults."""

    record_fields: tuple[str, ...]
    record_defaults: dict[str, object]

    def __new__(mcs, name: str, bases: tuple[type, ...], namespace: dict[str, Any]) -> RecordType:
        """Make the class."""
        own = [
            field
            for field, annotation in namespace.get("__annotations__", {}).items()
            if "ClassVar" not in str(annotation)
        ]
        base = bases[0] if bases else None
        fields, defaults = (base.record_fields, base.record_defaults) if isinstance(base, RecordType) else ((), {})
        fields = (*fields, *own)
        defaults = {**defaults, **{field: namespace.pop(field) for field in own if field in namespace}}
        slots = {"__slots__": tuple(own), "__match_args__": fields}
        made = super().__new__(mcs, name, bases, {**namespace, **slots})
        made.record_fields, made.record_defaults = fields, defaults
        return made


class Record(metaclass=RecordType):
    """A frozen value: equal to another of its very class with equal fields, hashable, copied and pickled as such."""

    def __init__(self, *values: object, **named: object) -> None:
        """Take the fields in order or by name."""
        cls = type(self)
        fields = cls.record_fields
        if len(values) > len(fields):
            raise TypeError(f"{cls.__name__} has {len(fields)} fields, not {len(values)}")
        put = object.__setattr__
        for field, value in zip(fields, values, strict=False):
            put(self, field, value)
        for field in fields[len(values) :]:
            if field in named:
                put(self, field, named.pop(field))
            elif field in cls.record_defaults:
                put(self, field, cls.record_defaults[field])
            else:
                raise TypeError(f"{cls.__name__} lacks {field!r}")
        if named:
            raise TypeError(f"{cls.__name__} has no field {next(iter(named))!r}, or has it twice")

    def _values(self) -> tuple[object, ...]:
        return tuple([getattr(self, field) for field in type(self).record_fields])

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{type(self).__name__} is frozen: {name!r} can't be set")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"{type(self).__name__} is frozen: {name!r} can't be deleted")

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Record) or type(other) is not type(self):
            return NotImplemented
        return self._values() == other._values()

    def __hash__(self) -> int:
        return hash((type(self), self._values()))

    def __repr__(self) -> str:
        shown = (
            f"{field}={value!r}"
            for field, value in zip(type(self).record_fields, self._values(), strict=True)
            if field not in type(self).record_defaults or value != type(self).record_defaults[field]
        )
        return f"{type(self).__name__}({', '.join(shown)})"

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), self._values()
