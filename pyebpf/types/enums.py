"""Enumerations as BTF has them: integers whose values have names."""

from __future__ import annotations

from enum import IntEnum
from functools import cached_property
from typing import TYPE_CHECKING, Any

from pyebpf.types.base import Type

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from construct import Construct

    from pyebpf.btf import BtfBuilder
    from pyebpf.types.integers import IntType


class EnumType(Type):
    """`enum NAME`, stored as `integer`. In Python a member of `members`, an IntEnum; a plain int where none has it."""

    def __init__(self, name: str, integer: IntType, members: Mapping[str, int]) -> None:
        self.name = name
        self.c_name = f"enum {name}"
        self.integer = integer
        self.size, self.align, self.format = integer.size, integer.align, integer.format
        self.members: Any = IntEnum(name, dict(members))  # type: ignore[misc]  # its members are known at run time
        self._by_value = {int(member): member for member in self.members}

    def assemble(self, plain: Iterator[Any]) -> object:
        value: int = next(plain)
        return self._by_value.get(value, value)

    def scatter(self, value: object) -> list[object]:
        return self.integer.scatter(value)

    def describe_btf(self, builder: BtfBuilder) -> int:
        add = builder.add_enum64 if self.size == 8 else builder.add_enum
        return add(self.name, self.size, self._values().items(), signed=self.integer.signed)

    def _values(self) -> dict[str, int]:
        return {name: int(member) for name, member in self.members.__members__.items()}

    @cached_property
    def construct(self) -> Construct:
        import construct

        return construct.Enum(self.integer.construct, **self._values())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, EnumType) and (self.name, self.integer, self._by_value) == (
            other.name,
            other.integer,
            other._by_value,
        )

    def __hash__(self) -> int:
        return hash((self.name, self.size))
