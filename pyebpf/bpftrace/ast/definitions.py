"""C's definitions in a script."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias

from pyebpf.bpftrace.ast.base import Node, Type
from pyebpf.dataclass import dataclass

if TYPE_CHECKING:
    from pyebpf.bpftrace.ast.base import Expression

AggregateKeyword: TypeAlias = 'Literal["struct", "union"]'


@dataclass(frozen=True, slots=True, guarded=False)
class Include(Node):
    """`#include <path>`, or with quotes if not `angled`."""

    path: str
    angled: bool = True


@dataclass(frozen=True, slots=True, guarded=False)
class Define(Node):
    """`#define name text`. `parameters` is None for a name without parentheses."""

    name: str
    text: str
    parameters: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True, guarded=False)
class Directive(Node):
    """Another line of C's preprocessor, such as `#ifdef`: its word, and the rest of the line."""

    word: str
    text: str


@dataclass(frozen=True, slots=True, guarded=False)
class Attribute(Node):
    """`__attribute__((name))`, the name without the underscores that it may have around it.

    Only `aligned` keeps its operand. `_Alignas(int)` is an `aligned` whose operand is a type.
    """

    name: str
    operand: Expression | Type | None = None


@dataclass(frozen=True, slots=True, guarded=False)
class Member(Node):
    """A member of a struct or union. One that has no name is a type that is defined there, or unused bits."""

    name: str
    type: Type
    bits: Expression | None = None
    attributes: tuple[Attribute, ...] = ()


@dataclass(frozen=True, slots=True, guarded=False)
class Struct(Type):
    """A struct or a union with its members. One that is the type of a member may have no name."""

    keyword: AggregateKeyword
    name: str
    members: tuple[Member, ...]
    attributes: tuple[Attribute, ...] = ()


@dataclass(frozen=True, slots=True, guarded=False)
class Enumerator(Node):
    """A constant of an enum, with the value that it is given."""

    name: str
    value: Expression | None = None


@dataclass(frozen=True, slots=True, guarded=False)
class Enum(Type):
    """An enum with its constants. It may have no name."""

    name: str
    enumerators: tuple[Enumerator, ...]
    attributes: tuple[Attribute, ...] = ()


def is_packed(node: Struct | Enum | Member) -> bool:
    """Whether there is `packed` among its attributes."""
    return any(each.name == "packed" for each in node.attributes)


Definition: TypeAlias = "Include | Define | Directive | Struct | Enum"
