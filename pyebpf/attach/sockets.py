"""Sockets: filters, look-ups, what their maps send and receive."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from pyebpf.attach import struct_fields
from pyebpf.attach.decorators import Decorators, network_namespace, optional_arguments
from pyebpf.attach.fields import StructContext
from pyebpf.attach.skb import ENDS, SkBuffProgramContext
from pyebpf.builder.values.packets import Packet
from pyebpf.dataclass import dataclass, field, replace
from pyebpf.errors import InvalidValue
from pyebpf.specs.attach_point import AttachSpec, KernelRequirement
from pyebpf.uapi.attach_types import AttachType
from pyebpf.uapi.bpf import ProgramType

if TYPE_CHECKING:
    import os
    from collections.abc import Hashable

    from pyebpf.attach.decorators import VerdictDecorator
    from pyebpf.builder.values.map_pointers import MapPointer


#: Hooks of sk_skb programs: enum bpf_attach_type.
STREAMS = {
    "stream_parser": AttachType.SK_SKB_STREAM_PARSER,
    "stream_verdict": AttachType.SK_SKB_STREAM_VERDICT,
    "verdict": AttachType.SK_SKB_VERDICT,
}


def _one(spec: AttachSpec, what: str, place: tuple[object, ...], options: dict[str, object]) -> object:
    """The only argument of `attach`. Raises InvalidValue."""
    if not spec.is_deferred:
        AttachSpec.with_target(spec, *place, **options)
    if len(place) != 1 or options:
        raise InvalidValue(f"{spec} is attached by probe.attach({what})")
    return place[0]


@dataclass(frozen=True, slots=True)
class _OnSocket(AttachSpec):
    """Something done to one socket, which is an object of the process: named by `probe.attach(socket)` only."""

    socket: object = field(default=None, compare=False, repr=False)

    @property
    def is_deferred(self) -> bool:
        return self.socket is None

    def _suffix(self) -> str:
        return (
            "" if self.socket is None else f" of socket {self.socket if isinstance(self.socket, int) else self.number}"
        )

    @property
    def number(self) -> int:
        """The socket's descriptor; -1 once it is closed. Raises InvalidValue for what has none."""
        if isinstance(self.socket, int):
            return self.socket
        if not hasattr(self.socket, "fileno"):
            raise InvalidValue(f"{self.socket!r} is not a socket: give one, or its descriptor")
        return int(self.socket.fileno())


@dataclass(frozen=True, slots=True)
class SocketFilter(_OnSocket):
    """A filter of what a socket receives (SO_ATTACH_BPF).

    With `reuseport` it chooses by its result among the sockets that share the port (SO_ATTACH_REUSEPORT_EBPF).
    """

    reuseport: bool = False

    program_type = ProgramType.SOCKET_FILTER

    def __str__(self) -> str:
        return f"{'reuseport' if self.reuseport else 'filter'}{self._suffix() or ' of a socket'}"

    def with_target(self, *place: object, **options: object) -> SocketFilter:
        """`probe.attach(socket)`, `probe.attach(socket, reuseport=True)`."""
        reuseport = bool(options.pop("reuseport", False))
        return replace(self, socket=_one(self, "socket", place, options), reuseport=reuseport)

    def program_context(self) -> SocketFilterProgramContext:
        return SocketFilterProgramContext(self)


@dataclass(frozen=True, slots=True)
class SkReuseport(_OnSocket):
    """The choice among the sockets that share a port. With `migrate`, also where connections of a closed one go."""

    migrate: bool = False

    program_type = ProgramType.SK_REUSEPORT

    def __str__(self) -> str:
        return f"sk_reuseport{self._suffix() or ' of a group of sockets'}"

    @property
    def attach_type(self) -> int:
        return AttachType.SK_REUSEPORT_SELECT_OR_MIGRATE if self.migrate else AttachType.SK_REUSEPORT_SELECT

    def with_target(self, *place: object, **options: object) -> SkReuseport:
        """`probe.attach(socket)`, any socket of the group."""
        return replace(self, socket=_one(self, "socket", place, options))

    def program_context(self) -> SkReuseportProgramContext:
        return SkReuseportProgramContext(self)


