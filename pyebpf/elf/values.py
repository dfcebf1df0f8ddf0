"""Values of an object's maps that hold what only the kernel may touch: locks, timers, pointers to kernel objects.

The kernel finds these in the BTF of the map, so the value's type is described there as the object has it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyebpf.btf import (
    Array,
    Composite,
    Const,
    Enumeration,
    Float,
    Int,
    Ptr,
    Restrict,
    Typedef,
    TypeTag,
    Union,
    Volatile,
)
from pyebpf.errors import MalformedData
from pyebpf.types import BytesType
from pyebpf.types.base import Type

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyebpf.btf import Btf, BtfBuilder

__all__ = ["KernelOwned", "is_kernel_owned"]

#: Structs in a map's value that the kernel looks after (kernel/bpf/btf.c, btf_get_field_type).
_STRUCTS = frozenset({"bpf_spin_lock", "bpf_res_spin_lock", "bpf_timer", "bpf_wq", "bpf_refcount", "bpf_task_work"})
#: Tags of pointers to kernel objects, of the kernel's own and of a processor's.
_TAGS = frozenset({"kptr", "kptr_untrusted", "percpu_kptr", "uptr"})


def is_kernel_owned(btf: Btf, type_id: int) -> bool:
    """Whether a value of this type has a part that the kernel looks after."""
    waiting, seen = [type_id], {0}
    while waiting:
        node = btf.type_by_id(btf.resolve(waiting.pop()))
        if node.id in seen:
            continue
        seen.add(node.id)
        if isinstance(node, Ptr):
            pointed = btf.type_by_id(node.type)
            if isinstance(pointed, TypeTag) and pointed.name in _TAGS:
                return True
        elif isinstance(node, Array):
            waiting.append(node.type)
        elif isinstance(node, Composite):
            if node.name in _STRUCTS:
                return True
            waiting += [member.type for member in node.members]
    return False


class KernelOwned(Type):
    """A value as its bytes, described to the kernel by its BTF in the object."""

    def __init__(self, btf: Btf, type_id: int) -> None:
        node = btf.type_by_id(btf.resolve(type_id))
        self._btf = btf
        self._id = node.id
        self._bytes = BytesType(btf.size_of(node.id))
        self.size, self.align = self._bytes.size, 8
        self.name = node.name or "struct"
        self.c_name = f"struct {self.name}"
        self.format = self._bytes.format

    def assemble(self, plain: Iterator[Any]) -> bytes:
        return self._bytes.assemble(plain)

    def scatter(self, value: Any) -> list[Any]:
        return self._bytes.scatter(value)

    def to_construct(self) -> Any:
        return self._bytes.to_construct()

    def describe_btf(self, builder: BtfBuilder) -> int:
        """Add the type to BTF as the object has it; its id."""
        return _Copy(self._btf, builder).of(self._id)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, KernelOwned) and (self._btf, self._id) == (other._btf, other._id)

    def __hash__(self) -> int:
        return hash((self.name, self.size))


class _Copy:
    """Types of one BTF in another. What a pointer leads to is named, not described."""

    def __init__(self, btf: Btf, builder: BtfBuilder) -> None:
        self.btf = btf
        self.builder = builder
        self._done: dict[tuple[int, bool], int] = {}
        self._begun: set[tuple[int, bool]] = set()

    def of(self, type_id: int, *, pointed: bool = False) -> int:
        """The id of a type, copied if it is new; `pointed` structs lose their members."""
        key = (type_id, pointed)
        if key not in self._done:
            if key in self._begun:
                raise MalformedData(f"type {type_id} holds itself")
            self._begun.add(key)
            self._done[key] = self._made(type_id, pointed=pointed)
        return self._done[key]

    def _made(self, type_id: int, *, pointed: bool) -> int:
        node, b = self.btf.type_by_id(type_id), self.builder
        match node:
            case Int():
                return b.add_int(node.name, node.size, signed=node.signed, char=node.char, boolean=node.bool)
            case Float():
                return b.add_float(node.name, node.size)
            case Ptr():
                return b.add_ptr(self.of(node.type, pointed=True))
            case TypeTag():
                return b.add_type_tag(node.name, self.of(node.type, pointed=pointed))
            case Typedef():
                return b.add_typedef(node.name, self.of(node.type, pointed=pointed))
            case Const():
                return b.add_const(self.of(node.type, pointed=pointed))
            case Volatile():
                return b.add_volatile(self.of(node.type, pointed=pointed))
            case Restrict():
                return b.add_restrict(self.of(node.type, pointed=pointed))
            case Array():
                return b.add_array(self.of(node.type, pointed=pointed), self.of(node.index_type), node.length)
            case Composite():
                members = [] if pointed else node.members
                parts = [(m.name, self.of(m.type), m.bit_offset, m.bit_size) for m in members]
                return (b.add_union if isinstance(node, Union) else b.add_struct)(node.name, node.size, parts)
            case Enumeration():
                values = [(each.name, each.value) for each in node.enumerators]
                add = b.add_enum64 if node.size > 4 else b.add_enum
                return add(node.name, node.size, values, signed=node.signed)
            case _:
                return 0  # void, functions, what is only declared: behind a pointer all of it is void
