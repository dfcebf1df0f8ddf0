"""Ends of sockets as fields of records: `endpoints(sk)` and `sockaddr(pointer)` fill them in a probe.

    from pyebpf.endpoints import Endpoints, endpoints

    class Closed(Struct):
        pid: u32
        ends: Endpoints

    closed.emit(Closed(pid=pid(), ends=endpoints(sk)))

In Python `event.ends.local` is an `ipaddress` object, and `event.ends.local_port` a number. The two functions are
written in the language, as a tool's own would be.
"""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address
from typing import TYPE_CHECKING, Any

from pyebpf import cast
from pyebpf.types import Struct, be64, char, field, u8, u16

if TYPE_CHECKING:
    from pyebpf.builder.context import KernelObject

__all__ = ["AF_INET", "AF_INET6", "AF_UNIX", "Endpoints", "SocketAddress", "endpoints", "sockaddr", "with_port"]

# linux/socket.h
AF_UNIX = 1
AF_INET = 2
AF_INET6 = 10
_MAPPED = 0xFFFF << 32  # ::ffff:0:0/96, RFC 4291 section 2.5.5.2


class Endpoints(Struct):
    """Both ends of a socket, 40 bytes: addresses of 16 bytes in network order, ports as numbers.

    An IPv4 address is held as the IPv6 address that stands for it, ::ffff:a.b.c.d, whatever the socket's `family`;
    `local` and `remote` give it as an IPv4Address.
    """

    local_high: be64
    local_low: be64
    remote_high: be64
    remote_low: be64
    local_port: u16
    remote_port: u16
    family: u16

    @property
    def local(self) -> IPv4Address | IPv6Address:
        """The address of this end; 0.0.0.0 or :: of a socket that has none."""
        return _address(self.local_high, self.local_low)

    @property
    def remote(self) -> IPv4Address | IPv6Address:
        """The address of the other end; 0.0.0.0 or :: of a socket that is not connected."""
        return _address(self.remote_high, self.remote_low)

    @property
    def version(self) -> int:
        """The version of IP, 4 or 6; 4 for IPv4 through a socket of IPv6."""
        return self.remote.version

    def as_dict(self) -> dict[str, Any]:
        """Both ends as JSON takes them: addresses as text, ports and the family as numbers."""
        return {
            "local": str(self.local),
            "local_port": self.local_port,
            "remote": str(self.remote),
            "remote_port": self.remote_port,
            "family": self.family,
        }


class SocketAddress(Struct):
    """A socket address of any family, as connect(2) and bind(2) take it.

    `address` and `port` are those of IPv4 and IPv6, `path` a UNIX socket's, whose name takes all of `length` bytes but
    the family's.
    """

    high: be64
    low: be64
    family: u16
    port: u16
    length: u8
    #: Whether `name` is one of the abstract namespace of unix(7).
    abstract: u8
    name: str = field(char[108])

    @property
    def address(self) -> IPv4Address | IPv6Address | None:
        """The IP address; None for other families."""
        return _address(self.high, self.low) if self.family in (AF_INET, AF_INET6) else None

    @property
    def path(self) -> str | None:
        """The path of a UNIX socket, "@NAME" for one of the abstract namespace, empty for one without a name.

        A name of the abstract namespace is cut at a NUL within. None for other families.
        """
        if self.family != AF_UNIX:
            return None
        # Neither kind of name has to end with a NUL.
        raw = self.name.encode("utf-8", "surrogateescape")[: max(self.length - 2 - self.abstract, 0)]
        name = raw.decode("utf-8", "surrogateescape")
        return f"@{name}" if self.abstract and name else name

    def as_dict(self) -> dict[str, Any]:
        """The address as JSON takes it: `family`, and `address` and `port`, or `path`; None where it has no such."""
        address = self.address
        return {
            "family": self.family,
            "address": None if address is None else str(address),
            "port": None if address is None else self.port,
            "path": self.path,
        }

    def __str__(self) -> str:
        address = self.address
        if address is not None:
            return with_port(address, self.port)
        return self.path if self.path is not None else f"address family {self.family}"


def _address(high: int, low: int) -> IPv4Address | IPv6Address:
    if high == 0 and low >> 32 == 0xFFFF:
        return IPv4Address(low & 0xFFFF_FFFF)
    return IPv6Address(high << 64 | low)


def with_port(address: IPv4Address | IPv6Address, port: int) -> str:
    """An address with its port, as URLs write it."""
    return f"[{address}]:{port}" if address.version == 6 else f"{address}:{port}"


def endpoints(sk: KernelObject) -> Endpoints:
    """In a probe: the ends of a socket, a `struct sock *`, of IPv4 or IPv6.

    The local port of a closed socket is the one that it had.
    """
    common = sk.__sk_common
    ends = Endpoints(
        local_high=0,
        local_low=_MAPPED | common.skc_rcv_saddr,
        remote_high=0,
        remote_low=_MAPPED | common.skc_daddr,
        local_port=common.skc_num,
        remote_port=common.skc_dport,
        family=common.skc_family,
    )
    if ends.family == AF_INET6:
        local, remote = common.skc_v6_rcv_saddr.in6_u.u6_addr32, common.skc_v6_daddr.in6_u.u6_addr32
        ends.local_high = local[0] << 32 | local[1]
        ends.local_low = local[2] << 32 | local[3]
        ends.remote_high = remote[0] << 32 | remote[1]
        ends.remote_low = remote[2] << 32 | remote[3]
    if ends.local_port == 0:
        # Given back already; only whole sockets, which alone are closed, have the other.
        ends.local_port = cast("struct inet_sock", sk).inet_sport
    return ends


def sockaddr(pointer: object, length: int = 110) -> SocketAddress:
    """In a probe: the socket address that a `struct sockaddr *` points to, in the kernel's or the process's memory.

    `length` is the one that the call was given with it, bytes; without it a UNIX name ends at a NUL.
    """
    found = SocketAddress(
        high=0,
        low=0,
        family=cast("struct sockaddr", pointer).sa_family,
        port=0,
        length=min(max(length, 0), 110),
        abstract=0,
        name="",
    )
    if found.family == AF_INET:
        four = cast("struct sockaddr_in", pointer)
        found.low = _MAPPED | four.sin_addr.s_addr
        found.port = four.sin_port
    elif found.family == AF_INET6:
        six = cast("struct sockaddr_in6", pointer)
        words = six.sin6_addr.in6_u.u6_addr32
        found.high = words[0] << 32 | words[1]
        found.low = words[2] << 32 | words[3]
        found.port = six.sin6_port
    elif found.family == AF_UNIX:
        found.name = cast("struct sockaddr_un", pointer).sun_path
        if found.name == "":
            found.name = cast("struct sockaddr_un", cast("char *", pointer) + 1).sun_path
            found.abstract = found.name != ""
    return found
