"""Maps that XDP programs redirect through, as their users see them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyebpf.builder.redirect_maps import RedirectMapEntity
from pyebpf.dsl.maps import Bound
from pyebpf.maps.mapping import StoredObjectArray
from pyebpf.specs.maps import map_size

if TYPE_CHECKING:
    from pyebpf.uapi.bpf import MapType


__all__ = ["RedirectMap"]


class RedirectMap(Bound, StoredObjectArray[int], RedirectMapEntity):
    """`bpf.devmap(size=N)`, `bpf.cpumap(size=N)`, `bpf.xskmap(size=N)`.

    In user space `ports[0] = "eth1"` (or an interface's index), `queues[3] = 192` (frames that may wait for processor
    3), `sockets[0] = socket`; `del` takes it out again.
    """

    def __init__(self, kind: MapType, size: int, name: str) -> None:
        self.name = name
        RedirectMapEntity.__init__(self, self.current_name, kind, map_size(size))

    if TYPE_CHECKING:

        def redirect(self, key: int, flags: int = 0) -> int:
            """In XDP programs: send the frame to what stands under the key. Return what this returns.

            XDP_REDIRECT, or the two low bits of `flags` where nothing does: XDP_ABORTED, or XDP_PASS if given. In a
            devmap, BPF_F_BROADCAST (8) sends it to every interface there, with BPF_F_EXCLUDE_INGRESS (16) but its own.
            """
