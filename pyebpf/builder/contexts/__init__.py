"""What a program is called with, by what it is attached to: one file a family of attachments."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from pyebpf.builder.contexts.base import Context, Loading, Place

if TYPE_CHECKING:
    from pyebpf.specs import AttachSpec

__all__ = ["PLACES", "Context", "Loading", "Place", "place"]

#: For each class of pyebpf.specs.attach, its Place: the module beside this one, and the class in it.
PLACES = {
    "BtfTracepoint": ("tracepoints", "BtfTracepointPlace"),
    "Clsact": ("skb", "TcPlace"),
    "CgroupDevice": ("cgroups", "CgroupDevicePlace"),
    "CgroupSock": ("cgroups", "CgroupSockPlace"),
    "CgroupSockAddr": ("cgroups", "CgroupSockAddrPlace"),
    "CgroupSockopt": ("cgroups", "CgroupSockoptPlace"),
    "CgroupSysctl": ("cgroups", "CgroupSysctlPlace"),
    "KernelIterator": ("iterators", "IteratorPlace"),
    "PerfEvent": ("perf_events", "PerfEventPlace"),
    "RawTracepoint": ("tracepoints", "RawTracepointPlace"),
    "SockOps": ("cgroups", "SockOpsPlace"),
    "Tcx": ("skb", "TcPlace"),
    "TailCalled": ("tail_calls", "TailCalledPlace"),
    "Tracepoint": ("tracepoints", "TracepointPlace"),
    "Xdp": ("xdp", "XdpPlace"),
}


def place(attach: AttachSpec | None) -> Place[Any]:
    """What an attachment means to a program; without one nothing has a name."""
    if attach is None:
        return Place[Any](attach)
    module, name = PLACES[type(attach).__name__]
    found: Place[Any] = getattr(import_module(f"{__name__}.{module}"), name)(attach)
    return found
