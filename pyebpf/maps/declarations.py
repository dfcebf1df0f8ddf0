"""The methods of `Module` that declare maps. What few programs have is imported when it is declared."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, overload

from pyebpf.maps.array import ArrayMap
from pyebpf.maps.keyed import HashMap
from pyebpf.module.declared_arguments import checked_methods
from pyebpf.module.module import BaseModule
from pyebpf.uapi.bpf import MapType

K = TypeVar("K")
V = TypeVar("V")
T = TypeVar("T")

if TYPE_CHECKING:
    from pyebpf.maps.arena import Arena
    from pyebpf.maps.bloom_filter import BloomFilter
    from pyebpf.maps.local_storage import Storage
    from pyebpf.maps.lpm_trie import TrieMap
    from pyebpf.maps.map_in_map import MapOfMaps
    from pyebpf.maps.perf_event_array import PerfBuffer
    from pyebpf.maps.prog_array import ProgramArray
    from pyebpf.maps.queue import QueueMap
    from pyebpf.maps.redirect import RedirectMap
    from pyebpf.maps.ringbuf import ByteRing, RingBuffer
    from pyebpf.maps.sockmap import SocketMap
    from pyebpf.maps.user_ringbuf import UserRingBuffer

    #: A tuple of types, and a tuple of what they are in Python: no signature can say each part's.
    Tuple: TypeAlias = tuple[Any, ...]
    #: A type, or a tuple of such.
    Of: TypeAlias = type[T] | Tuple

DEFAULT_SIZE = 10_240
DEFAULT_RING = 256 * 1024


@checked_methods
class MapMethods(BaseModule):
    """A module's maps: each method that declares one returns it."""

    @overload
    def hash(self, key: type[K], value: type[V], *, size: int = ..., name: str = ...) -> HashMap[K, V]: ...
    @overload
    def hash(self, key: Tuple, value: type[V], *, size: int = ..., name: str = ...) -> HashMap[Tuple, V]: ...
    @overload
    def hash(self, key: type[K], value: Tuple, *, size: int = ..., name: str = ...) -> HashMap[K, Tuple]: ...
    @overload
    def hash(self, key: Tuple, value: Tuple, *, size: int = ..., name: str = ...) -> HashMap[Tuple, Tuple]: ...
    def hash(self, key: Of[K], value: Of[V], *, size: int = DEFAULT_SIZE, name: str = "") -> HashMap[K, V]:
        """A hash table of at most `size` entries, all processors together.

        When it is full new keys are dropped and counted.
        """
        return self.declare(HashMap(name, MapType.HASH, key, value, size))

    @overload
    def lru_hash(self, key: type[K], value: type[V], *, size: int = ..., name: str = ...) -> HashMap[K, V]: ...
    @overload
    def lru_hash(self, key: Tuple, value: type[V], *, size: int = ..., name: str = ...) -> HashMap[Tuple, V]: ...
    @overload
    def lru_hash(self, key: type[K], value: Tuple, *, size: int = ..., name: str = ...) -> HashMap[K, Tuple]: ...
    @overload
    def lru_hash(self, key: Tuple, value: Tuple, *, size: int = ..., name: str = ...) -> HashMap[Tuple, Tuple]: ...
    def lru_hash(self, key: Of[K], value: Of[V], *, size: int = DEFAULT_SIZE, name: str = "") -> HashMap[K, V]:
        """A hash table that gives up the entries least recently used when it is full."""
        return self.declare(HashMap(name, MapType.LRU_HASH, key, value, size))

    @overload
    def percpu_hash(self, key: type[K], value: type[V], *, size: int = ..., name: str = ...) -> HashMap[K, V]: ...
    @overload
    def percpu_hash(self, key: Tuple, value: type[V], *, size: int = ..., name: str = ...) -> HashMap[Tuple, V]: ...
    @overload
    def percpu_hash(self, key: type[K], value: Tuple, *, size: int = ..., name: str = ...) -> HashMap[K, Tuple]: ...
    @overload
    def percpu_hash(self, key: Tuple, value: Tuple, *, size: int = ..., name: str = ...) -> HashMap[Tuple, Tuple]: ...
    def percpu_hash(self, key: Of[K], value: Of[V], *, size: int = DEFAULT_SIZE, name: str = "") -> HashMap[K, V]:
        """A hash table with a value for each processor under each key. User space reads sums of integers."""
        return self.declare(HashMap(name, MapType.PERCPU_HASH, key, value, size))

    @overload
    def lru_percpu_hash(self, key: type[K], value: type[V], *, size: int = ..., name: str = ...) -> HashMap[K, V]: ...
    @overload
    def lru_percpu_hash(self, key: Tuple, value: type[V], *, size: int = ..., name: str = ...) -> HashMap[Tuple, V]: ...
    @overload
    def lru_percpu_hash(self, key: type[K], value: Tuple, *, size: int = ..., name: str = ...) -> HashMap[K, Tuple]: ...
    @overload
    def lru_percpu_hash(
        self, key: Tuple, value: Tuple, *, size: int = ..., name: str = ...
    ) -> HashMap[Tuple, Tuple]: ...
    def lru_percpu_hash(self, key: Of[K], value: Of[V], *, size: int = DEFAULT_SIZE, name: str = "") -> HashMap[K, V]:
        """`percpu_hash` that gives up the entries least recently used when it is full."""
        return self.declare(HashMap(name, MapType.LRU_PERCPU_HASH, key, value, size))

    @overload
    def array(self, value: type[V], *, size: int = ..., name: str = ..., mappable: bool = ...) -> ArrayMap[V]: ...
    @overload
    def array(self, value: Tuple, *, size: int = ..., name: str = ..., mappable: bool = ...) -> ArrayMap[Tuple]: ...
    def array(self, value: Of[V], *, size: int = 1, name: str = "", mappable: bool = False) -> ArrayMap[V]:
        """`size` values that always exist, zero at first, under the indices from 0.

        A `mappable` one has a `window()`: its memory in this process.
        """
        return self.declare(ArrayMap(name, MapType.ARRAY, value, size, mappable=mappable))

    def lpm_trie(self, key: object, value: type[V], *, size: int = DEFAULT_SIZE, name: str = "") -> TrieMap[Any, V]:
        """Values by network: a look-up finds the longest prefix of an address. `key` is such as `ipv4_prefix`."""
        from pyebpf.maps.lpm_trie import TrieMap

        return self.declare(TrieMap(name, key, value, size))

    def queue(self, value: type[V], *, size: int = DEFAULT_SIZE, name: str = "") -> QueueMap[V]:
        """Values first in, first out, at most `size`. What finds no room is dropped and counted."""
        from pyebpf.maps.queue import QueueMap

        return self.declare(QueueMap(name, MapType.QUEUE, value, size))

    def stack(self, value: type[V], *, size: int = DEFAULT_SIZE, name: str = "") -> QueueMap[V]:
        """Values last in, first out, at most `size`. What finds no room is dropped and counted."""
        from pyebpf.maps.queue import QueueMap

        return self.declare(QueueMap(name, MapType.STACK, value, size))

    def bloom_filter(
        self, value: type[V], *, size: int = DEFAULT_SIZE, hashes: int = 5, name: str = ""
    ) -> BloomFilter[V]:
        """Whether a value was added: a False is certain; wrong Trues grow as more than `size` values are added."""
        from pyebpf.maps.bloom_filter import BloomFilter

        return self.declare(BloomFilter(name, value, size, hashes))

    def perf_buffer(self, record: type[V], *, pages: int = 8, overwrite: bool = False, name: str = "") -> PerfBuffer[V]:
        """Records through perf buffers of `pages` pages for each processor: for kernels older than the ring buffer.

        With `overwrite`, full buffers give up their oldest records: a flight recorder. Records that find no room are
        dropped and counted.
        """
        from pyebpf.maps.perf_event_array import PerfBuffer

        return self.declare(PerfBuffer(name, record, pages, overwrite=overwrite))

    @overload
    def percpu_array(self, value: type[V], *, size: int = ..., name: str = ...) -> ArrayMap[V]: ...
    @overload
    def percpu_array(self, value: Tuple, *, size: int = ..., name: str = ...) -> ArrayMap[Tuple]: ...
    def percpu_array(self, value: Of[V], *, size: int = 1, name: str = "") -> ArrayMap[V]:
        """`array` with a value for each processor. User space reads sums of integers."""
        return self.declare(ArrayMap(name, MapType.PERCPU_ARRAY, value, size))

    def ringbuf(self, record: type[V], *, size: int = DEFAULT_RING, name: str = "") -> RingBuffer[V]:
        """A ring buffer of records, `size` bytes: a power of two from 4096 on, at least the kernel's page.

        When it is full records are dropped and counted.
        """
        from pyebpf.maps.ringbuf import RingBuffer

        return self.declare(RingBuffer(name, record, size))

    # -- of other objects ----------------------------------------------------------------------------------------------

    def array_of_maps(self, shape: V, *, size: int, name: str = "") -> MapOfMaps[int, V]:
        """`size` maps under the indices from 0, none at first, all like the declared map `shape`."""
        from pyebpf.maps.map_in_map import MapOfMaps

        return self.declare(MapOfMaps(name, MapType.ARRAY_OF_MAPS, None, shape, size))

    def hash_of_maps(self, shape: V, *, key: type[K], size: int = DEFAULT_SIZE, name: str = "") -> MapOfMaps[K, V]:
        """Maps by key, at most `size`, all like the declared map `shape`."""
        from pyebpf.maps.map_in_map import MapOfMaps

        return self.declare(MapOfMaps(name, MapType.HASH_OF_MAPS, key, shape, size))

    def program_array(self, *, size: int, name: str = "") -> ProgramArray:
        """`size` places for programs that probes go on with: `steps.tail_call(i)`; `@steps.entry(i, like=probe)`."""
        from pyebpf.maps.prog_array import ProgramArray

        return self.declare(ProgramArray(name, size, self))

    def task_storage(self, value: type[V], *, name: str = "") -> Storage[V]:
        """A value for each thread (since Linux 5.11)."""
        from pyebpf.maps.local_storage import Storage

        return self.declare(Storage(name, MapType.TASK_STORAGE, value))

    def sk_storage(self, value: type[V], *, name: str = "") -> Storage[V]:
        """A value for each socket (since Linux 5.2)."""
        from pyebpf.maps.local_storage import Storage

        return self.declare(Storage(name, MapType.SK_STORAGE, value))

    def inode_storage(self, value: type[V], *, name: str = "") -> Storage[V]:
        """A value for each inode, in LSM programs (since Linux 5.10)."""
        from pyebpf.maps.local_storage import Storage

        return self.declare(Storage(name, MapType.INODE_STORAGE, value))

    def cgrp_storage(self, value: type[V], *, name: str = "") -> Storage[V]:
        """A value for each control group (since Linux 6.2)."""
        from pyebpf.maps.local_storage import Storage

        return self.declare(Storage(name, MapType.CGRP_STORAGE, value))

    def user_ringbuf(self, record: type[V], *, size: int = DEFAULT_RING, name: str = "") -> UserRingBuffer[V]:
        """Records from user space to probes, `size` bytes: a power of two from 4096 on, at least the kernel's page."""
        from pyebpf.maps.user_ringbuf import UserRingBuffer

        return self.declare(UserRingBuffer(name, record, size))

    # -- of the network ------------------------------------------------------------------------------------------------

    def devmap(self, *, size: int, name: str = "") -> RedirectMap:
        """Interfaces under the indices from 0, none at first, for XDP programs to send frames out at."""
        from pyebpf.maps.redirect import RedirectMap

        return self.declare(RedirectMap(name, MapType.DEVMAP, size))

    def devmap_hash(self, *, size: int, name: str = "") -> RedirectMap:
        """Interfaces under any numbers, at most `size`."""
        from pyebpf.maps.redirect import RedirectMap

        return self.declare(RedirectMap(name, MapType.DEVMAP_HASH, size))

    def cpumap(self, *, size: int, name: str = "") -> RedirectMap:
        """Processors, by their numbers, for XDP programs to hand frames to; the value is how many may wait there."""
        from pyebpf.maps.redirect import RedirectMap

        return self.declare(RedirectMap(name, MapType.CPUMAP, size))

    def xskmap(self, *, size: int, name: str = "") -> RedirectMap:
        """AF_XDP sockets under the indices from 0, usually of the queue: frames go to user space as they are."""
        from pyebpf.maps.redirect import RedirectMap

        return self.declare(RedirectMap(name, MapType.XSKMAP, size))

    def sockmap(self, *, size: int, name: str = "") -> SocketMap[int]:
        """`size` sockets under the indices from 0, none at first, for sk_msg, sk_skb, sk_lookup and sock_ops."""
        from pyebpf.maps.sockmap import SocketMap

        return self.declare(SocketMap(name, MapType.SOCKMAP, None, size))

    def sockhash(self, *, key: type[K], size: int, name: str = "") -> SocketMap[K]:
        """Sockets by key, at most `size`."""
        from pyebpf.maps.sockmap import SocketMap

        return self.declare(SocketMap(name, MapType.SOCKHASH, key, size))

    def reuseport_sockarray(self, *, size: int, name: str = "") -> SocketMap[int]:
        """`size` listening or UDP sockets with SO_REUSEPORT under the indices from 0, for sk_reuseport programs."""
        from pyebpf.maps.sockmap import SocketMap

        return self.declare(SocketMap(name, MapType.REUSEPORT_SOCKARRAY, None, size))

    # -- of bytes ------------------------------------------------------------------------------------------------------

    def byte_ring(self, *, size: int = DEFAULT_RING, name: str = "") -> ByteRing:
        """A ring buffer of records of any length, `size` bytes in all: a power of two from 4096 on.

        `with ring.reserve(n) as data:` makes one; when there is no room it is dropped and counted.
        """
        from pyebpf.maps.ringbuf import ByteRing

        return self.declare(ByteRing(name, size))

    def arena(self, *, pages: int, name: str = "") -> Arena:
        """Memory of so many pages, all zero, that programs and this process read and write (since Linux 6.9).

        A program can use one arena.
        """
        from pyebpf.maps.arena import Arena

        return self.declare(Arena(name, pages))
