"""The value of a struct_ops map, whose layout only the running kernel's BTF has."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from pyebpf.errors import InvalidValue, NotFound, closest
from pyebpf.types import BytesType

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyebpf.btf import Btf

#: Bytes of a pointer, in whose place the number of a program's descriptor stands.
POINTER = 8


@cache
def _kernel_btf() -> Btf:
    from pyebpf.btf import Btf
    from pyebpf.kernel.btf_files import read_btf

    return Btf(read_btf())


def value_type(operations: str) -> tuple[int, BytesType]:
    """The BTF id, and a type of the size, of `struct bpf_struct_ops_NAME`. Raises NotFound."""
    found = _kernel_btf().struct(f"bpf_struct_ops_{operations}")
    return found.id, BytesType(found.size)


def table_bytes(operations: str, values: Mapping[str, int | str], functions: Mapping[str, int]) -> bytes:
    """The map's value: each function's program by its descriptor, other members by their values, 0 what is not given.

    Raises NotFound for a member that there is none of, InvalidValue for a value that does not fit.
    """
    btf = _kernel_btf()
    whole = btf.struct(f"bpf_struct_ops_{operations}")
    start = btf.member(whole.id, "data").bit_offset // 8
    table = btf.struct(operations)
    names = [member.name for member in table.members]
    data = bytearray(whole.size)
    for name, value in (*values.items(), *functions.items()):
        if name not in names:
            raise NotFound(f"struct {operations} has no member {name!r}{closest(name, names)}")
        member = btf.member(table.id, name)
        size = POINTER if name in functions else btf.size_of(member.type)
        offset = start + member.bit_offset // 8
        data[offset : offset + size] = _encoded(f"{operations}.{name}", value, size)
    return bytes(data)


def _encoded(what: str, value: int | str, size: int) -> bytes:
    if isinstance(value, str):
        raw = value.encode("utf-8", "surrogateescape")
        if len(raw) >= size:
            raise InvalidValue(f"{what}={value!r} is {len(raw)} bytes: at most {size - 1} fit")
        return raw.ljust(size, b"\0")
    try:
        return value.to_bytes(size, "little", signed=value < 0)
    except OverflowError:
        raise InvalidValue(f"{what}={value} does not fit {size} bytes") from None
