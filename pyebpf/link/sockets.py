"""Programs on a socket of this process: options of setsockopt(2). They go with the socket."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING, Any

from pyebpf.errors import InvalidValue
from pyebpf.link.base import Link, attach_error

if TYPE_CHECKING:
    from pyebpf.link.host import Host
    from pyebpf.objects import Program
    from pyebpf.specs.attach.sockets import SkReuseport, SocketFilter

__all__ = ["SocketLink", "attach_reuseport", "attach_socket_filter"]

# include/uapi/asm-generic/socket.h
_SOL_SOCKET = 1
_SO_DETACH_BPF = 27
_SO_ATTACH_BPF = 50
_SO_ATTACH_REUSEPORT_EBPF = 52
_SO_DETACH_REUSEPORT_BPF = 68


class SocketLink(Link):
    """A program on a socket. It ends with `detach()`, with the socket, or with the process."""

    def __init__(self, target: str, how: str, socket: Any, off: int) -> None:
        super().__init__(target, how, ())
        self._socket: Any = socket
        self._off = off

    @property
    def detached(self) -> bool:
        return self._socket is None or _number(self._socket) < 0

    def detach(self) -> None:
        """Take the program off the socket. A second call does nothing, nor one when the socket is closed."""
        socket, self._socket = self._socket, None
        if socket is None or _number(socket) < 0:
            return
        try:
            _set(socket, self._off, 0)
        except OSError as error:
            if error.errno != errno.ENOENT:  # somebody else took it off
                raise


def attach_socket_filter(program: Program, target: SocketFilter, _: Host) -> Link:
    """Attach `program` (kind SOCKET_FILTER) to `target.socket`, in place of the filter that was there."""
    if target.reuseport:
        return _attach_group(program, target)
    _attach(program, target, _SO_ATTACH_BPF, {errno.EPERM: "its filter is locked (SO_LOCK_FILTER)"})
    return SocketLink(str(target), "SO_ATTACH_BPF", target.socket, _SO_DETACH_BPF)


def attach_reuseport(program: Program, target: SkReuseport, _: Host) -> Link:
    """Attach `program` (kind SK_REUSEPORT) to the group that `target.socket` shares its port with."""
    return _attach_group(program, target)


def _attach_group(program: Program, target: SocketFilter | SkReuseport) -> Link:
    meanings = {errno.EINVAL: "the socket shares no port: set SO_REUSEPORT on it first, before bind()"}
    _attach(program, target, _SO_ATTACH_REUSEPORT_EBPF, meanings)
    return SocketLink(str(target), "SO_ATTACH_REUSEPORT_EBPF", target.socket, _SO_DETACH_REUSEPORT_BPF)


def _attach(program: Program, target: SocketFilter | SkReuseport, option: int, meanings: dict[int, str]) -> None:
    if target.number < 0:
        raise InvalidValue(f"{program.name}: the socket to attach it to is closed")
    try:
        _set(target.socket, option, program.fileno())
    except OSError as error:
        common = {errno.ENOTSOCK: "that descriptor is no socket", errno.EBADF: "that socket is closed"}
        raise attach_error(error, program.name, str(target), meanings={**common, **meanings}) from error


def _number(socket: Any) -> int:
    return socket if isinstance(socket, int) else int(socket.fileno())


def _set(given: Any, option: int, value: int) -> None:
    """setsockopt(SOL_SOCKET, option, value) on a socket, or on a descriptor of one."""
    if hasattr(given, "setsockopt"):
        given.setsockopt(_SOL_SOCKET, option, value)
        return
    from socket import socket

    copy = os.dup(_number(given))
    try:
        same = socket(fileno=copy)
    except OSError:
        os.close(copy)
        raise
    with same:
        same.setsockopt(_SOL_SOCKET, option, value)
