"""Attachments: one file a kind. `attach` chooses by the spec."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from pyebpf.link.base import Link
from pyebpf.link.host import Host

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeAlias

    from pyebpf.objects import Program
    from pyebpf.specs import AttachSpec

    Attacher: TypeAlias = Callable[[Program, Any, Host], Link]

__all__ = ["ATTACHERS", "Host", "Link", "attach"]

#: For each class of pyebpf.specs.attach, the function that attaches a loaded program: the module here, and its name.
#: Each takes the program, the spec and the `Host`, and returns a Link.
ATTACHERS = {
    "BtfTracepoint": ("btf_tracepoint", "attach_btf_tracepoint"),
    "CgroupDevice": ("cgroup", "attach_cgroup"),
    "CgroupSkb": ("cgroup", "attach_cgroup"),
    "CgroupSock": ("cgroup", "attach_cgroup"),
    "CgroupSockAddr": ("cgroup", "attach_cgroup"),
    "CgroupSockopt": ("cgroup", "attach_cgroup"),
    "CgroupSysctl": ("cgroup", "attach_cgroup"),
    "KernelIterator": ("iterator", "attach_iterator"),
    "PerfEvent": ("perf_event", "attach_perf_event"),
    "RawTracepoint": ("raw_tracepoint", "attach_raw_tracepoint"),
    "SockOps": ("cgroup", "attach_cgroup"),
    "Tracepoint": ("tracepoint", "attach_tracepoint"),
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
