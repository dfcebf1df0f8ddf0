"""construct objects of the caller's own as types of map keys and values."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

from pyebpf.errors import InvalidValue
from pyebpf.types.base import Type

if TYPE_CHECKING:
    from collections.abc import Iterator

    from construct import Construct


class ConstructType(Type):
    """Bytes that a construct object parses and builds in user space; to a program they are bytes without fields."""

    align = 1

    def __init__(self, declared: Any, size: int) -> None:
        self._declared = declared
        self.name = f"{type(declared).__name__}({size} bytes)"
        self.c_name = f"__u8 [{size}]"
        self.size = size
        self.format = f"{size}s"

    def assemble(self, plain: Iterator[Any]) -> object:
        value = self._declared.parse(next(plain))
        # A key must be hashable, which construct's containers are not.
        return _plain(value)

    def scatter(self, value: object) -> list[object]:
        if isinstance(value, bytes) and len(value) == self.size:
            return [value]  # as a program, or another tool, made it
        import construct

        try:
            built = self._declared.build(dict(value) if isinstance(value, Frozen) else value)
        except (construct.ConstructError, TypeError, ValueError, LookupError, AttributeError) as error:
            raise InvalidValue(f"{value!r} does not fit {self.name}: {error}") from error
        return [built]

    @cached_property
    def construct(self) -> Construct:
        return self._declared

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ConstructType) and self._declared is other._declared

    def __hash__(self) -> int:
        return hash((ConstructType, id(self._declared)))


class Frozen(dict[str, Any]):
    """A parsed Struct: a dictionary whose items are attributes, too, and which can be a key."""

    def __hash__(self) -> int:  # type: ignore[override]  # nothing changes it after it is made
        return hash(tuple(self.items()))

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None


def _plain(value: object) -> object:
    """Containers of construct as plain values that can be hashed, without its bookkeeping."""
    if isinstance(value, dict):
        return Frozen({name: _plain(each) for name, each in value.items() if name != "_io"})
    if isinstance(value, list):
        return tuple(_plain(each) for each in value)
    return value


def construct_type(declared: Any) -> ConstructType | None:
    """The type of a construct object, None for anything else. InvalidValue: one whose size is not fixed."""
    if not any(base.__module__ == "construct.core" and base.__name__ == "Construct" for base in type(declared).__mro__):
        return None
    import construct

    try:
        size = declared.sizeof()
    except construct.SizeofError as error:
        raise InvalidValue(f"{declared!r} has no fixed size, which keys and values of maps need: {error}") from error
    if not size:
        raise InvalidValue(f"{declared!r} has no bytes")
    return ConstructType(declared, size)
