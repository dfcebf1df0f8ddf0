"""The methods of `Module` that declare maps of other objects; what they declare is imported when they are called."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from pyebpf.specs import MapKind

if TYPE_CHECKING:
    from pyebpf.dsl.maps import D
    from pyebpf.dsl.object_maps import MapOfMaps, ProgramArray, Storage, UserRingBuffer
    from pyebpf.dsl.probe import Probe

__all__ = ["ObjectMapMethods"]

K = TypeVar("K")
V = TypeVar("V")

_DEFAULT_SIZE = 10_240
_DEFAULT_RING = 256 * 1024


class ObjectMapMethods:
    """The methods of `Module` that declare such maps."""

    if TYPE_CHECKING:
        probes: list[Probe[Any, Any]]

        def declare(self, entity: D) -> D:
            """Make a map part of this module, and return it."""

    def array_of_maps(self, shape: V, *, size: int, name: str = "") -> MapOfMaps[int, V]:
        """`size` maps under the indices from 0, none at first, all like the declared map `shape`."""
        from pyebpf.dsl.object_maps import MapOfMaps

        return self.declare(MapOfMaps(MapKind.ARRAY_OF_MAPS, None, shape, size, name))

    def hash_of_maps(self, shape: V, *, key: type[K], size: int = _DEFAULT_SIZE, name: str = "") -> MapOfMaps[K, V]:
        """Maps by key, at most `size`, all like the declared map `shape`."""
        from pyebpf.dsl.object_maps import MapOfMaps

        return self.declare(MapOfMaps(MapKind.HASH_OF_MAPS, key, shape, size, name))

    def program_array(self, *, size: int, name: str = "") -> ProgramArray:
        """`size` places for programs that probes go on with: `steps.tail_call(i)`; `@steps.entry(i, like=probe)`."""
        from pyebpf.dsl.object_maps import ProgramArray

        return self.declare(ProgramArray(size, self.probes, name))

    def task_storage(self, *, value: type[V], name: str = "") -> Storage[V]:
        """A value for each thread (since Linux 5.11)."""
        from pyebpf.dsl.object_maps import Storage

        return self.declare(Storage(MapKind.TASK_STORAGE, value, name))

    def sk_storage(self, *, value: type[V], name: str = "") -> Storage[V]:
        """A value for each socket (since Linux 5.2)."""
        from pyebpf.dsl.object_maps import Storage

        return self.declare(Storage(MapKind.SK_STORAGE, value, name))

    def inode_storage(self, *, value: type[V], name: str = "") -> Storage[V]:
        """A value for each inode, in LSM programs (since Linux 5.10)."""
        from pyebpf.dsl.object_maps import Storage

        return self.declare(Storage(MapKind.INODE_STORAGE, value, name))

    def cgrp_storage(self, *, value: type[V], name: str = "") -> Storage[V]:
        """A value for each control group (since Linux 6.2)."""
        from pyebpf.dsl.object_maps import Storage

        return self.declare(Storage(MapKind.CGRP_STORAGE, value, name))

    def user_ringbuf(self, record: type[V], *, size: int = _DEFAULT_RING, name: str = "") -> UserRingBuffer[V]:
        """Records from user space to probes, `size` bytes: a power of two and a multiple of the page."""
        from pyebpf.dsl.object_maps import UserRingBuffer

        return self.declare(UserRingBuffer(record, size, name))
