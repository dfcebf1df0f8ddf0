"""Control groups: hooks for what their processes and sockets do."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, NamedTuple, overload

from pyebpf.attach import struct_fields
from pyebpf.attach.decorators import Decorators, is_decorated
from pyebpf.attach.fields import StructContext
from pyebpf.attach.skb import SkBuffProgramContext
from pyebpf.builder.values.packets import Packet
from pyebpf.builder.values.strings import StringSource
from pyebpf.dataclass import dataclass, replace
from pyebpf.errors import InvalidValue
from pyebpf.specs.attach_point import AttachSpec, KernelRequirement
from pyebpf.uapi.attach_types import AttachType
from pyebpf.uapi.bpf import ProgramType
from pyebpf.uapi.helper_ids import SYSCTL_GET_NAME

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable
    from typing import ParamSpec, Protocol, Self

    from pyebpf.attach.decorators import VerdictDecorator
    from pyebpf.builder.program import ProgramBuilder
    from pyebpf.compiler import ir
    from pyebpf.module.probe import Probe

    P = ParamSpec("P")

    class CgroupDecorator(Protocol):
        """A decorator of programs at a hook of control groups.

        They run in those groups, each named by its directory; without one, where `probe.attach(directory)` says.
        """

        @overload
        def __call__(self, function: Callable[P, int], /) -> Probe[P, int]: ...
        @overload
        def __call__(self, function: Probe[P, int], /) -> Probe[P, int]: ...
        @overload
        def __call__(self, *cgroups: str | os.PathLike[str]) -> VerdictDecorator: ...


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
    def is_deferred(self) -> bool:
        return not self.path

    def with_target(self, *place: object, **options: object) -> Self:
        """`probe.attach(path)`: the directory, as text, as a path, or as what has its descriptor."""
        if not self.is_deferred:
            AttachSpec.with_target(self, *place, **options)
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
    program_type = ProgramType.CGROUP_SKB

    def program_context(self) -> CgroupSkbProgramContext:
        return CgroupSkbProgramContext(self)


class CgroupSock(CgroupAttachSpec):
    """Sockets made, bound and closed (BPF_PROG_TYPE_CGROUP_SOCK)."""

    __slots__ = ()
    program_type = ProgramType.CGROUP_SOCK

    def program_context(self) -> CgroupSockProgramContext:
        return CgroupSockProgramContext(self)


class CgroupSockAddr(CgroupAttachSpec):
    """Addresses on their way in and out of system calls (BPF_PROG_TYPE_CGROUP_SOCK_ADDR)."""

    __slots__ = ()
    program_type = ProgramType.CGROUP_SOCK_ADDR

    def program_context(self) -> CgroupSockAddrProgramContext:
        return CgroupSockAddrProgramContext(self)


class CgroupSockopt(CgroupAttachSpec):
    """Socket options (BPF_PROG_TYPE_CGROUP_SOCKOPT)."""

    __slots__ = ()
    program_type = ProgramType.CGROUP_SOCKOPT

    def program_context(self) -> CgroupSockoptProgramContext:
        return CgroupSockoptProgramContext(self)


class CgroupSysctl(CgroupAttachSpec):
    """Settings under /proc/sys (BPF_PROG_TYPE_CGROUP_SYSCTL)."""

    __slots__ = ()
    program_type = ProgramType.CGROUP_SYSCTL

    def program_context(self) -> CgroupSysctlProgramContext:
        return CgroupSysctlProgramContext(self)


class CgroupDevice(CgroupAttachSpec):
    """Device files (BPF_PROG_TYPE_CGROUP_DEVICE)."""

    __slots__ = ()
    program_type = ProgramType.CGROUP_DEVICE

    def program_context(self) -> CgroupDeviceProgramContext:
        return CgroupDeviceProgramContext(self)


class SockOps(CgroupAttachSpec):
    """Events of TCP sockets (BPF_PROG_TYPE_SOCK_OPS)."""

    __slots__ = ()
    program_type = ProgramType.SOCK_OPS

    def program_context(self) -> SockOpsProgramContext:
        return SockOpsProgramContext(self)


#: Bytes of a name that the kernel gives of a setting, "net/ipv4/ip_forward": more than any has.
SYSCTL_NAME = 128


class CgroupProgramContext(StructContext[CgroupAttachSpec]):
    """Parameters are the fields of the context's struct."""

    @property
    def hook(self) -> str:
        return self.attach.hook

    @property
    def return_range(self) -> tuple[int, int]:
        return HOOKS[self.attach.hook].results

    def code_key(self) -> Hashable:
        return self.attach.hook