@dataclass(frozen=True, slots=True)
class _InNamespace(AttachSpec):
    """One place for each network namespace: `netns` is a file of it, empty for one named later."""

    netns: str = ""

    @property
    def is_deferred(self) -> bool:
        return not self.netns

    @property
    def target(self) -> str:
        return self.netns

    def with_target(self, *place: object, **options: object) -> Self:
        """`probe.attach("/proc/PID/ns/net")`, or a name under /run/netns."""
        return replace(self, netns=network_namespace(_one(self, "namespace", place, options)))


@dataclass(frozen=True, slots=True)
class SkLookup(_InNamespace):
    """The search for a socket, for each new TCP connection and each UDP datagram that comes into a namespace."""

    program_type = ProgramType.SK_LOOKUP
    attach_type = AttachType.SK_LOOKUP

    def __str__(self) -> str:
        return f"sk_lookup of {self.netns or 'a network namespace'}"

    def program_context(self) -> SkLookupProgramContext:
        return SkLookupProgramContext(self)


@dataclass(frozen=True, slots=True)
class FlowDissector(_InNamespace):
    """The parser of addresses and ports in packets of a network namespace, in place of the kernel's."""

    program_type = ProgramType.FLOW_DISSECTOR
    attach_type = AttachType.FLOW_DISSECTOR

    def __str__(self) -> str:
        return f"flow_dissector of {self.netns or 'a network namespace'}"

    def program_context(self) -> FlowDissectorProgramContext:
        return FlowDissectorProgramContext(self)


@dataclass(frozen=True, slots=True)
class _OnMap(AttachSpec):
    """A program on data of the sockets in a sockmap or sockhash: `map` is the declared or loaded map."""

    map: object = field(default=None, compare=False, repr=False)

    @property
    def is_deferred(self) -> bool:
        return self.map is None

    def with_target(self, *place: object, **options: object) -> Self:
        """`probe.attach(map)`."""
        return replace(self, map=_one(self, "map", place, options))

    @property
    def map_name(self) -> str:
        """The map's name, once it has one."""
        return "a map of sockets" if self.map is None else f"map {getattr(self.map, 'name', self.map)}"


@dataclass(frozen=True, slots=True)
class SkMsg(_OnMap):
    """Messages that the sockets of a map send."""

    program_type = ProgramType.SK_MSG
    attach_type = AttachType.SK_MSG_VERDICT

    def __str__(self) -> str:
        return f"sk_msg of {self.map_name}"

    def program_context(self) -> SkMsgProgramContext:
        return SkMsgProgramContext(self)


#: Since Linux commit a7ba4558e69a ("sock_map: Introduce BPF_SK_SKB_VERDICT") (v5.13).
_VERDICT_WITHOUT_PARSER = KernelRequirement(
    "attach:sk_skb", "sk_skb verdicts on all kinds of sockets", "5.13", "", "of TCP, @bpf.sk_skb_stream_verdict judges"
)


@dataclass(frozen=True, slots=True)
class SkSkb(_OnMap):
    """Data that the sockets of a map receive: `hook` is a key of `STREAMS`."""

    hook: str = "verdict"

    program_type = ProgramType.SK_SKB

    def __str__(self) -> str:
        return f"sk_skb {self.hook} of {self.map_name}"

    @property
    def attach_type(self) -> int:
        return STREAMS[self.hook]

    @property
    def requirement(self) -> KernelRequirement | None:
        return _VERDICT_WITHOUT_PARSER if self.hook == "verdict" else None

    def program_context(self) -> SkSkbProgramContext:
        return SkSkbProgramContext(self)


#: SK_DROP and SK_PASS.
_VERDICTS = (0, 1)


class SocketFilterProgramContext(SkBuffProgramContext[SocketFilter]):
    """Fields of struct __sk_buff; the packet is read by copies. At TCP and UDP it begins with their header."""

    direct = False


class SkSkbProgramContext(SkBuffProgramContext[SkSkb]):
    """Fields of struct __sk_buff."""

    changes = True


class SkReuseportProgramContext(StructContext[SkReuseport]):
    """Parameters are the fields of struct sk_reuseport_md."""

    table = struct_fields.SK_REUSEPORT
    limits = _VERDICTS

    def memory(self) -> Packet:
        return Packet((0, 8), 16, width=8, writable=False)


class SkLookupProgramContext(StructContext[SkLookup]):
    """Parameters are the fields of struct bpf_sk_lookup."""

    table = struct_fields.SK_LOOKUP
    limits = _VERDICTS

    def code_key(self) -> Hashable:
        return "sk_lookup"


