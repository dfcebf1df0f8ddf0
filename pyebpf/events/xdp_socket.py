"""`XdpSocket`: frames of an XDP program in user space, as they came, past the kernel's network stack."""

from __future__ import annotations

import errno
import select

from pyebpf.closing import Closing
from pyebpf.errors import InvalidValue, NotSupported
from pyebpf.kernel.errors_in_words import kernel_error
from pyebpf.kernel.interfaces import interface_index
from pyebpf.kernel.xsk import XskMemory

_CHUNK = 2048
_MAX_CHUNKS = 1 << 16


class XdpSocket(Closing):
    """An AF_XDP socket on one queue of an interface: frames that a program redirects to it are received here.

        sockets = bpf.xskmap(size=1)
        ...                         # in the program: return sockets.redirect(ctx.rx_queue_index, XDP_PASS)
        with bpf, XdpSocket("eth0") as frames:
            sockets[0] = frames
            for frame in frames.receive(timeout=1.0):
                ...

    `size` frames can wait, a power of two; half of its memory is for sending. A frame has at most 2,048 bytes less what
    the driver keeps. Raises NotFound, NotSupported, NotPermitted, KernelError.
    """

    def __init__(self, interface: str, queue: int = 0, *, size: int = 1024) -> None:
        if not 0 < size <= _MAX_CHUNKS or size & (size - 1):
            raise InvalidValue(f"size={size}: a power of two from 1 to {_MAX_CHUNKS}")
        index = interface_index(interface)
        what = f"AF_XDP socket on {interface}, queue {queue}"
        try:
            self._memory = XskMemory(2 * size, _CHUNK)
        except OSError as error:
            meanings = {errno.EAFNOSUPPORT: NotSupported(f"{what}: this kernel has no AF_XDP sockets (EAFNOSUPPORT)")}
            raise kernel_error(error, f"opening an {what}", needs=("CAP_NET_RAW",), meanings=dict(meanings)) from error
        try:
            for number in range(size):
                self._memory.fill.put(number * _CHUNK)
            self._memory.bind(index, queue)
        except OSError as error:
            self.close()
            raise kernel_error(
                error,
                f"opening an {what}",
                needs=("CAP_NET_RAW",),
                meanings={
                    errno.EBUSY: "another socket serves that queue",
                    errno.EINVAL: "the interface has no such queue",
                    errno.ENETDOWN: f"{interface} is down",
                },
            ) from error
        self._to_send = [(size + number) * _CHUNK for number in range(size)]

    def fileno(self) -> int:
        """The descriptor, for an xskmap and for poll: readable when frames wait."""
        return self._memory.descriptor.fileno()

    def receive(self, timeout: float | None = 0) -> list[bytes]:
        """Every frame that waits; if there is none, what has come after at most `timeout` seconds (None: for ever)."""
        frames = self._take()
        if not frames and timeout != 0:
            select.select([self], [], [], timeout)
            frames = self._take()
        return frames

    def _take(self) -> list[bytes]:
        memory = self._memory
        frames = []
        for address, length, _ in memory.received.take():
            frames.append(memory.area[address : address + length])
            memory.fill.put(address - address % _CHUNK)
        return frames

    def send(self, frame: bytes) -> bool:
        """Send a frame out at the interface; False if there is no room now. Raises InvalidValue for one too long."""
        if not 0 < len(frame) <= _CHUNK:
            raise InvalidValue(f"a frame of {len(frame)} bytes: it has 1 to {_CHUNK}")
        memory = self._memory
        self._to_send += [address for (address,) in memory.completed.take()]
        if not self._to_send or not memory.sending.free:
            memory.kick()
            return False
        address = self._to_send.pop()
        memory.area[address : address + len(frame)] = frame
        memory.sending.put(address, len(frame), 0)
        memory.kick()
        return True

    @property
    def lost(self) -> int:
        """Frames that were redirected to it and found no room, or were too long."""
        dropped, _, _, full, _, _ = self._memory.statistics()
        return dropped + full

    def close(self) -> None:
        """Close it; the map forgets it. A second call does nothing."""
        self._memory.close()
