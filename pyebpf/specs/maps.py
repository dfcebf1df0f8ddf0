"""What a map is to be: frozen data, no descriptor."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING

from pyebpf.dataclass import dataclass

if TYPE_CHECKING:
    from pyebpf.types import Type

__all__ = ["MapKind", "MapSpec"]


class MapKind(IntEnum):
    """Map types that programs here make; values are enum bpf_map_type's."""

    HASH = 1
    ARRAY = 2
    PERF_EVENT_ARRAY = 4
    PERCPU_HASH = 5
    PERCPU_ARRAY = 6
    STACK_TRACE = 7
    LRU_HASH = 9
    LRU_PERCPU_HASH = 10
    RINGBUF = 27

    @property
    def per_cpu(self) -> bool:
        """Whether each possible processor has a value of its own."""
        return self in (MapKind.PERCPU_HASH, MapKind.PERCPU_ARRAY, MapKind.LRU_PERCPU_HASH)

    @property
    def is_array(self) -> bool:
        """Whether keys are indices and every entry always exists."""
        return self in (MapKind.ARRAY, MapKind.PERCPU_ARRAY)


@dataclass(frozen=True, slots=True)
class MapSpec:
    """One map. `name` is what programs call it, 1 to 15 bytes of [A-Za-z0-9_.], unique in its module.

    `key` and `value` are types with codecs; None for kinds that have none (ring buffer, perf event array, whose
    values the kernel fixes). `max_entries` counts entries (a ring buffer's: bytes, a power of two and a multiple of
    the page; a perf event array's: 0 for one each possible processor). `flags` are BPF_F_*. `initial` entries are
    written before any program runs; `frozen` then closes the map to the system call's writes.
    """

    name: str
    kind: MapKind
    key: Type | None
    value: Type | None
    max_entries: int
    flags: int = 0
    initial: tuple[tuple[bytes, bytes], ...] = ()
    frozen: bool = False
