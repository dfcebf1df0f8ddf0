"""`ptr[T]`: an address whose target has a type. To Python it is an integer."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

from pyebpf.errors import InvalidValue
from pyebpf.types.arrays import CharFactory
from pyebpf.types.base import Type
from pyebpf.types.integers import U64

if TYPE_CHECKING:
    from collections.abc import Iterator

    from construct import Construct


class PointerType(Type):
    """An address of 8 bytes; `target` is a Type, `char` for a C string, or None for `void`."""

    def __init__(self, target: Type | CharFactory | None) -> None:
        self.target = target
        self.size = self.align = 8
        self.format = "Q"
        name = getattr(target, "name", "void")
        self.name = f"ptr[{name}]"
        self.c_name = f"{getattr(target, 'c_name', name)} *"

    def assemble(self, plain: Iterator[Any]) -> int:
        return int(next(plain))

    def scatter(self, value: object) -> list[object]:
        return U64.scatter(value)

    @cached_property
    def construct(self) -> Construct:
        return U64.construct

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PointerType) and self.name == other.name and self.target == other.target

    def __hash__(self) -> int:
        return hash(self.name)


class PointerFactory:
    """`ptr`: written `ptr[T]` with an integer type, a Struct class, `char`, or None for `void`."""

    def __getitem__(self, target: object) -> PointerType:
        from pyebpf.types.structs import type_of

        if target is None or isinstance(target, CharFactory):
            return PointerType(target)
        found = type_of(target)
        if found is None:
            msg = f"ptr[{target!r}] is not a pointer type: give an integer type, a Struct, char or None"
            raise InvalidValue(msg)
        return PointerType(found)
