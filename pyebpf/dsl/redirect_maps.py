"""Maps that XDP programs redirect through, as their users see them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyebpf.builder.redirect_maps import RedirectMapEntity
from pyebpf.dsl.maps import Bound, map_size
from pyebpf.specs import MapKind

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyebpf.dsl.maps import D

__all__ = ["RedirectMap", "RedirectMaps"]


class RedirectMap(Bound, RedirectMapEntity):
    """`bpf.devmap(size=N)`, `bpf.cpumap(size=N)`, `bpf.xskmap(size=N)`.

    In user space `ports[0] = "eth1"` (or an interface's index), `queues[3] = 192` (frames that may wait for processor
    3), `sockets[0] = socket`; `del` takes it out again.
    """

    def __init__(self, kind: MapKind, size: int, name: str) -> None:
        self.name = name
        RedirectMapEntity.__init__(self, self.current_name, kind, map_size(size))

    def __repr__(self) -> str:
        return f"<RedirectMap {self.current_name()}>"

    def __getitem__(self, key: int) -> int:
        value: int = self.backend[key]
        return value

    def __setitem__(self, key: int, value: Any) -> None:
        self.backend[key] = value

    def __delitem__(self, key: int) -> None:
        del self.backend[key]

    def __contains__(self, key: object) -> bool:
        return key in self.backend

    def __iter__(self) -> Iterator[int]:
        return iter(self.backend)

    def __len__(self) -> int:
        return len(self.backend)

    if TYPE_CHECKING:

        def redirect(self, key: int, flags: int = 0) -> int:
            """In XDP programs: send the frame to what stands under the key. Return what this returns.

            XDP_REDIRECT, or the two low bits of `flags` where nothing does: XDP_ABORTED, or XDP_PASS if given. In a
            devmap, BPF_F_BROADCAST (8) sends it to every interface there, with BPF_F_EXCLUDE_INGRESS (16) but its own.
            """


class RedirectMaps:
    """The methods of `Module` that declare such maps."""

    if TYPE_CHECKING:

        def declare(self, entity: D) -> D:
            """Make a map part of this module, and return it."""

    def devmap(self, *, size: int, name: str = "") -> RedirectMap:
        """Interfaces under the indices from 0, none at first, for XDP programs to send frames out at."""
        return self.declare(RedirectMap(MapKind.DEVMAP, size, name))

    def devmap_hash(self, *, size: int, name: str = "") -> RedirectMap:
        """Interfaces under any numbers, at most `size`."""
        return self.declare(RedirectMap(MapKind.DEVMAP_HASH, size, name))

    def cpumap(self, *, size: int, name: str = "") -> RedirectMap:
        """Processors, by their numbers, for XDP programs to hand frames to; the value is how many may wait there."""
        return self.declare(RedirectMap(MapKind.CPUMAP, size, name))

    def xskmap(self, *, size: int, name: str = "") -> RedirectMap:
        """AF_XDP sockets under the indices from 0, usually of the queue: frames go to user space as they are."""
        return self.declare(RedirectMap(MapKind.XSKMAP, size, name))
