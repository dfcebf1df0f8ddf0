"""AF_XDP sockets (linux/if_xdp.h): memory that the kernel puts frames into, and the rings that say which.

Python has no addresses of this family, so that binding is a plain system call. Rings are single-producer and
single-consumer: a u32 producer's and a u32 consumer's position, each written by one side only, and descriptors between.
"""

from __future__ import annotations

import contextlib
import ctypes
import mmap
import socket
from struct import Struct
from typing import TYPE_CHECKING

from pyebpf.kernel.descriptor import Descriptor
from pyebpf.kernel.memory import Mapping
from pyebpf.kernel.syscall import syscall

if TYPE_CHECKING:
    from collections.abc import Iterator

AF_XDP, SOL_XDP = 44, 283
# Socket options, and where their rings are mapped.
_MMAP_OFFSETS, _RX_RING, _TX_RING, _UMEM_REG, _FILL_RING, _COMPLETION_RING, _STATISTICS = range(1, 8)
_PLACES = {_RX_RING: 0, _TX_RING: 0x8000_0000, _FILL_RING: 0x1_0000_0000, _COMPLETION_RING: 0x1_8000_0000}

# struct xdp_mmap_offsets { struct { __u64 producer, consumer, desc, flags; } rx, tx, fr, cr; };
_OFFSETS = Struct("=16Q")
_ORDER = (_RX_RING, _TX_RING, _FILL_RING, _COMPLETION_RING)
# struct xdp_umem_reg { __u64 addr, len; __u32 chunk_size, headroom; … };
_REGISTER = Struct("=QQII")
# struct sockaddr_xdp { __u16 family, flags; __u32 ifindex, queue_id, shared_umem_fd; };
_ADDRESS = Struct("=HHIII")
# struct xdp_statistics { __u64 rx_dropped, rx_invalid_descs, tx_invalid_descs, rx_ring_full, rx_fill_ring_empty_descs,
# tx_ring_empty_descs; };
_COUNTS = Struct("=6Q")
# struct xdp_desc { __u64 addr; __u32 len, options; }; the fill and completion rings have the address alone.
FRAME, PLACE = Struct("=QII"), Struct("=Q")


class Ring:
    """One ring of `size` descriptors, a power of two, in memory shared with the kernel.

    Positions are loaded and stored four bytes at once, which `struct` does not promise.
    """

    def __init__(self, memory: Mapping, size: int, producer: int, consumer: int, first: int, entry: Struct) -> None:
        self.size = size
        self._memory = memory.view
        self._producer = memory.part(producer, 4, "I")
        self._consumer = memory.part(consumer, 4, "I")
        self._first = first
        self._entry = entry

    def _at(self, position: int) -> int:
        return self._first + (position & (self.size - 1)) * self._entry.size

    def _waiting(self) -> int:
        return self._producer[0] - self._consumer[0] & 0xFFFF_FFFF

    @property
    def free(self) -> int:
        """Number of descriptors that fit."""
        return self.size - self._waiting()

    def put(self, *values: int) -> None:
        """Add a descriptor; there must be room (`free`)."""
        position = self._producer[0]
        self._entry.pack_into(self._memory, self._at(position), *values)
        self._producer[0] = position + 1 & 0xFFFF_FFFF

    def take(self) -> Iterator[tuple[int, ...]]:
        """Take out what is there now, one descriptor after the other."""
        for _ in range(self._waiting()):
            position = self._consumer[0]
            yield self._entry.unpack_from(self._memory, self._at(position))
            self._consumer[0] = position + 1 & 0xFFFF_FFFF


class XskMemory:
    """`chunks` pieces of `chunk` bytes, registered with a new socket, and its four rings; `bind` says of which queue.

    Raises OSError: EAFNOSUPPORT where the kernel has no such sockets, EPERM.
    """

    def __init__(self, chunks: int, chunk: int) -> None:
        self.chunk = chunk
        self.socket = socket.socket(AF_XDP, socket.SOCK_RAW, 0)
        self.descriptor = Descriptor(self.socket.fileno(), "AF_XDP socket", self.socket.close)
        self.area = mmap.mmap(-1, chunks * chunk)
        self._maps: list[Mapping] = []
        try:
            # Through a view that is let go at once: the area can be closed later.
            address = ctypes.addressof(ctypes.c_char.from_buffer(self.area))
            self.socket.setsockopt(SOL_XDP, _UMEM_REG, _REGISTER.pack(address, len(self.area), chunk, 0))
            rings = {which: self._ring(which, chunks) for which in _ORDER}
        except BaseException:
            self.close()
            raise
        self.received, self.sending = rings[_RX_RING], rings[_TX_RING]
        self.fill, self.completed = rings[_FILL_RING], rings[_COMPLETION_RING]

    def _ring(self, which: int, size: int) -> Ring:
        self.socket.setsockopt(SOL_XDP, which, size)
        offsets = _OFFSETS.unpack(self.socket.getsockopt(SOL_XDP, _MMAP_OFFSETS, _OFFSETS.size))
        producer, consumer, first, _ = offsets[4 * _ORDER.index(which) :][:4]
        entry = FRAME if which in (_RX_RING, _TX_RING) else PLACE
        length = first + size * entry.size
        memory = Mapping(self.socket.fileno(), length, offset=_PLACES[which], writable=True)
        self._maps.append(memory)
        return Ring(memory, size, producer, consumer, first, entry)

    def bind(self, interface: int, queue: int) -> None:
        """Begin to serve one queue of an interface, by its index. EBUSY: another socket does; EINVAL: no such queue."""
        address = bytearray(_ADDRESS.pack(AF_XDP, 0, interface, queue, 0))
        syscall("bind", self.socket.fileno(), ctypes.addressof(ctypes.c_char.from_buffer(address)), len(address))

    def kick(self) -> None:
        """Make the kernel send what is in the ring."""
        with contextlib.suppress(BlockingIOError):  # it is at it
            self.socket.send(b"", socket.MSG_DONTWAIT)

    def statistics(self) -> tuple[int, ...]:
        """`struct xdp_statistics`: dropped, invalid received, invalid sent, ring full, none to fill, none to send."""
        return _COUNTS.unpack(self.socket.getsockopt(SOL_XDP, _STATISTICS, _COUNTS.size))

    def close(self) -> None:
        """Give back the socket, then the memory."""
        self.descriptor.close()
        for memory in self._maps:
            memory.close()
        self.area.close()
