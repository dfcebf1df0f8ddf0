"""Values of an object's maps that hold what only the kernel may touch: locks, timers, lists, pointers to its objects.

The kernel finds these in the BTF that the map is made with.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyebpf.btf import Array, Composite, Ptr, TypeTag

if TYPE_CHECKING:
    from pyebpf.btf import Btf

__all__ = ["is_kernel_owned"]

#: Structs in a map's value that the kernel looks after (kernel/bpf/btf.c, btf_get_field_type).
_STRUCTS = frozenset(
    {"bpf_spin_lock", "bpf_res_spin_lock", "bpf_timer", "bpf_wq", "bpf_refcount", "bpf_task_work"}
    | {"bpf_list_head", "bpf_rb_root"}
)
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
