"""Control groups (version 2): one class a type of program, one row of `HOOKS` a place in it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, NamedTuple

from pyebpf.dataclass import dataclass, replace
from pyebpf.errors import InvalidValue
from pyebpf.specs.attach.base import AttachSpec, KernelRequirement
from pyebpf.uapi.attach_types import AttachType
from pyebpf.uapi.bpf import ProgramType

if TYPE_CHECKING:
    from typing import Self

__all__ = [
    "HOOKS",
    "CgroupAttachSpec",
    "CgroupDevice",
    "CgroupHook",
    "CgroupSkb",
    "CgroupSock",
    "CgroupSockAddr",
    "CgroupSockopt",
    "CgroupSysctl",
    "SockOps",
]


class CgroupHook(NamedTuple):
    """A place in a control group where programs run.

    `spec` is the class below, `results` the least and the greatest number that the verifier lets programs return,
    `text` one line for the docs: when it runs, and what the numbers mean. `release` is the Linux that brought it, where
    that is later than the first that pyebpf runs on.
    """

    spec: str
    attach_type: AttachType
    results: tuple[int, int]
    text: str
    release: str = ""


_REFUSE = (0, 1)
_ALWAYS = (1, 1)
#: Of egress: bit 1 tells TCP of congestion. Of bind: bit 1 passes over CAP_NET_BIND_SERVICE.
_TWO_BITS = (0, 3)

#: Since Linux commit 859051dd165e ("bpf: Implement cgroup sockaddr hooks for unix sockets") (v6.7).
_UNIX = "6.7"

_SKB = "CgroupSkb"
_SOCK = "CgroupSock"
_ADDR = "CgroupSockAddr"

#: By the names that decorators have, less "cgroup_".
HOOKS = {
    "skb_ingress": CgroupHook(_SKB, AttachType.CGROUP_INET_INGRESS, _REFUSE, "a packet for a socket of the group"),
    "skb_egress": CgroupHook(_SKB, AttachType.CGROUP_INET_EGRESS, _TWO_BITS, "a packet of a socket of the group"),
    "sock_create": CgroupHook(_SOCK, AttachType.CGROUP_INET_SOCK_CREATE, _REFUSE, "socket() of an Internet family"),
    "sock_release": CgroupHook(_SOCK, AttachType.CGROUP_INET_SOCK_RELEASE, _REFUSE, "the last close() of a socket"),
    "post_bind4": CgroupHook(_SOCK, AttachType.CGROUP_INET4_POST_BIND, _REFUSE, "an IPv4 socket has got its port"),
    "post_bind6": CgroupHook(_SOCK, AttachType.CGROUP_INET6_POST_BIND, _REFUSE, "an IPv6 socket has got its port"),
    "bind4": CgroupHook(_ADDR, AttachType.CGROUP_INET4_BIND, _TWO_BITS, "bind() to an IPv4 address"),
    "bind6": CgroupHook(_ADDR, AttachType.CGROUP_INET6_BIND, _TWO_BITS, "bind() to an IPv6 address"),
    "connect4": CgroupHook(_ADDR, AttachType.CGROUP_INET4_CONNECT, _REFUSE, "connect() to an IPv4 address"),
    "connect6": CgroupHook(_ADDR, AttachType.CGROUP_INET6_CONNECT, _REFUSE, "connect() to an IPv6 address"),
    "connect_unix": CgroupHook(_ADDR, AttachType.CGROUP_UNIX_CONNECT, _REFUSE, "connect() to a Unix address", _UNIX),
    "sendmsg4": CgroupHook(_ADDR, AttachType.CGROUP_UDP4_SENDMSG, _REFUSE, "a UDP datagram to an IPv4 address"),
    "sendmsg6": CgroupHook(_ADDR, AttachType.CGROUP_UDP6_SENDMSG, _REFUSE, "a UDP datagram to an IPv6 address"),
    "sendmsg_unix": CgroupHook(_ADDR, AttachType.CGROUP_UNIX_SENDMSG, _REFUSE, "a datagram to a Unix address", _UNIX),
    "recvmsg4": CgroupHook(_ADDR, AttachType.CGROUP_UDP4_RECVMSG, _ALWAYS, "a UDP datagram's IPv4 sender"),
    "recvmsg6": CgroupHook(_ADDR, AttachType.CGROUP_UDP6_RECVMSG, _ALWAYS, "a UDP datagram's IPv6 sender"),
    "recvmsg_unix": CgroupHook(_ADDR, AttachType.CGROUP_UNIX_RECVMSG, _ALWAYS, "a Unix datagram's sender", _UNIX),
    "getpeername4": CgroupHook(_ADDR, AttachType.CGROUP_INET4_GETPEERNAME, _ALWAYS, "getpeername(), IPv4"),
    "getpeername6": CgroupHook(_ADDR, AttachType.CGROUP_INET6_GETPEERNAME, _ALWAYS, "getpeername(), IPv6"),
    "getpeername_unix": CgroupHook(_ADDR, AttachType.CGROUP_UNIX_GETPEERNAME, _ALWAYS, "getpeername(), Unix", _UNIX),
    "getsockname4": CgroupHook(_ADDR, AttachType.CGROUP_INET4_GETSOCKNAME, _ALWAYS, "getsockname(), IPv4"),
    "getsockname6": CgroupHook(_ADDR, AttachType.CGROUP_INET6_GETSOCKNAME, _ALWAYS, "getsockname(), IPv6"),
    "getsockname_unix": CgroupHook(_ADDR, AttachType.CGROUP_UNIX_GETSOCKNAME, _ALWAYS, "getsockname(), Unix", _UNIX),
    "getsockopt": CgroupHook("CgroupSockopt", AttachType.CGROUP_GETSOCKOPT, _REFUSE, "getsockopt(), when it returns"),
    "setsockopt": CgroupHook("CgroupSockopt", AttachType.CGROUP_SETSOCKOPT, _REFUSE, "setsockopt(), before it starts"),
    "sysctl": CgroupHook("CgroupSysctl", AttachType.CGROUP_SYSCTL, _REFUSE, "a file under /proc/sys read or written"),
    "device": CgroupHook("CgroupDevice", AttachType.CGROUP_DEVICE, _REFUSE, "a device file opened or made"),
    "sock_ops": CgroupHook("SockOps", AttachType.CGROUP_SOCK_OPS, _REFUSE, "a TCP socket's life: see `ctx.op`"),
}


@dataclass(frozen=True, slots=True)
class CgroupAttachSpec(AttachSpec):
    """A hook (a key of `HOOKS`) of the control group whose directory is `path`; empty for one named later.

    Processes of the groups below it are meant, too.
    """

    hook: str
    path: str = ""

    def __str__(self) -> str:
        return f"cgroup {self.hook}{f' of {self.path}' if self.path else ''}"

    @property
    def attach_type(self) -> int:
        return HOOKS[self.hook].attach_type

    @property
    def requirement(self) -> KernelRequirement | None:
        hook = HOOKS[self.hook]
        if not hook.release:
            return None
        return KernelRequirement(
            f"attach:{hook.attach_type.name.lower()}",
            f"hook {self.hook}",
            hook.release,
            "CONFIG_CGROUP_BPF",
            "@bpf.lsm_cgroup takes security hooks of sockets, such as unix_stream_connect",
        )

    @property
    def target(self) -> str:
        return self.path

    @property
    def is_open(self) -> bool:
        return not self.path

    def at(self, *place: Any, **options: Any) -> Self:
        """`probe.attach(path)`: the directory, as text, as a path, or as what has its descriptor."""
        if not self.is_open:
            AttachSpec.at(self, *place, **options)
        if len(place) != 1 or options:
            raise InvalidValue(f"{self} is attached by probe.attach(path), the directory of a control group")
        return replace(self, path=directory(place[0]))


def directory(place: Any) -> str:
    """The path of what an author names a directory by. Raises InvalidValue."""
    if isinstance(place, int) or hasattr(place, "fileno"):
        return f"/proc/self/fd/{place if isinstance(place, int) else place.fileno()}"
    try:
        path = os.fspath(place)
    except TypeError:
        path = ""
    if not isinstance(path, str) or not path:
        raise InvalidValue(f"{place!r} names no control group: give its directory, such as /sys/fs/cgroup/mine")
    return path


class CgroupSkb(CgroupAttachSpec):
    """Packets (BPF_PROG_TYPE_CGROUP_SKB)."""

    __slots__ = ()
    kind = ProgramType.CGROUP_SKB


class CgroupSock(CgroupAttachSpec):
    """Sockets made, bound and closed (BPF_PROG_TYPE_CGROUP_SOCK)."""

    __slots__ = ()
    kind = ProgramType.CGROUP_SOCK


class CgroupSockAddr(CgroupAttachSpec):
    """Addresses on their way in and out of system calls (BPF_PROG_TYPE_CGROUP_SOCK_ADDR)."""

    __slots__ = ()
    kind = ProgramType.CGROUP_SOCK_ADDR


class CgroupSockopt(CgroupAttachSpec):
    """Socket options (BPF_PROG_TYPE_CGROUP_SOCKOPT)."""

    __slots__ = ()
    kind = ProgramType.CGROUP_SOCKOPT


class CgroupSysctl(CgroupAttachSpec):
    """Settings under /proc/sys (BPF_PROG_TYPE_CGROUP_SYSCTL)."""

    __slots__ = ()
    kind = ProgramType.CGROUP_SYSCTL


class CgroupDevice(CgroupAttachSpec):
    """Device files (BPF_PROG_TYPE_CGROUP_DEVICE)."""

    __slots__ = ()
    kind = ProgramType.CGROUP_DEVICE


class SockOps(CgroupAttachSpec):
    """Events of TCP sockets (BPF_PROG_TYPE_SOCK_OPS)."""

    __slots__ = ()
    kind = ProgramType.SOCK_OPS
