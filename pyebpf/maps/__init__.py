"""Maps, one file a kind: how probes use it, and how Python reads and writes it over any byte store."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from pyebpf.uapi.bpf import MapType

if TYPE_CHECKING:
    from typing import Any

    from pyebpf.maps.store import MapStore, Stored

__all__ = ["over", "python_side"]

#: File and class of Python's side by kind; of kinds that are not listed, it is the mapping.
_SIDES = {
    **dict.fromkeys((MapType.QUEUE, MapType.STACK), ("queue", "StoredQueue")),
    MapType.BLOOM_FILTER: ("bloom_filter", "StoredBloomFilter"),
    **dict.fromkeys((MapType.ARRAY_OF_MAPS, MapType.HASH_OF_MAPS), ("map_in_map", "StoredMapOfMaps")),
    **dict.fromkeys(
        (MapType.SK_STORAGE, MapType.INODE_STORAGE, MapType.TASK_STORAGE, MapType.CGRP_STORAGE),
        ("local_storage", "StoredStorage"),
    ),
    **dict.fromkeys(
        (
            MapType.PROG_ARRAY, MapType.PERF_EVENT_ARRAY, MapType.CGROUP_ARRAY, MapType.SOCKMAP, MapType.SOCKHASH,
            MapType.REUSEPORT_SOCKARRAY, MapType.DEVMAP, MapType.DEVMAP_HASH, MapType.CPUMAP, MapType.XSKMAP,
        ),
        ("mapping", "StoredObjectArray"),
    ),
}  # fmt: skip


def over(store: MapStore) -> Any:
    """Python's side of a map that is the given store."""
    side = python_side(store.spec.type)()
    side.bind(store)
    return side


def python_side(kind: MapType) -> type[Stored]:
    """The class of what Python sees of a kind of map. Rare ones are imported when they are asked for."""
    file, name = _SIDES.get(kind, ("mapping", "StoredMapping"))
    found: type[Stored] = getattr(import_module(f"pyebpf.maps.{file}"), name)
    return found
