"""Local storage: a value for each thread, socket, inode or control group, which goes with its object."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, NamedTuple, NoReturn, TypeVar

from pyebpf.builder.available import need_helper
from pyebpf.builder.drop_counters import count_drop
from pyebpf.builder.ssa.conditions import Compare
from pyebpf.builder.values import atomics
from pyebpf.builder.values.entity import describe
from pyebpf.builder.values.kernel_objects import KernelReference
from pyebpf.builder.values.lvalue import moved
from pyebpf.builder.values.methods import method_of
from pyebpf.builder.values.operations import rvalue
from pyebpf.builder.values.records import RecordLiteral
from pyebpf.builder.values.references import note_change
from pyebpf.compiler.ir import Condition as Relation, ValueType
from pyebpf.maps.keyed import KeyedMap
from pyebpf.maps.mapping import StoredMapping
from pyebpf.specs import MapSpec
from pyebpf.types import U32
from pyebpf.uapi.bpf import MapType
from pyebpf.uapi.flags import BPF_F_NO_PREALLOC, BPF_LOCAL_STORAGE_GET_F_CREATE
from pyebpf.uapi.helpers import helper

if TYPE_CHECKING:
    from pyebpf.builder.program import ProgramBuilder
    from pyebpf.compiler import ir

V = TypeVar("V")

NO_STORAGE = "no memory for the value"


class _Owners(NamedTuple):
    """Helpers `<prefix>_storage_get` and `_delete`, the kernel's types that have such values, where one comes from."""

    prefix: str
    types: tuple[str, ...]
    example: str


_OWNERS = {
    MapType.TASK_STORAGE: _Owners(
        "task", ("task_struct",), "helpers.get_current_task_btf(), or a task_struct that a BTF tracepoint gives"
    ),
    MapType.SK_STORAGE: _Owners(
        "sk", ("sock", "sock_common", "tcp_sock", "udp_sock"), "a socket that a BTF tracepoint gives"
    ),
    MapType.INODE_STORAGE: _Owners("inode", ("inode",), "an inode that an LSM hook gives"),
    MapType.CGRP_STORAGE: _Owners("cgrp", ("cgroup",), "a cgroup that a BTF tracepoint gives"),
}


class StoredStorage(StoredMapping[Any, V]):
    """Values that belong to a socket, task, inode or control group, and go with it.

    A key is what has a descriptor, or its number: a socket, a pidfd (`os.pidfd_open`), an open file, a control
    group's directory. Items can't be listed.
    """

    def _encode_key(self, key: object) -> bytes:
        return super()._encode_key(self.store.object_number(key))


class Storage(StoredStorage[V], KeyedMap[Any, V], Generic[V]):
    """`bpf.task_storage(value=V)`, `sk_storage`, `inode_storage`, `cgrp_storage`: values of kernel objects.

    In user space a key is what has a descriptor of the object, or its number: a pidfd (`os.pidfd_open`; of a process's
    first thread), a socket, an open file, a control group's directory. Values can't be listed. In a probe
    `s[task] += v` and `s[task] = v` make the value if there is none; `get` does not.
    """

    def __init__(self, name: str, map_type: MapType, value: object) -> None:
        super().__init__(name, map_type, U32, value, 1, BPF_F_NO_PREALLOC)
        self._owners = _OWNERS[map_type]

    def __repr__(self) -> str:
        return f"<{self.map_type.name.lower()} {self.map_name}>"

    # -- in probes -----------------------------------------------------------------------------------------------------

    @property
    def spec(self) -> MapSpec:
        return MapSpec(self.map_name, self.map_type, None, self.value, 0, self.flags, with_btf=True)

    def describe(self) -> str:
        return f"the {self._owners.prefix} storage {self.map_name}"

    def attribute(self, p: ProgramBuilder, name: str) -> object:
        return method_of(p, self, name, {"get": self._get})

    def item(self, p: ProgramBuilder, index: object) -> NoReturn:
        name = self.map_name
        p.fail(f"{name}[k] may be missing: write {name}.get(k) and test it with `is None`")

    def set_item(self, p: ProgramBuilder, index: object, value: object) -> None:
        if isinstance(value, RecordLiteral) and not value.plain:
            value = value.local(p)  # what it takes from memory may lie in the very entry
        note_change(p, self.value)
        entry = self._made(p, index)
        with p.b.if_(Compare(Relation.NE, entry, p.b.const(0), null_check=True)):
            p.store_value(entry, 0, self.value, value)
        with p.b.else_():
            count_drop(p, NO_STORAGE, self.map_name)

    def augment_item(self, p: ProgramBuilder, index: object, operator: str, value: object) -> None:
        type_ = atomics.check(p, self.value, operator, f"{self.map_name}[k]")
        number = atomics.operand(p, type_, operator, value)
        entry = self._made(p, index)
        with p.b.if_(Compare(Relation.NE, entry, p.b.const(0), null_check=True)):
            self._atomic(p, entry, operator, number)
        with p.b.else_():
            count_drop(p, NO_STORAGE, self.map_name)

    def delete_item(self, p: ProgramBuilder, index: object) -> None:
        note_change(p, self.value)
        self._helper(p, "delete", self._owner(p, index))
        p.b.invalidate_origin(self.map_name, f"`del` on {self.map_name}")

    def _find(self, p: ProgramBuilder, key: object) -> ir.Value:
        return self._value_of(p, key, 0)

    def _made(self, p: ProgramBuilder, key: object) -> ir.Value:
        return self._value_of(p, key, BPF_LOCAL_STORAGE_GET_F_CREATE)

    def _value_of(self, p: ProgramBuilder, key: object, flags: int) -> ir.Value:
        found = self._helper(p, "get", self._owner(p, key), p.b.const(0), p.b.const(flags))
        p.b.assume_origin(found, self.map_name)
        return found

    def _helper(self, p: ProgramBuilder, what: str, *arguments: ir.Value) -> ir.Value:
        called = helper(f"{self._owners.prefix}_storage_{what}")
        need_helper(p, called.name, self.describe(), "use a hash with a key of your own")
        result = ValueType.POINTER if what == "get" else ValueType.SCALAR
        return p.b.call(called.id, self.handle(p), *arguments, result=result, comment=f"bpf_{called.name}")

    def _owner(self, p: ProgramBuilder, owner: object) -> ir.Value:
        owner = rvalue(p, owner)
        if not isinstance(owner, KernelReference) or owner.type.name not in self._owners.types:
            p.fail(f"{describe(owner)} has no value in {self.describe()}: give {self._owners.example}")
        if not owner.trusted:
            p.fail(
                f"{describe(owner)} is an address here, which the verifier does not trust as an owner in "
                f"{self.describe()}: give {self._owners.example}"
            )
        return moved(p, owner.address, owner.offset)
