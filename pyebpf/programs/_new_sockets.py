"""Probes that count new connections by properties of their sockets, for sofamily and soprotocol."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING, Any

from pyebpf import BPF, cast
from pyebpf.filters import TaskFilter
from pyebpf.programs._sockets import AF_UNSPEC, socket_of

if TYPE_CHECKING:
    from collections.abc import Callable

CONNECT, ACCEPT = 0, 1


def count_new_sockets(options: Any, bpf: BPF, count: Callable[[int, Any], None]) -> None:
    """Declare the probes; they call `count`, a probe function, with the call and the `struct sock`."""
    tasks = TaskFilter(options)

    @bpf.system_call("accept", "accept4")
    def on_accept(retval: int) -> None:
        if retval >= 0 and tasks.wanted():
            count(ACCEPT, socket_of(retval))

    @bpf.system_call("connect")
    def on_connect(fd: int, uservaddr: int, retval: int) -> None:
        if retval not in (0, -errno.EINPROGRESS) or not tasks.wanted():
            return
        if cast("struct sockaddr", uservaddr).sa_family != AF_UNSPEC:
            count(CONNECT, socket_of(fd))


def call_name(row: Any) -> str:
    """The call of a row, `connect` or `accept`."""
    return "accept" if row.call == ACCEPT else "connect"
