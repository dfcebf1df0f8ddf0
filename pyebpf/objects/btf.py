"""BTF that is loaded for maps and programs: made from the types of a map's key and value, or shared by several."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyebpf.btf import BtfBuilder
from pyebpf.kernel import bpf
from pyebpf.kernel.info import btf_id
from pyebpf.specs.maps import MapTypes
from pyebpf.types import ArrayType, BytesType, CharArray, IntType, PointerType, StructType

if TYPE_CHECKING:
    from pyebpf.kernel.descriptor import Descriptor
    from pyebpf.types import Type

#: The kernel's number of each; it gives none twice, and forgets one that nobody holds.
_numbers: dict[bytes, int] = {}


def shared_btf(data: bytes) -> Descriptor | None:
    """The BTF object of these bytes, which the caller closes: the same as before while somebody holds it.

    To the kernel, types of two BTF objects are two types even if their bytes are equal. What a program allocates and
    puts into the list of a map's value must be of one, so the object that was loaded first is found again. None if the
    kernel refuses the bytes. Finding one again takes CAP_SYS_ADMIN; without, each is a new one.
    """
    if data in _numbers:
        try:
            return bpf.btf_get_fd_by_id(_numbers[data])
        except OSError:
            del _numbers[data]
    loaded = bpf.btf_load(data).descriptor
    if loaded is not None:
        _numbers[data] = btf_id(loaded.fileno())
    return loaded


def map_types(key: Type | None, value: Type | None) -> MapTypes:
    """Describe a map's key and value, so that the kernel and bpftool see fields; equal types share one description."""
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
        return kind.describe_btf(builder)

    def _array(self, element: int, length: int) -> int:
        return self.builder.add_array(element, self.builder.add_int("__u32", 4), length)
