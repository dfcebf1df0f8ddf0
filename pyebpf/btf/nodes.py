"""BTF's kinds, and one frozen value per kind: what a type id stands for (Linux `include/uapi/linux/btf.h`).

Nodes are made on demand by `Btf.type_by_id`; they refer to other types by id, so making one never touches another.
`id` is the node's own, in the numbering of its BTF (split BTF counts on from its base); 0 is `void`.
"""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

from pyebpf.btf.record import Record

# Chains of modifiers, typedefs, pointers and arrays, and nests of anonymous structs: a kernel's longest have fewer
# than ten steps, and whatever is longer than this turns in a circle.
MAX_DEPTH = 64


class Kind(IntEnum):
    """BTF_KIND_*: bits 24 to 28 of a type's info word."""

    VOID = 0
    INT = 1
    PTR = 2
    ARRAY = 3
    STRUCT = 4
    UNION = 5
    ENUM = 6
    FWD = 7
    TYPEDEF = 8
    VOLATILE = 9
    CONST = 10
    RESTRICT = 11
    FUNC = 12
    FUNC_PROTO = 13
    VAR = 14
    DATASEC = 15
    FLOAT = 16
    DECL_TAG = 17
    TYPE_TAG = 18
    ENUM64 = 19


class Member(NamedTuple):
    """One member of a struct or union; `bit_size` is 0 unless it is a bit-field, `name` empty if it is anonymous."""

    name: str
    type: int
    bit_offset: int
    bit_size: int


class Enumerator(NamedTuple):
    """One constant of an enumeration."""

    name: str
    value: int


class Param(NamedTuple):
    """One parameter of a prototype; the last of a variadic one has no name and type 0."""

    name: str
    type: int


class SectionVariable(NamedTuple):
    """One variable of a section: its VAR's id, and where it lies in bytes."""

    type: int
    offset: int
    size: int


class Node(Record):
    """Base of every type: its id and its name, which is empty for an anonymous one."""

    id: int
    name: str


class Void(Node):
    """Type 0."""


class Int(Node):
    """BTF_KIND_INT: `size` in bytes; `bits` used of them from bit `bit_offset`."""

    size: int
    bits: int
    bit_offset: int
    signed: bool
    char: bool
    bool: bool


class Float(Node):
    """BTF_KIND_FLOAT, `size` in bytes."""

    size: int


class Reference(Node):
    """A type that stands for, or points to, the type with the id `type`."""

    type: int


class Ptr(Reference):
    """BTF_KIND_PTR."""


class Typedef(Reference):
    """BTF_KIND_TYPEDEF."""


class Volatile(Reference):
    """BTF_KIND_VOLATILE."""


class Const(Reference):
    """BTF_KIND_CONST."""


class Restrict(Reference):
    """BTF_KIND_RESTRICT."""


class TypeTag(Reference):
    """BTF_KIND_TYPE_TAG: `name` is the tag, such as "user" or "percpu"."""


class Array(Node):
    """BTF_KIND_ARRAY of `length` elements; 0 for a flexible one."""

    type: int
    index_type: int
    length: int


class Composite(Node):
    """A struct or union, `size` in bytes."""

    size: int
    members: tuple[Member, ...]


class Struct(Composite):
    """BTF_KIND_STRUCT."""


class Union(Composite):
    """BTF_KIND_UNION."""


class Enumeration(Node):
    """An enum, `size` in bytes."""

    size: int
    signed: bool
    enumerators: tuple[Enumerator, ...]


class Enum(Enumeration):
    """BTF_KIND_ENUM: constants of 32 bits."""


class Enum64(Enumeration):
    """BTF_KIND_ENUM64: constants of 64 bits (since Linux 6.0)."""


class Fwd(Node):
    """BTF_KIND_FWD: a struct, or with `union` a union, declared but not defined."""

    union: bool


class FuncProto(Node):
    """BTF_KIND_FUNC_PROTO: `type` is what it returns."""

    type: int
    params: tuple[Param, ...]

    @property
    def variadic(self) -> bool:
        """Whether it ends in `...`, which BTF writes as a parameter without name and type."""
        return bool(self.params) and self.params[-1] == ("", 0)


class Func(Node):
    """BTF_KIND_FUNC: `type` is its FUNC_PROTO; `linkage` 0 static, 1 global, 2 extern."""

    type: int
    linkage: int


class Var(Node):
    """BTF_KIND_VAR of the type `type`; `linkage` as for Func."""

    type: int
    linkage: int


class DataSec(Node):
    """BTF_KIND_DATASEC: a section of `size` bytes and its variables."""

    size: int
    variables: tuple[SectionVariable, ...]


class DeclTag(Node):
    """BTF_KIND_DECL_TAG: `name` tags `type`, or its member or parameter number `component` unless that is -1."""

    type: int
    component: int
