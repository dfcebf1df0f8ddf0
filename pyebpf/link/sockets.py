"""Attach programs to sockets, to the sockets of a map, and to network namespaces."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING, Any

from pyebpf.attach.sockets import FlowDissector, SkLookup, SkMsg, SkReuseport, SkSkb, SocketFilter
from pyebpf.errors import InvalidValue, KernelError, NotFound
from pyebpf.kernel import bpf
from pyebpf.kernel.descriptor import Descriptor
from pyebpf.link.base import Link, attach_error
from pyebpf.link.creation import SpecificError, link_error, make_link, open_place
from pyebpf.uapi.bpf import ProgramType

if TYPE_CHECKING:
    from pyebpf.attach.netfilter import Netfilter
    from pyebpf.link.creation import ErrnoMessages
    from pyebpf.link.host import Host
    from pyebpf.objects import Program

# include/uapi/asm-generic/socket.h
_SOL_SOCKET = 1
_SO_DETACH_BPF = 27
_SO_ATTACH_BPF = 50
_SO_ATTACH_REUSEPORT_EBPF = 52
_SO_DETACH_REUSEPORT_BPF = 68


class SocketLink(Link):
    """A program on a socket. It ends with `detach()`, with the socket, or with the process."""

    def __init__(self, target: str, how: str, socket: object, off: int) -> None:
        super().__init__(target, how, ())
        self._socket = socket
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
        common = {errno.ENOTSOCK: "that descriptor is not a socket", errno.EBADF: "that socket is closed"}
        raise attach_error(error, program.name, str(target), meanings={**common, **meanings}) from error


def _number(socket: Any) -> int:
    return socket if isinstance(socket, int) else int(socket.fileno())


def _set(given: object, option: int, value: int) -> None:
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


_SOCKMAP_MESSAGES: ErrnoMessages = {
    errno.EBUSY: "the map has another program there",
    errno.EINVAL: "that is not a map of sockets, or has a verdict of the other kind",
    errno.EOPNOTSUPP: "that is not a map of sockets",
}


class MapLink(Link):
    """A program that PROG_ATTACH put on a map. The kernel takes it off when no descriptor of the map is left."""

    def __init__(self, target: str, program: Program, map_: Descriptor, attach_type: int) -> None:
        super().__init__(target, "map", (), [map_], program=program)
        self._attached = program
        self._map = map_
        self._attach_type = attach_type

    def detach(self) -> None:
        if self.detached:
            return
        with self._map:
            try:
                bpf.prog_detach(self._map.fileno(), self._attached.fileno(), self._attach_type)
            except OSError as error:
                if error.errno != errno.ENOENT:  # another program took its place
                    raise


def attach_sockmap(program: Program, target: SkMsg | SkSkb, _: Host) -> Link:
    """Attach `program` to a sockmap or sockhash; it sees the sockets that are put into the map from now on.

    Detached, it is given to no other socket; those in the map keep it until they are taken out.
    """
    if not hasattr(target.map, "fileno"):
        raise InvalidValue(f"{program.name}: {target.map!r} is not a map: give a bpf.sockmap(…) or bpf.sockhash(…)")
    number = target.map.fileno()
    try:
        # Since Linux commit 699c23f02c65 ("bpf: Add bpf_link support for sk_msg and sk_skb progs") (v6.10).
        return make_link(program, target, number, "sockmap link", _SOCKMAP_MESSAGES)
    except KernelError as error:
        if error.errno not in (errno.EINVAL, errno.EOPNOTSUPP):
            raise
    try:
        bpf.prog_attach(number, program.fileno(), target.attach_type)
    except OSError as error:
        raise link_error(error, program, target, _SOCKMAP_MESSAGES) from error
    what = str(target)
    return MapLink(what, program, Descriptor(os.dup(number), what), target.attach_type)


_MISSING = "no network namespace {target.netns}: it does not exist, or its process has ended"
_NONE = SpecificError(NotFound, "{target.netns} is not a network namespace: give a file such as /proc/self/ns/net")
#: Errors of a file that is to be a network namespace.
NO_NAMESPACE: ErrnoMessages = {errno.EINVAL: _NONE, errno.EBADF: _NONE}
_TAKEN = "a namespace has one flow dissector, and another is attached there or in the initial namespace"
_NETNS_MESSAGES: ErrnoMessages = {
    **NO_NAMESPACE,
    errno.EEXIST: _TAKEN,
    errno.E2BIG: "64 programs are attached there",
    errno.ENOENT: "the namespace is about to go",
}


def attach_netns(program: Program, target: SkLookup | FlowDissector, _: Host) -> Link:
    """Attach `program` in the namespace whose file is `target.netns`.

    Ends, too, when the namespace goes, which the link does not keep. Raises NotFound for what is no such file.
    """
    meanings = _NETNS_MESSAGES
    if target.program_type is ProgramType.FLOW_DISSECTOR:
        meanings = {**meanings, errno.E2BIG: _TAKEN}
    with open_namespace(program, target) as namespace:
        return make_link(program, target, namespace.fileno(), "netns link", meanings)


def open_namespace(program: Program, target: SkLookup | FlowDissector | Netfilter) -> Descriptor:
    """The namespace that `target` names. Raises NotFound."""
    return open_place(program, target, target.netns, f"network namespace {target.netns}", _MISSING)


ATTACH = {
    FlowDissector: attach_netns,
    SkLookup: attach_netns,
    SkMsg: attach_sockmap,
    SkReuseport: attach_reuseport,
    SkSkb: attach_sockmap,
    SocketFilter: attach_socket_filter,
}
"""The function that attaches a program, by class of its attach spec."""
