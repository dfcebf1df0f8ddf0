"""Sockets of descriptors and their addresses, for the socket tools: probe functions, and columns of what they give."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyebpf import cast, current_task, u64
from pyebpf.endpoints import AF_INET, AF_INET6, AF_UNIX, SocketAddress, endpoints, sockaddr
from pyebpf.programs._families import family_name
from pyebpf.tool import Column

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyebpf import KernelObject

#: include/linux/socket.h: connect(2) to an address of this family ends an association.
AF_UNSPEC = 0
#: include/linux/socket.h: data that stays in the queue, and is received once more.
MSG_PEEK = 2
#: include/uapi/linux/stat.h: the type of a file, and that of a socket.
S_IFMT, S_IFSOCK = 0o170000, 0o140000


def socket_of_file(file: KernelObject) -> KernelObject:
    """In a probe: the `struct sock` behind a `struct file`; at address 0, where all fields read 0, if it is no socket.

    A socket cannot be opened by its path, so a file of this type is one of the socket file system.
    """
    address: u64 = 0
    if file.f_inode.i_mode & S_IFMT == S_IFSOCK:
        address = u64(cast("struct socket", file.private_data).sk)
    return cast("struct sock", address)


def socket_of(descriptor: int) -> KernelObject:
    """In a probe: the `struct sock` of a descriptor of the current process; at address 0 if it is no socket's."""
    table = current_task().files.fdt
    address: u64 = 0
    if 0 <= descriptor < table.max_fds:
        address = u64(table.fd[descriptor])
    return socket_of_file(cast("struct file", address))


def inode_of(sk: KernelObject) -> int:
    """In a probe: the number of a socket's inode, which no other socket has for as long as the machine runs."""
    return int(sk.sk_socket.file.f_inode.i_ino)


def is_ip(family: int) -> bool:
    """In a probe: whether sockets of an address family have IP addresses and ports."""
    return family in (AF_INET, AF_INET6)


def unix_name(sk: KernelObject) -> SocketAddress:
    """In a probe: the name that a UNIX socket is bound to; one it accepted has the listener's."""
    bound = cast("struct unix_sock", sk).addr
    return sockaddr(bound.name, bound.len)


def no_address(sk: KernelObject) -> SocketAddress:
    """In a probe: nothing but the family of a socket."""
    return SocketAddress(high=0, low=0, family=sk.__sk_common.skc_family, port=0, length=0, abstract=0, name="")


def bound_to(sk: KernelObject) -> SocketAddress:
    """In a probe: the address that a socket is bound to; of other families than IP and UNIX the family alone."""
    local = no_address(sk)
    if is_ip(local.family):
        ends = endpoints(sk)
        local.high, local.low, local.port = ends.local_high, ends.local_low, ends.local_port
    elif local.family == AF_UNIX:
        local = unix_name(sk)
    return local


def accepted_from(sk: KernelObject) -> SocketAddress:
    """In a probe: the peer of a socket that accept(2) returned; of a UNIX socket the listener's name."""
    peer = no_address(sk)
    if is_ip(peer.family):
        ends = endpoints(sk)
        peer.high, peer.low, peer.port = ends.remote_high, ends.remote_low, ends.remote_port
    elif peer.family == AF_UNIX:
        peer = unix_name(sk)
    return peer


def address_of(key: str) -> Callable[[Any], object]:
    """A column's value: the address of a record's SocketAddress, or a UNIX socket's path; None without one."""

    def address(record: Any) -> object:
        found: SocketAddress = getattr(record, key)
        return found.address or found.path or None

    return address


def port_of(key: str) -> Callable[[Any], int | None]:
    """A column's value: the port of a record's SocketAddress; None for families without ports."""

    def port(record: Any) -> int | None:
        found: SocketAddress = getattr(record, key)
        return None if found.address is None else found.port

    return port


def address_columns(key: str, width: int = 16) -> tuple[Column, ...]:
    """FAM, ADDRESS and PORT of a record's SocketAddress."""
    return (
        Column("FAM", 7, key=lambda record: family_name(getattr(record, key).family), field="family", type="str"),
        Column("ADDRESS", width, key=address_of(key), cut=False, field="address", type="str | None"),
        Column("PORT", 5, ">", key=port_of(key), field="port", type="int | None"),
    )


#: The outcome of a call whose record has `error`, the error's name or None.
RESULT = Column("RESULT", key=lambda call: call.error or "Success", field="error", value="error", type="str | None")
