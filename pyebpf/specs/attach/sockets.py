"""Sockets: filters on one, the choice among several, verdicts on what moves between them."""

from __future__ import annotations

import os
from typing import Any

from pyebpf.dataclass import dataclass, field, replace
from pyebpf.errors import InvalidValue
from pyebpf.specs.attach.base import AttachSpec
from pyebpf.uapi.attach_types import AttachType
from pyebpf.uapi.bpf import ProgramType

__all__ = ["STREAMS", "FlowDissector", "SkLookup", "SkMsg", "SkReuseport", "SkSkb", "SocketFilter"]

#: Hooks of sk_skb programs: enum bpf_attach_type.
STREAMS = {
    "stream_parser": AttachType.SK_SKB_STREAM_PARSER,
    "stream_verdict": AttachType.SK_SKB_STREAM_VERDICT,
    "verdict": AttachType.SK_SKB_VERDICT,
}


def _one(spec: AttachSpec, what: str, place: tuple[Any, ...], options: dict[str, Any]) -> Any:
    """The only argument of `attach`. Raises InvalidValue."""
    if not spec.is_open:
        AttachSpec.at(spec, *place, **options)
    if len(place) != 1 or options:
        raise InvalidValue(f"{spec} is attached by probe.attach({what})")
    return place[0]


@dataclass(frozen=True, slots=True)
class _OnSocket(AttachSpec):
    """Something done to one socket, which is an object of the process: named by `probe.attach(socket)` only."""

    socket: Any = field(default=None, compare=False, repr=False)

    @property
    def is_open(self) -> bool:
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
            raise InvalidValue(f"{self.socket!r} is no socket: give one, or its descriptor")
        return int(self.socket.fileno())


@dataclass(frozen=True, slots=True)
class SocketFilter(_OnSocket):
    """A filter of what a socket receives (SO_ATTACH_BPF).

    With `reuseport` it chooses by its result among the sockets that share the port (SO_ATTACH_REUSEPORT_EBPF).
    """

    reuseport: bool = False

    kind = ProgramType.SOCKET_FILTER

    def __str__(self) -> str:
        return f"{'reuseport' if self.reuseport else 'filter'}{self._suffix() or ' of a socket'}"

    def at(self, *place: Any, **options: Any) -> SocketFilter:
        """`probe.attach(socket)`, `probe.attach(socket, reuseport=True)`."""
        reuseport = bool(options.pop("reuseport", False))
        return replace(self, socket=_one(self, "socket", place, options), reuseport=reuseport)


@dataclass(frozen=True, slots=True)
class SkReuseport(_OnSocket):
    """The choice among the sockets that share a port. With `migrate`, also where connections of a closed one go."""

    migrate: bool = False

    kind = ProgramType.SK_REUSEPORT

    def __str__(self) -> str:
        return f"sk_reuseport{self._suffix() or ' of a group of sockets'}"

    @property
    def attach_type(self) -> int:
        return AttachType.SK_REUSEPORT_SELECT_OR_MIGRATE if self.migrate else AttachType.SK_REUSEPORT_SELECT

    def at(self, *place: Any, **options: Any) -> SkReuseport:
        """`probe.attach(socket)`, any socket of the group."""
        return replace(self, socket=_one(self, "socket", place, options))


@dataclass(frozen=True, slots=True)
class _InNamespace(AttachSpec):
    """One place for each network namespace: `netns` is a file of it, empty for one named later."""

    netns: str = ""

    @property
    def is_open(self) -> bool:
        return not self.netns

    @property
    def target(self) -> str:
        return self.netns


@dataclass(frozen=True, slots=True)
class SkLookup(_InNamespace):
    """The search for a socket, for each new TCP connection and each UDP datagram that comes into a namespace."""

    kind = ProgramType.SK_LOOKUP

    def __str__(self) -> str:
        return f"sk_lookup of {self.netns or 'a network namespace'}"

    @property
    def attach_type(self) -> int:
        return AttachType.SK_LOOKUP

    def at(self, *place: Any, **options: Any) -> SkLookup:
        """`probe.attach("/proc/PID/ns/net")`, or a name under /run/netns."""
        return replace(self, netns=namespace(_one(self, "namespace", place, options)))


@dataclass(frozen=True, slots=True)
class FlowDissector(_InNamespace):
    """The parser of addresses and ports in packets of a network namespace, in place of the kernel's."""

    kind = ProgramType.FLOW_DISSECTOR

    def __str__(self) -> str:
        return f"flow_dissector of {self.netns or 'a network namespace'}"

    @property
    def attach_type(self) -> int:
        return AttachType.FLOW_DISSECTOR

    def at(self, *place: Any, **options: Any) -> FlowDissector:
        """`probe.attach("/proc/PID/ns/net")`, or a name under /run/netns."""
        return replace(self, netns=namespace(_one(self, "namespace", place, options)))


def namespace(place: Any) -> str:
    """The file of a network namespace: a path, or a name that `ip netns` knows. Raises InvalidValue."""
    try:
        path = os.fspath(place)
    except TypeError:
        path = ""
    if not isinstance(path, str) or not path:
        raise InvalidValue(f"{place!r} names no network namespace: give a file such as /proc/self/ns/net")
    return path if "/" in path else f"/run/netns/{path}"


@dataclass(frozen=True, slots=True)
class _OnMap(AttachSpec):
    """A program on data of the sockets in a sockmap or sockhash: `map` is the declared or loaded map."""

    map: Any = field(default=None, compare=False, repr=False)

    @property
    def is_open(self) -> bool:
        return self.map is None

    @property
    def map_name(self) -> str:
        """The map's name, once it has one."""
        return "a map of sockets" if self.map is None else f"map {getattr(self.map, 'name', self.map)}"


@dataclass(frozen=True, slots=True)
class SkMsg(_OnMap):
    """Messages that the sockets of a map send."""

    kind = ProgramType.SK_MSG

    def __str__(self) -> str:
        return f"sk_msg of {self.map_name}"

    @property
    def attach_type(self) -> int:
        return AttachType.SK_MSG_VERDICT

    def at(self, *place: Any, **options: Any) -> SkMsg:
        """`probe.attach(map)`."""
        return replace(self, map=_one(self, "map", place, options))


@dataclass(frozen=True, slots=True)
class SkSkb(_OnMap):
    """Data that the sockets of a map receive: `hook` is a key of `STREAMS`."""

    hook: str = "verdict"

    kind = ProgramType.SK_SKB

    def __str__(self) -> str:
        return f"sk_skb {self.hook} of {self.map_name}"

    @property
    def attach_type(self) -> int:
        return STREAMS[self.hook]

    def at(self, *place: Any, **options: Any) -> SkSkb:
        """`probe.attach(map)`."""
        return replace(self, map=_one(self, "map", place, options))
