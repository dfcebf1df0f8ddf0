"""Maps of sockets, as their users see them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar

from pyebpf.builder.socket_maps import SocketMapEntity
from pyebpf.dsl.maps import Bound, bpf_type
from pyebpf.maps.mapping import StoredObjectArray
from pyebpf.specs.maps import map_size
from pyebpf.types import U32

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Protocol

    from pyebpf.uapi.bpf import MapType

    class HasDescriptor(Protocol):
        """A socket."""

        def fileno(self) -> int: ...


__all__ = ["SocketMap"]

K = TypeVar("K")


class SocketMap(Bound, StoredObjectArray[K], SocketMapEntity, Generic[K]):
    """`bpf.sockmap(size=N)`, `bpf.sockhash(key=K)`, `bpf.reuseport_sockarray(size=N)`.

    In user space `sockets[k] = socket` puts one in, `del sockets[k]` takes it out; it goes by itself when it is closed.
    """

    def __init__(self, kind: MapType, key: Any, size: int, name: str) -> None:
        self.name = name
        found = U32 if key is None else bpf_type(key, "key")
        SocketMapEntity.__init__(self, self.current_name, kind, found, map_size(size))

    def cookies(self) -> Mapping[K, int]:
        """The entries: each socket's cookie (SO_COOKIE), by key."""
        return self.snapshot()

    if TYPE_CHECKING:

        def redirect(self, key: K, *, ingress: bool = False) -> int:
            """In sk_msg and sk_skb programs: hand the data to that socket; SK_PASS, or SK_DROP if there is none.

            With `ingress` as if the socket had received it, else as if it had sent it.
            """

        def update(self, key: K, flags: int = 0) -> int:  # type: ignore[override]  # as a probe writes it
            """In sock_ops programs: put the socket of the event into the map; 0 or a negative errno."""

        def select(self, key: K) -> int:
            """In sk_reuseport programs: that socket gets it; 0 or a negative errno, such as that of no such entry."""

        def assign(self, key: K, flags: int = 0) -> int:
            """In sk_lookup and tc programs: that socket gets it; 0 or a negative errno, such as that of no such entry.

            `flags` are BPF_SK_LOOKUP_F_*.
            """
