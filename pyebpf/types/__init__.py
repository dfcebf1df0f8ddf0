"""BPF types and their Python values.

To a type checker an integer type is `int` and `char[N]` is `str`: probes read as ordinary typed functions. At run
time each is a `Type` with a layout and a codec.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyebpf.errors import InvalidValue
from pyebpf.types.arrays import ArrayType, BytesType, CharArray, CharFactory, array_of
from pyebpf.types.base import Type
from pyebpf.types.integers import (
    BE16,
    BE32,
    BE64,
    BOOL,
    INTEGERS,
    S8,
    S16,
    S32,
    S64,
    U8,
    U16,
    U32,
    U64,
    IntType,
    wrap,
)
from pyebpf.types.pointers import PointerFactory, PointerType
from pyebpf.types.structs import Field, Struct, StructType, field, type_of
from pyebpf.types.tuples import TupleType

__all__ = [
    "BE16",
    "BE32",
    "BE64",
    "BOOL",
    "INTEGERS",
    "S8",
    "S16",
    "S32",
    "S64",
    "U8",
    "U16",
    "U32",
    "U64",
    "ArrayType",
    "BytesType",
    "CharArray",
    "CharFactory",
    "Field",
    "IntType",
    "PointerFactory",
    "PointerType",
    "Struct",
    "StructType",
    "TupleType",
    "Type",
    "array",
    "array_of",
    "be16",
    "be32",
    "be64",
    "char",
    "field",
    "ptr",
    "s8",
    "s16",
    "s32",
    "s64",
    "type_of",
    "u8",
    "u16",
    "u32",
    "u64",
    "wrap",
]


def array(element: object, length: int) -> Any:
    """Return the type of an array, `u8[16]` in a spelling that type checkers take: `field(array(u8, 16))`."""
    found = type_of(element)
    if found is None:
        msg = f"array({element!r}, …): give an integer type or a Struct"
        raise InvalidValue(msg)
    return array_of(found, length)


if TYPE_CHECKING:
    from typing import Generic, TypeAlias, TypeVar

    u8: TypeAlias = int  # noqa: PYI042 - the BPF type's own name
    u16: TypeAlias = int  # noqa: PYI042 - the BPF type's own name
    u32: TypeAlias = int  # noqa: PYI042 - the BPF type's own name
    u64: TypeAlias = int  # noqa: PYI042 - the BPF type's own name
    s8: TypeAlias = int  # noqa: PYI042 - the BPF type's own name
    s16: TypeAlias = int  # noqa: PYI042 - the BPF type's own name
    s32: TypeAlias = int  # noqa: PYI042 - the BPF type's own name
    s64: TypeAlias = int  # noqa: PYI042 - the BPF type's own name
    be16: TypeAlias = int  # noqa: PYI042 - the BPF type's own name
    be32: TypeAlias = int  # noqa: PYI042 - the BPF type's own name
    be64: TypeAlias = int  # noqa: PYI042 - the BPF type's own name

    _Target = TypeVar("_Target")

    class _Lengths(type):
        def __getitem__(cls, length: int) -> type[str]: ...

    class char(metaclass=_Lengths):  # noqa: N801 - C's name
        """`char[N]` is a `str`; `ptr[char]` the address of a C string."""

    class ptr(int, Generic[_Target]):  # noqa: N801 - reads as C's pointer
        """`ptr[T]`: an address whose target has a type."""

        def __getitem__(self, index: int, /) -> _Target:
            """In a probe: a copy of the value at this index; zeros where the address is bad."""

else:
    u8, u16, u32, u64 = U8, U16, U32, U64
    s8, s16, s32, s64 = S8, S16, S32, S64
    be16, be32, be64 = BE16, BE32, BE64
    char = CharFactory()
    ptr = PointerFactory()
