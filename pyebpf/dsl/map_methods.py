"""The methods of `Module` that declare maps. What few programs have is imported when it is declared."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from pyebpf.dsl.maps import ArrayMap, HashMap, PerCpuArrayMap, PerCpuHashMap
from pyebpf.module.declared_arguments import checked_methods
from pyebpf.module.module import BaseModule
from pyebpf.uapi.bpf import MapType

K = TypeVar("K")
V = TypeVar("V")
T = TypeVar("T")

if TYPE_CHECKING:
    from pyebpf.dsl.arena import Arena
    from pyebpf.dsl.byte_ring import ByteRing
    from pyebpf.dsl.object_maps import MapOfMaps, ProgramArray, Storage, UserRingBuffer
    from pyebpf.dsl.perf_buffer import PerfBuffer
    from pyebpf.dsl.queue_maps import BloomFilter, QueueMap
    from pyebpf.dsl.redirect_maps import RedirectMap
    from pyebpf.dsl.ring_buffer import RingBuffer
    from pyebpf.dsl.socket_maps import SocketMap
    from pyebpf.dsl.trie_map import TrieMap

    #: A type, or a tuple of such.
    Of: TypeAlias = type[T] | tuple[Any, ...]

__all__ = ["MapMethods"]


DEFAULT_SIZE = 10_240
DEFAULT_RING = 256 * 1024


@checked_methods
class MapMethods(BaseModule):
    """A module's maps: each method that declares one returns it."""

    def hash(self, key: Of[K], value: Of[V], *, size: int = DEFAULT_SIZE, name: str = "") -> HashMap[K, V]:
        """A hash table of at most `size` entries, all processors together.

        When it is full new keys are dropped and counted.
        """
        return self.declare(HashMap(MapType.HASH, key, value, size, name))

    def lru_hash(self, key: Of[K], value: Of[V], *, size: int = DEFAULT_SIZE, name: str = "") -> HashMap[K, V]:
        """A hash table that gives up the entries least recently used when it is full."""
        return self.declare(HashMap(MapType.LRU_HASH, key, value, size, name))

    def percpu_hash(self, key: Of[K], value: Of[V], *, size: int = DEFAULT_SIZE, name: str = "") -> PerCpuHashMap[K, V]:
        """A hash table with a value for each processor under each key. User space reads sums of integers."""
        return self.declare(PerCpuHashMap(MapType.PERCPU_HASH, key, value, size, name))

    def lru_percpu_hash(
        self, key: Of[K], value: Of[V], *, size: int = DEFAULT_SIZE, name: str = ""
    ) -> PerCpuHashMap[K, V]:
        """`percpu_hash` that gives up the entries least recently used when it is full."""
        return self.declare(PerCpuHashMap(MapType.LRU_PERCPU_HASH, key, value, size, name))

    def array(self, value: Of[V], *, size: int = 1, name: str = "", mappable: bool = False) -> ArrayMap[V]:
        """`size` values that always exist, zero at first, under the indices from 0.

        A `mappable` one has a `window()`: its memory in this process.
        """
        return self.declare(ArrayMap(MapType.ARRAY, value, size, name, mappable=mappable))

    def lpm_trie(self, key: Any, value: type[V], *, size: int = DEFAULT_SIZE, name: str = "") -> TrieMap[Any, V]:
        """Values by network: a look-up finds the longest prefix of an address. `key` is such as `ipv4_prefix`."""
        from pyebpf.dsl.trie_map import TrieMap

        return self.declare(TrieMap(key, value, size, name))

    def queue(self, value: type[V], *, size: int = DEFAULT_SIZE, name: str = "") -> QueueMap[V]:
        """Values first in, first out, at most `size`. What finds no room is dropped and counted."""
        from pyebpf.dsl.queue_maps import QueueMap

        return self.declare(QueueMap(MapType.QUEUE, value, size, name))

    def stack(self, value: type[V], *, size: int = DEFAULT_SIZE, name: str = "") -> QueueMap[V]:
        """Values last in, first out, at most `size`. What finds no room is dropped and counted."""
        from pyebpf.dsl.queue_maps import QueueMap

        return self.declare(QueueMap(MapType.STACK, value, size, name))

    def bloom_filter(
        self, value: type[V], *, size: int = DEFAULT_SIZE, hashes: int = 5, name: str = ""
    ) -> BloomFilter[V]:
        """Whether a value was added: a False is certain; wrong Trues grow as more than `size` values are added."""
        from pyebpf.dsl.queue_maps import BloomFilter

        return self.declare(BloomFilter(value, size, hashes, name))

    def perf_buffer(self, record: type[V], *, pages: int = 8, overwrite: bool = False, name: str = "") -> PerfBuffer[V]:
        """Records through perf buffers of `pages` pages for each processor: for kernels older than the ring buffer.

        With `overwrite`, full buffers give up their oldest records: a flight recorder. Records that find no room are
        dropped and counted.
        """
        from pyebpf.dsl.perf_buffer import PerfBuffer

        return self.declare(PerfBuffer(record, pages, overwrite, name))

    def percpu_array(self, value: Of[V], *, size: int = 1, name: str = "") -> PerCpuArrayMap[V]:
        """`array` with a value for each processor. User space reads sums of integers."""
        return self.declare(PerCpuArrayMap(MapType.PERCPU_ARRAY, value, size, name))

    def ringbuf(self, record: type[V], *, size: int = DEFAULT_RING, name: str = "") -> RingBuffer[V]:
        """A ring buffer of records, `size` bytes: a power of two from 4096 on, at least the kernel's page.

        When it is full records are dropped and counted.
        """
        from pyebpf.dsl.ring_buffer import RingBuffer

        return self.declare(RingBuffer(record, size, name))

    # -- of other objects ----------------------------------------------------------------------------------------------

    def array_of_maps(self, shape: V, *, size: int, name: str = "") -> MapOfMaps[int, V]:
        """`size` maps under the indices from 0, none at first, all like the declared map `shape`."""
        from pyebpf.dsl.object_maps import MapOfMaps

        return self.declare(MapOfMaps(MapType.ARRAY_OF_MAPS, None, shape, size, name))

    def hash_of_maps(self, shape: V, *, key: type[K], size: int = DEFAULT_SIZE, name: str = "") -> MapOfMaps[K, V]:
        """Maps by key, at most `size`, all like the declared map `shape`."""
        from pyebpf.dsl.object_maps import MapOfMaps

        return self.declare(MapOfMaps(MapType.HASH_OF_MAPS, key, shape, size, name))

    def program_array(self, *, size: int, name: str = "") -> ProgramArray:
        """`size` places for programs that probes go on with: `steps.tail_call(i)`; `@steps.entry(i, like=probe)`."""
        from pyebpf.dsl.object_maps import ProgramArray

        return self.declare(ProgramArray(size, self, name))

    def task_storage(self, value: type[V], *, name: str = "") -> Storage[V]:
        """A value for each thread (since Linux 5.11)."""
        from pyebpf.dsl.object_maps import Storage

        return self.declare(Storage(MapType.TASK_STORAGE, value, name))

    def sk_storage(self, value: type[V], *, name: str = "") -> Storage[V]:
        """A value for each socket (since Linux 5.2)."""
        from pyebpf.dsl.object_maps import Storage

        return self.declare(Storage(MapType.SK_STORAGE, value, name))

    def inode_storage(self, value: type[V], *, name: str = "") -> Storage[V]:
        """A value for each inode, in LSM programs (since Linux 5.10)."""
        from pyebpf.dsl.object_maps import Storage

        return self.declare(Storage(MapType.INODE_STORAGE, value, name))

    def cgrp_storage(self, value: type[V], *, name: str = "") -> Storage[V]:
        """A value for each control group (since Linux 6.2)."""
        from pyebpf.dsl.object_maps import Storage

        return self.declare(Storage(MapType.CGRP_STORAGE, value, name))

    def user_ringbuf(self, record: type[V], *, size: int = DEFAULT_RING, name: str = "") -> UserRingBuffer[V]:
        """Records from user space to probes, `size` bytes: a power of two from 4096 on, at least the kernel's page."""
        from pyebpf.dsl.object_maps import UserRingBuffer

        return self.declare(UserRingBuffer(record, size, name))

    # -- of the network ------------------------------------------------------------------------------------------------

    def devmap(self, *, size: int, name: str = "") -> RedirectMap:
        """Interfaces under the indices from 0, none at first, for XDP programs to send frames out at."""
        from pyebpf.dsl.redirect_maps import RedirectMap

        return self.declare(RedirectMap(MapType.DEVMAP, size, name))

    def devmap_hash(self, *, size: int, name: str = "") -> RedirectMap:
        """Interfaces under any numbers, at most `size`."""
        from pyebpf.dsl.redirect_maps import RedirectMap

        return self.declare(RedirectMap(MapType.DEVMAP_HASH, size, name))

    def cpumap(self, *, size: int, name: str = "") -> RedirectMap:
        """Processors, by their numbers, for XDP programs to hand frames to; the value is how many may wait there."""
        from pyebpf.dsl.redirect_maps import RedirectMap

        return self.declare(RedirectMap(MapType.CPUMAP, size, name))

    def xskmap(self, *, size: int, name: str = "") -> RedirectMap:
        """AF_XDP sockets under the indices from 0, usually of the queue: frames go to user space as they are."""
        from pyebpf.dsl.redirect_maps import RedirectMap

        return self.declare(RedirectMap(MapType.XSKMAP, size, name))

    def sockmap(self, *, size: int, name: str = "") -> SocketMap[int]:
        """`size` sockets under the indices from 0, none at first, for sk_msg, sk_skb, sk_lookup and sock_ops."""
        from pyebpf.dsl.socket_maps import SocketMap

        return self.declare(SocketMap(MapType.SOCKMAP, None, size, name))

    def sockhash(self, *, key: type[K], size: int, name: str = "") -> SocketMap[K]:
        """Sockets by key, at most `size`."""
        from pyebpf.dsl.socket_maps import SocketMap

        return self.declare(SocketMap(MapType.SOCKHASH, key, size, name))

    def reuseport_sockarray(self, *, size: int, name: str = "") -> SocketMap[int]:
        """`size` listening or UDP sockets with SO_REUSEPORT under the indices from 0, for sk_reuseport programs."""
        from pyebpf.dsl.socket_maps import SocketMap

        return self.declare(SocketMap(MapType.REUSEPORT_SOCKARRAY, None, size, name))

    # -- of bytes ------------------------------------------------------------------------------------------------------

    def byte_ring(self, *, size: int = DEFAULT_RING, name: str = "") -> ByteRing:
        """A ring buffer of records of any length, `size` bytes in all: a power of two from 4096 on.

        `with ring.reserve(n) as data:` makes one; when there is no room it is dropped and counted.
        """
        from pyebpf.dsl.byte_ring import ByteRing

        return self.declare(ByteRing(size, name))

    def arena(self, *, pages: int, name: str = "") -> Arena:
        """Memory of so many pages, all zero, that programs and this process read and write (since Linux 6.9).

        A program can use one arena.
        """
        from pyebpf.dsl.arena import Arena

        return self.declare(Arena(pages, name))