class SkMsgProgramContext(StructContext[SkMsg]):
    """Parameters are the fields of struct sk_msg_md; `packet` is what of the message the program sees at once."""

    table = struct_fields.SK_MSG
    limits = _VERDICTS

    def memory(self) -> Packet:
        return Packet((0, 8), None, width=8, writable=True, copies=False, name="the message")


class FlowDissectorProgramContext(StructContext[FlowDissector]):
    """`flow_keys`, whose fields are filled in, and the packet."""

    table = struct_fields.DISSECTED

    def memory(self) -> Packet:
        return Packet(ENDS, None, writable=False)

    def code_key(self) -> Hashable:
        return "flow_dissector"


class SocketDecorators(Decorators):
    """Programs at sockets."""

    @optional_arguments
    def socket_filter(self) -> VerdictDecorator:
        """Run on what a socket receives, after `probe.attach(socket)`: how many bytes of it to keep, 0 to drop it.

        After `probe.attach(socket, reuseport=True)`: which of the sockets that share the port gets it, from 0 in the
        order of their bind().
        """
        return self._verdict("socket_filter", (), (SocketFilter(),))

    @optional_arguments
    def sk_reuseport(self, *, migrate: bool = False) -> VerdictDecorator:
        """Choose among sockets that share a port, after `probe.attach(socket)` for any of them: SK_PASS or SK_DROP.

        `map.select(k)` of a reuseport_sockarray chooses. With `migrate`, also where the connections of a closed one go.
        """
        return self._verdict("sk_reuseport", (), (SkReuseport(migrate=migrate),))

    @optional_arguments
    def sk_lookup(self, *namespaces: str | os.PathLike[str]) -> VerdictDecorator:
        """Choose the socket for new connections and datagrams in network namespaces: SK_PASS or SK_DROP.

        `map.assign(k)` of a sockmap chooses. A namespace is a file such as "/proc/self/ns/net", or a name under
        /run/netns; without one `probe.attach(namespace)` names it.
        """
        paths = tuple(network_namespace(each) for each in namespaces)
        return self._verdict("sk_lookup", paths, [SkLookup(path) for path in paths] or [SkLookup()])

    @optional_arguments
    def flow_dissector(self, *namespaces: str | os.PathLike[str]) -> VerdictDecorator:
        """Fill in `ctx.flow_keys` of each packet in network namespaces.

        Returns BPF_OK, BPF_DROP, or BPF_FLOW_DISSECTOR_CONTINUE for the kernel's own way.
        """
        paths = tuple(network_namespace(each) for each in namespaces)
        return self._verdict("flow_dissector", paths, [FlowDissector(path) for path in paths] or [FlowDissector()])

    @optional_arguments
    def sk_msg(self, sockets: MapPointer | None = None) -> VerdictDecorator:
        """Run on what sockets of a sockmap or sockhash send: SK_PASS or SK_DROP; `map.redirect(k)` sends elsewhere.

        It is for sockets put into the map while it is attached. Without a map `probe.attach(map)` names it.
        """
        return self._verdict("sk_msg", _name(sockets), (SkMsg(sockets),))

    @optional_arguments
    def sk_skb_stream_parser(self, sockets: MapPointer | None = None) -> VerdictDecorator:
        """Cut what sockets of a map receive into messages: the length of the next one; 0 for more data, or an errno."""
        return self._stream("stream_parser", sockets)

    @optional_arguments
    def sk_skb_stream_verdict(self, sockets: MapPointer | None = None) -> VerdictDecorator:
        """Run on each message that sockets of a map receive: SK_PASS or SK_DROP; `map.redirect(k)` sends elsewhere."""
        return self._stream("stream_verdict", sockets)

    @optional_arguments
    def sk_skb_verdict(self, sockets: MapPointer | None = None) -> VerdictDecorator:
        """As `sk_skb_stream_verdict` where no parser is wanted: for UDP and Unix sockets, too."""
        return self._stream("verdict", sockets)

    def _stream(self, hook: str, sockets: MapPointer | None) -> VerdictDecorator:
        return self._verdict(f"sk_skb_{hook}", _name(sockets), (SkSkb(sockets, hook),))


def _name(sockets: Any) -> tuple[str, ...]:
    return () if sockets is None else (sockets.map_name,)
