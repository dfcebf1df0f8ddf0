"""BTF of a map's key and value, made from their types: what lets the kernel and bpftool see fields."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyebpf.btf import BtfBuilder
from pyebpf.specs.maps import MapTypes
from pyebpf.types import ArrayType, BytesType, CharArray, IntType, PointerType, StructType

if TYPE_CHECKING:
    from pyebpf.types import Type

__all__ = ["map_types"]


def map_types(key: Type | None, value: Type | None) -> MapTypes:
    """Describe both; equal types share one description."""
    describer = _Describer()
    key_id = describer.add(key) if key is not None else 0
    value_id = describer.add(value) if value is not None else 0
    return MapTypes(describer.builder.to_bytes(), key_id, value_id)


class _Describer:
    def __init__(self) -> None:
        self.builder = BtfBuilder()
        self._known: dict[tuple[str, Type], int] = {}

    def add(self, kind: Type) -> int:
        """The id of a type, added if it is new."""
        known = (kind.c_name, kind)
        if known not in self._known:
            self._known[known] = self._make(kind)
        return self._known[known]

    def _make(self, kind: Type) -> int:
        builder = self.builder
        if isinstance(kind, IntType):
            return builder.add_int(kind.c_name, kind.size, signed=kind.signed, boolean=kind.is_bool)
        if isinstance(kind, PointerType):
            return builder.add_int("__u64", 8)
        if isinstance(kind, StructType):
            members = [(field.name, self.add(field.type), 8 * field.offset, 0) for field in kind.fields]
            return builder.add_struct(kind.c_name.removeprefix("struct "), kind.size, members)
        if isinstance(kind, CharArray):
            return self._array(builder.add_int("char", 1, char=True), kind.length)
        if isinstance(kind, BytesType | ArrayType):
            return self._array(self.add(kind.element), kind.length)
        describe = getattr(kind, "describe_btf", None)
        if describe is not None:
            number: int = describe(builder)
            return number
        return self._array(builder.add_int("__u8", 1), kind.size)

    def _array(self, element: int, length: int) -> int:
        return self.builder.add_array(element, self.builder.add_int("__u32", 4), length)
