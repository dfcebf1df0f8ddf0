"""The value of a struct_ops map, whose layout only the running kernel's BTF has."""

from __future__ import annotations

from pyebpf.types import BytesType

__all__ = ["value_type"]


def value_type(operations: str) -> tuple[int, BytesType]:
    """The BTF id, and a type of the size, of `struct bpf_struct_ops_NAME`. Raises NotFound."""
    from pyebpf.btf import Btf
    from pyebpf.kernel.btf_files import read_btf

    found = Btf(read_btf()).struct(f"bpf_struct_ops_{operations}")
    return found.id, BytesType(found.size)
