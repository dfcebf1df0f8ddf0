"""Waiting for descriptors: level-triggered epoll with finite timeouts."""

from __future__ import annotations

import select

from pyebpf.closing import Closing
from pyebpf.kernel.descriptor import Descriptor


class Epoll(Closing):
    """An epoll instance. `wait` gives the descriptors that are readable.

    Never edge-triggered: a Python reader cannot order its store of the consumer position before its load of the
    producer's, so an edge could be missed for good.
    """

    __slots__ = ("_descriptor", "_epoll")

    def __init__(self, *fds: int) -> None:
        self._epoll = select.epoll()
        self._descriptor = Descriptor(self._epoll.fileno(), "epoll", self._epoll.close)
        for fd in fds:
            self.add(fd)

    def add(self, fd: int) -> None:
        """Watch `fd` for input."""
        self._epoll.register(fd, select.EPOLLIN)

    def fileno(self) -> int:
        """Readable whenever one of the descriptors is: for other event loops."""
        return self._descriptor.fileno()

    def wait(self, timeout: float) -> list[int]:
        """Descriptors that are readable, after at most `timeout` seconds (>= 0)."""
        return [fd for fd, _ in self._epoll.poll(timeout)]

    def close(self) -> None:
        self._descriptor.close()


def writable_within(fd: int, timeout: float) -> bool:
    """Whether the descriptor takes output now or within `timeout` seconds (>= 0)."""
    poll = select.poll()
    poll.register(fd, select.POLLOUT)
    return bool(poll.poll(1000 * timeout))
