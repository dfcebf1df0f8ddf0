"""Arrays: `bpf.array`, `percpu_array`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from pyebpf.maps.keyed import KeyedMap
from pyebpf.types import U32
from pyebpf.uapi.flags import BPF_F_MMAPABLE

if TYPE_CHECKING:
    from pyebpf.uapi.bpf import MapType

V = TypeVar("V")


class ArrayMap(KeyedMap[int, V]):
    """`bpf.array(value=V, size=N)`, `percpu_array`."""

    def __init__(self, name: str, map_type: MapType, value: object, size: int, *, mappable: bool = False) -> None:
        super().__init__(name, map_type, U32, value, size, BPF_F_MMAPABLE if mappable else 0)

    def window(self, *, writable: bool = True) -> Any:
        """The values in this process's memory, without system calls: `window[i]`, if made with mappable=True."""
        return self.store.window(writable=writable)
