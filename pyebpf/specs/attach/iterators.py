"""Iterators: programs that the kernel runs once for each element of one of its lists, when somebody reads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyebpf.dataclass import dataclass, replace
from pyebpf.errors import InvalidValue, closest
from pyebpf.specs.attach.base import AttachSpec
from pyebpf.uapi.attach_types import AttachType
from pyebpf.uapi.bpf import ProgramType

if TYPE_CHECKING:
    from pyebpf.specs.maps import MapSpec
    from pyebpf.types import StructType

__all__ = ["CGROUP_ORDERS", "MAP_ITERATORS", "KernelIterator"]

#: Iterators over what is in one map, which `read(map=…)` names: the kernel wants it in iter_info.
MAP_ITERATORS = ("bpf_map_elem", "bpf_sk_storage_map", "sockmap")
#: enum bpf_cgroup_iter_order, by the names that `read(order=…)` takes.
CGROUP_ORDERS = {"self": 1, "descendants_pre": 2, "descendants_post": 3, "ancestors": 4, "children": 5}


@dataclass(frozen=True, slots=True)
class KernelIterator(AttachSpec):
    """The kernel's list `name` ("task", "tcp"), each element of which becomes records of the type `record`.

    `map` is the shape of the map whose entries are walked, where the list is one's. Where a pass begins and what it is
    limited to is said when it is read: `map_fd` a map's descriptor, `cgroup` a control group's directory and `order`
    the way from there, `pid` or `tid` a process or thread; 0 and empty are no limit.
    """

    name: str
    record: StructType
    map: MapSpec | None = None
    map_fd: int = 0
    cgroup: str = ""
    order: str = "descendants_pre"
    pid: int = 0
    tid: int = 0

    kind = ProgramType.TRACING

    def __str__(self) -> str:
        return f"iterator {self.name}"

    @property
    def attach_type(self) -> int:
        return AttachType.TRACE_ITER

    @property
    def target(self) -> str:
        return self.name

    @property
    def is_open(self) -> bool:
        return True

    def at(
        self,
        *place: Any,
        map: Any = None,  # noqa: A002 - the kernel's word
        cgroup: str = "",
        order: str = "",
        pid: int = 0,
        tid: int = 0,
    ) -> KernelIterator:
        """A pass over the list, limited. Raises InvalidValue for what this list is not limited by."""
        if place:
            raise InvalidValue(f"{self} is read by `probe.read()`; its limits have names: pid=, tid=, map=, cgroup=")
        task = self.name.startswith("task")
        for given, word, fits in (
            (map is not None, "map", self.name in MAP_ITERATORS),
            (bool(cgroup or order), "cgroup and order", self.name == "cgroup"),
            (bool(pid or tid), "pid and tid", task),
        ):
            if given and not fits:
                raise InvalidValue(f"{self} takes no {word}: it walks something else")
        if self.name in MAP_ITERATORS and map is None:
            raise InvalidValue(f"{self} walks a map: write @bpf.iter({self.name!r}, …, map=m), or read(map=m)")
        if order and order not in CGROUP_ORDERS:
            raise InvalidValue(
                f"order={order!r}{closest(order, CGROUP_ORDERS)}: give one of {', '.join(CGROUP_ORDERS)}"
            )
        if pid and tid:
            raise InvalidValue(f"{self}: give pid= for a whole process or tid= for one thread, not both")
        descriptor = 0 if map is None else int(map.fileno())
        return replace(self, map_fd=descriptor, cgroup=cgroup, order=order or self.order, pid=pid, tid=tid)
