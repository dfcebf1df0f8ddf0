"""Attachments: one file a kind. `attach` chooses by the spec."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from pyebpf.link.base import Link
from pyebpf.link.host import Host

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any, TypeAlias

    from pyebpf.objects import Program
    from pyebpf.specs import AttachSpec

    Attacher: TypeAlias = Callable[[Program, Any, Host], Link]

__all__ = ["ATTACHERS", "Host", "Link", "attach", "attach_group"]

#: For each class of pyebpf.specs.attach, the function that attaches a loaded program: the module here, and its name.
#: Each takes the program, the spec and the `Host`, and returns a Link.
ATTACHERS = {
    "Breakpoint": ("breakpoint", "attach_breakpoint"),
    "BtfTracepoint": ("btf_tracepoint", "attach_btf_tracepoint"),
    "CgroupDevice": ("cgroup", "attach_cgroup"),
    "CgroupSkb": ("cgroup", "attach_cgroup"),
    "CgroupSock": ("cgroup", "attach_cgroup"),
    "CgroupSockAddr": ("cgroup", "attach_cgroup"),
    "CgroupSockopt": ("cgroup", "attach_cgroup"),
    "CgroupSysctl": ("cgroup", "attach_cgroup"),
    "Clsact": ("clsact", "attach_clsact"),
    "Fentry": ("trampoline", "attach_trampoline"),
    "Fexit": ("trampoline", "attach_trampoline"),
    "FlowDissector": ("netns", "attach_netns"),
    "FmodRet": ("trampoline", "attach_trampoline"),
    "KernelIterator": ("iterator", "attach_iterator"),
    "Kprobe": ("kprobe", "attach_kprobe"),
    "KprobeMulti": ("kprobe_multi", "attach_kprobe_multi"),
    "Lsm": ("lsm", "attach_lsm"),
    "LsmCgroup": ("cgroup", "attach_cgroup"),
    "Netfilter": ("netfilter", "attach_netfilter"),
    "PerfEvent": ("perf_event", "attach_perf_event"),
    "RawTracepoint": ("raw_tracepoint", "attach_raw_tracepoint"),
    "Replacement": ("freplace", "attach_replacement"),
    "SkLookup": ("netns", "attach_netns"),
    "SkMsg": ("sockmap", "attach_sockmap"),
    "SkReuseport": ("sockets", "attach_reuseport"),
    "SkSkb": ("sockmap", "attach_sockmap"),
    "SockOps": ("cgroup", "attach_cgroup"),
    "SocketFilter": ("sockets", "attach_socket_filter"),
    "StructOpsMember": ("struct_ops", "attach_struct_ops"),
    "Tcx": ("tcx", "attach_tcx"),
    "Tracepoint": ("tracepoint", "attach_tracepoint"),
    "Uprobe": ("uprobe", "attach_uprobe"),
    "UprobeMulti": ("uprobe_multi", "attach_uprobe_multi"),
    "UprobeSession": ("uprobe_multi", "attach_uprobe_multi"),
    "Usdt": ("usdt", "attach_usdt"),
    "UsdtMulti": ("usdt", "attach_usdt"),
    "WritableRawTracepoint": ("raw_tracepoint", "attach_raw_tracepoint"),
    "Xdp": ("xdp", "attach_xdp"),
}


def attach(program: Program, target: AttachSpec, host: Host | None = None) -> Link:
    """Attach a loaded program; the link that holds it.

    `host` keeps what many attachments open in common. Raises NotFound, NotPermitted, NotSupported or KernelError, each
    with one line that says what is missing.
    """
    module, name = ATTACHERS[type(target).__name__]
    function: Attacher = getattr(import_module(f"{__name__}.{module}"), name)
    if host is not None:
        return function(program, target, host)
    with Host() as own:
        return function(program, target, own)


def attach_group(members: Sequence[tuple[Program, AttachSpec]], host: Host) -> Link:
    """Attach loaded programs whose places are of one group; the one link that holds them."""
    module, name = ATTACHERS[type(members[0][1]).__name__]
    function: Callable[[Sequence[tuple[Program, Any]], Host], Link] = getattr(
        import_module(f"{__name__}.{module}"), name
    )
    return function(members, host)