class CgroupSkbProgramContext(SkBuffProgramContext[CgroupSkb]):
    """A packet, from its network header on: fields of struct __sk_buff."""

    @property
    def return_range(self) -> tuple[int, int]:
        return HOOKS[self.attach.hook].results

    def code_key(self) -> Hashable:
        return self.attach.hook


class CgroupSockProgramContext(CgroupProgramContext):
    """A socket that is made, bound or closed."""

    table = struct_fields.SOCK


class CgroupSockAddrProgramContext(CgroupProgramContext):
    """An address that a system call was given, or is about to give."""

    table = struct_fields.SOCK_ADDR


class CgroupSockoptProgramContext(CgroupProgramContext):
    """A socket option. `optval` is the memory of its value, one page of it at most."""

    table = struct_fields.SOCKOPT
    memory_name = "optval"

    def memory(self) -> Packet:
        return Packet((8, 16), None, width=8, writable=True, copies=False, name="the option's value")


class CgroupDeviceProgramContext(CgroupProgramContext):
    """A device file. `access_type` is what for (BPF_DEVCG_ACC_*), shifted by 16, and the kind of device."""

    table = struct_fields.CGROUP_DEVICE


class SockOpsProgramContext(CgroupProgramContext):
    """An event of a TCP socket, `op` (BPF_SOCK_OPS_*)."""

    table = struct_fields.SOCK_OPS


class CgroupSysctlProgramContext(CgroupProgramContext):
    """Beside the struct's fields there is `name`, the setting's path below /proc/sys."""

    table = struct_fields.SYSCTL

    def field(self, p: ProgramBuilder, name: str) -> object:
        if name != "name":
            return super().field(p, name)

        def read_into(program: ProgramBuilder, destination: ir.Value, size: int) -> None:
            program.b.call(SYSCTL_GET_NAME, program.context, destination, program.b.const(size), program.b.const(0))

        return StringSource("the setting's name", read_into, SYSCTL_NAME, p.b.where)


_SPECS: dict[str, type[CgroupAttachSpec]] = {
    each.__name__: each
    for each in (CgroupSkb, CgroupSock, CgroupSockAddr, CgroupSockopt, CgroupSysctl, CgroupDevice, SockOps)
}


class Hook:
    """A method of Module: the decorator of one hook, whose name is the attribute's without "cgroup_"."""

    def __set_name__(self, owner: type, name: str) -> None:
        self.decorator = name
        self.hook = name.removeprefix("cgroup_")

    @overload
    def __get__(self, module: None, owner: type) -> Self: ...
    @overload
    def __get__(self, module: CgroupDecorators, owner: type) -> CgroupDecorator: ...
    def __get__(self, module: CgroupDecorators | None, owner: type) -> object:
        if module is None:
            return self
        hook = HOOKS[self.hook]
        spec = _SPECS[hook.spec]
        make = module._verdict

        def decorate(*cgroups: object) -> Any:
            if len(cgroups) == 1 and is_decorated(cgroups[0]):
                return decorate()(cgroups[0])
            paths = [directory(each) for each in cgroups]
            places = [spec(self.hook, path) for path in paths] or [spec(self.hook)]
            return make(self.decorator, tuple(paths), places)

        decorate.__name__ = self.decorator
        least, most = hook.results
        results = f"{least} or {most}" if least < most == 1 else f"{least} to {most}" if least < most else str(most)
        decorate.__doc__ = f"Run in control groups at {hook.text}. Programs return {results}."
        return decorate


class CgroupDecorators(Decorators):
    """Programs of control groups. Each decorator takes directories, or none: `probe.attach(directory)` names it."""

    cgroup_skb_ingress = Hook()
    cgroup_skb_egress = Hook()
    cgroup_sock_create = Hook()
    cgroup_sock_release = Hook()
    cgroup_post_bind4 = Hook()
    cgroup_post_bind6 = Hook()
    cgroup_bind4 = Hook()
    cgroup_bind6 = Hook()
    cgroup_connect4 = Hook()
    cgroup_connect6 = Hook()
    cgroup_connect_unix = Hook()
    cgroup_sendmsg4 = Hook()
    cgroup_sendmsg6 = Hook()
    cgroup_sendmsg_unix = Hook()
    cgroup_recvmsg4 = Hook()
    cgroup_recvmsg6 = Hook()
    cgroup_recvmsg_unix = Hook()
    cgroup_getpeername4 = Hook()
    cgroup_getpeername6 = Hook()
    cgroup_getpeername_unix = Hook()
    cgroup_getsockname4 = Hook()
    cgroup_getsockname6 = Hook()
    cgroup_getsockname_unix = Hook()
    cgroup_getsockopt = Hook()
    cgroup_setsockopt = Hook()
    cgroup_sysctl = Hook()
    cgroup_device = Hook()
    cgroup_sock_ops = Hook()
