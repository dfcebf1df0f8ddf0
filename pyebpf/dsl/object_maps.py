"""Maps of other objects (maps, programs) and values of kernel objects, as their users see them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar

from pyebpf.builder.maps_of_maps import MapOfMapsEntity
from pyebpf.builder.program_arrays import ProgramArrayEntity
from pyebpf.builder.storage import StorageEntity
from pyebpf.builder.values.map_pointers import MapPointer
from pyebpf.builder.values.methods import method_of
from pyebpf.dataclass import replace
from pyebpf.dsl.buffers import record_type, ring_size
from pyebpf.dsl.maps import Bound, KeyedMap, bpf_type
from pyebpf.dsl.queue_maps import BloomFilter, QueueMap
from pyebpf.errors import InvalidValue
from pyebpf.maps.local_storage import StoredStorage
from pyebpf.maps.map_in_map import StoredMapOfMaps
from pyebpf.maps.mapping import StoredObjectArray
from pyebpf.module.probe import Attachment, Probe, Request, request_decorator
from pyebpf.specs import MapSpec
from pyebpf.specs.attach.tail_calls import TailCalled
from pyebpf.specs.maps import map_size
from pyebpf.types import U32
from pyebpf.uapi.bpf import MapType

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyebpf.builder.program import ProgramBuilder
    from pyebpf.builder.values.integers import Int
    from pyebpf.module.probe import ProbeOwner
    from pyebpf.specs import AttachSpec

__all__ = ["MapOfMaps", "ProgramArray", "Storage", "UserRingBuffer"]

K = TypeVar("K")
M = TypeVar("M")
V = TypeVar("V")
P = ParamSpec("P")
R = TypeVar("R")


_SHAPES = (KeyedMap, QueueMap, BloomFilter)


class MapOfMaps(Bound, StoredMapOfMaps[K], MapOfMapsEntity, Generic[K, M]):
    """`bpf.array_of_maps(shape)` and `bpf.hash_of_maps(shape, key=K)`.

    In a probe `.get(k)` is a map of that shape, or None. In user space `outer[k] = m` puts a map in, `outer[k]` opens
    the one that is there (the caller's to close), `del` takes it out; `ids()` lists what is there.
    """

    def __init__(self, kind: MapType, key: Any, shape: Any, size: int, name: str) -> None:
        if not isinstance(shape, _SHAPES):
            raise InvalidValue(
                f"bpf.{kind.name.lower()}({shape!r}): the inner maps' shape is a declared map with keys, or a queue"
            )
        self.name = name
        found = U32 if kind is MapType.ARRAY_OF_MAPS else bpf_type(key, "key")
        MapOfMapsEntity.__init__(self, self.current_name, kind, found, shape, map_size(size))

    if TYPE_CHECKING:

        def get(self, key: K, /) -> M | None:  # type: ignore[override]  # as a probe writes it
            """The map under a key, or None."""


class ProgramArray(Bound, StoredObjectArray[int], ProgramArrayEntity):
    """`bpf.program_array(size=N)`: programs that probes go on with, by `tail_call(i)`.

    In user space `steps[i]` is the id of the program that is there, `del` takes it out, and a loaded program
    (`pyebpf.objects.Program`) may be put in.
    """

    def __init__(self, size: int, module: ProbeOwner, name: str) -> None:
        self.name = name
        self._module = module
        ProgramArrayEntity.__init__(self, self.current_name, map_size(size))

    def entry(self, index: int, *, like: Probe[P, R]) -> Callable[[Any], Probe[Any, R]]:
        """A decorator: the function is the program under `index`, run by tail calls from the probe `like`.

        Context, parameters and result are as in that probe, and so it is called only from probes of its kind. It is
        put in when the module is loaded; where that probe has several places, it is made for the first.
        """
        if not isinstance(like, Probe):
            raise InvalidValue(f"entry({index}, like={like!r}): give the probe that makes the tail call")
        if not 0 <= index < self.max_entries:
            raise InvalidValue(f"entry({index!r}): {self.describe()} has the indices 0 to {self.max_entries - 1}")

        def called(attach: AttachSpec) -> TailCalled:
            return TailCalled(attach.like if isinstance(attach, TailCalled) else attach, self.current_name, index)

        candidates = tuple(
            replace(
                candidate,
                attachments=tuple(Attachment(each.kind, called(each.attach)) for each in candidate.attachments[:1]),
            )
            for candidate in like.requests[0].candidates
        )
        return request_decorator(self._module, Request("entry", (str(index),), candidates))

    if TYPE_CHECKING:

        def tail_call(self, index: int) -> None:
            """In a probe: go on with that program, and do not come back; without one there, go on here."""


class Storage(Bound, StoredStorage[V], StorageEntity, Generic[V]):
    """`bpf.task_storage(value=V)`, `sk_storage`, `inode_storage`, `cgrp_storage`: values of kernel objects.

    In user space a key is what has a descriptor of the object, or its number: a pidfd (`os.pidfd_open`; of a process's
    first thread), a socket, an open file, a control group's directory. Values can't be listed.
    """

    def __init__(self, kind: MapType, value: Any, name: str) -> None:
        self.name = name
        StorageEntity.__init__(self, self.current_name, kind, bpf_type(value, "value"))

    def __repr__(self) -> str:
        return f"<{self.kind.name.lower()} {self.current_name()}>"


class UserRingBuffer(Bound, MapPointer, Generic[V]):
    """`bpf.user_ringbuf(T)`: records that user space sends and probes take out (since Linux 6.1)."""

    def __init__(self, record: Any, size: int, name: str) -> None:
        self.name = name
        self._name_source = self.current_name
        #: The type that records are encoded from.
        self.record_class: Any = record_type(record, "user_ringbuf")
        self.size = ring_size(size, "user_ringbuf")

    def __repr__(self) -> str:
        return f"<UserRingBuffer {self.current_name()} of {self.record_class.__name__}>"

    @property
    def spec(self) -> MapSpec:
        """The map that the loader makes."""
        return MapSpec(self.map_name, MapType.USER_RINGBUF, None, None, self.size)

    def describe(self) -> str:
        return f"the user ring buffer {self.map_name}"

    def attribute(self, p: ProgramBuilder, name: str) -> Any:
        return method_of(p, self, name, {"drain": self._drain})

    def _drain(self, p: ProgramBuilder, handler: Any) -> Int:
        from pyebpf.dsl.user_ring import drain

        return drain(p, self, handler)

    def send(self, record: V) -> bool:
        """Put a record in; False if there is no room until a probe drains the buffer."""
        return bool(self.store.send(record))

    def wait(self, timeout: float) -> bool:
        """Wait at most `timeout` seconds for room; whether there is some."""
        return bool(self.store.wait(timeout))

    @property
    def waiting(self) -> int:
        """Bytes that no probe has taken yet, headers among them."""
        return int(self.store.waiting)

    if TYPE_CHECKING:

        def drain(self, handler: Callable[[V], bool | None], /) -> int:
            """In a probe: call `handler` with each record; how many there were, negative if another probe drains."""
