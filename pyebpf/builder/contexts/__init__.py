"""Contexts of programs, by attach point: one file a family of attachments."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from pyebpf.builder.contexts.base import Context, Loading, Place

if TYPE_CHECKING:
    from pyebpf.specs import AttachSpec

__all__ = ["PLACES", "Context", "Loading", "Place", "place"]

#: For each class of pyebpf.specs.attach, its Place: the module beside this one, and the class in it.
PLACES = {
    "Breakpoint": ("perf_events", "PerfEventPlace"),
    "BtfTracepoint": ("tracepoints", "BtfTracepointPlace"),
    "CgroupDevice": ("cgroups", "CgroupDevicePlace"),
    "CgroupSkb": ("cgroups", "CgroupSkbPlace"),
    "CgroupSock": ("cgroups", "CgroupSockPlace"),
    "CgroupSockAddr": ("cgroups", "CgroupSockAddrPlace"),
    "CgroupSockopt": ("cgroups", "CgroupSockoptPlace"),
    "CgroupSysctl": ("cgroups", "CgroupSysctlPlace"),
    "Clsact": ("skb", "TcPlace"),
    "Fentry": ("functions", "FentryPlace"),
    "Fexit": ("functions", "FexitPlace"),
    "FlowDissector": ("sockets", "FlowDissectorPlace"),
    "FmodRet": ("functions", "FmodRetPlace"),
    "KernelIterator": ("iterators", "IteratorPlace"),
    "Kprobe": ("functions", "KprobePlace"),
    "KprobeMulti": ("functions", "KprobeMultiPlace"),
    "Lsm": ("lsm", "LsmPlace"),
    "LsmCgroup": ("lsm", "LsmCgroupPlace"),
    "Netfilter": ("netfilter", "NetfilterPlace"),
    "PerfEvent": ("perf_events", "PerfEventPlace"),
    "RawTracepoint": ("tracepoints", "RawTracepointPlace"),
    "Replacement": ("programs", "ReplacementPlace"),
    "SkLookup": ("sockets", "SkLookupPlace"),
    "SkMsg": ("sockets", "SkMsgPlace"),
    "SkReuseport": ("sockets", "SkReuseportPlace"),
    "SkSkb": ("sockets", "SkSkbPlace"),
    "SockOps": ("cgroups", "SockOpsPlace"),
    "SocketFilter": ("sockets", "SocketFilterPlace"),
    "StructOpsMember": ("struct_ops", "StructOpsPlace"),
    "SyscallProgram": ("programs", "SyscallPlace"),
    "TailCalled": ("tail_calls", "TailCalledPlace"),
    "Tcx": ("skb", "TcPlace"),
    "Tracepoint": ("tracepoints", "TracepointPlace"),
    "Uprobe": ("user", "UprobePlace"),
    "UprobeMulti": ("user", "UprobePlace"),
    "UprobeSession": ("user", "UprobeSessionPlace"),
    "Usdt": ("usdt", "UsdtPlace"),
    "UsdtMulti": ("usdt", "UsdtPlace"),
    "WritableRawTracepoint": ("writable", "WritableRawTracepointPlace"),
    "Xdp": ("xdp", "XdpPlace"),
}


def place(attach: AttachSpec | None) -> Place[Any]:
    """Return the meaning of an attachment to a program; without one nothing has a name."""
    if attach is None:
        return Place[Any](attach)
    module, name = PLACES[type(attach).__name__]
    found: Place[Any] = getattr(import_module(f"{__name__}.{module}"), name)(attach)
    return found
