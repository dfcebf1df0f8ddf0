"""The decorators of probes: one file a family of attachments, imported when one of its decorators is first used."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from pyebpf.module.module import BaseModule

if TYPE_CHECKING:
    from pyebpf.attach.calls import CallDecorators
    from pyebpf.attach.cgroups import CgroupDecorators
    from pyebpf.attach.freplace import FreplaceDecorators
    from pyebpf.attach.functions import FunctionDecorators
    from pyebpf.attach.iterators import IteratorDecorators
    from pyebpf.attach.kprobes import KprobeDecorators
    from pyebpf.attach.lsm import LsmDecorators
    from pyebpf.attach.netfilter import NetfilterDecorators
    from pyebpf.attach.network import NetworkDecorators
    from pyebpf.attach.perf_events import PerfEventDecorators
    from pyebpf.attach.sockets import SocketDecorators
    from pyebpf.attach.struct_ops import StructOpsDecorators
    from pyebpf.attach.syscall import SyscallDecorators
    from pyebpf.attach.tracepoints import TracepointDecorators
    from pyebpf.attach.trampolines import TrampolineDecorators
    from pyebpf.attach.uprobes import UprobeDecorators
    from pyebpf.attach.usdt import UsdtDecorators

__all__ = ["FAMILIES", "DecoratorMethods"]

#: For each family its file in this folder, the class in it, and the decorators that the class has.
FAMILIES = {
    "calls": ("CallDecorators", "call system_call user_call usdt_call"),
    "cgroups": (
        "CgroupDecorators",
        """
            cgroup_skb_ingress cgroup_skb_egress cgroup_sock_create cgroup_sock_release cgroup_post_bind4
            cgroup_post_bind6 cgroup_bind4 cgroup_bind6 cgroup_connect4 cgroup_connect6 cgroup_connect_unix
            cgroup_sendmsg4 cgroup_sendmsg6 cgroup_sendmsg_unix cgroup_recvmsg4 cgroup_recvmsg6 cgroup_recvmsg_unix
            cgroup_getpeername4 cgroup_getpeername6 cgroup_getpeername_unix cgroup_getsockname4 cgroup_getsockname6
            cgroup_getsockname_unix cgroup_getsockopt cgroup_setsockopt cgroup_sysctl cgroup_device cgroup_sock_ops
        """,
    ),
    "freplace": ("FreplaceDecorators", "freplace"),
    "functions": ("FunctionDecorators", "function function_return"),
    "iterators": ("IteratorDecorators", "iter"),
    "kprobes": ("KprobeDecorators", "kprobe kretprobe kprobe_multi kretprobe_multi kprobe_session"),
    "lsm": ("LsmDecorators", "lsm lsm_cgroup"),
    "netfilter": ("NetfilterDecorators", "netfilter"),
    "network": ("NetworkDecorators", "xdp tc netkit"),
    "perf_events": ("PerfEventDecorators", "sample software_event hardware_event perf_event breakpoint"),
    "sockets": (
        "SocketDecorators",
        """
            socket_filter sk_reuseport sk_lookup flow_dissector sk_msg sk_skb_stream_parser sk_skb_stream_verdict
            sk_skb_verdict
        """,
    ),
    "struct_ops": ("StructOpsDecorators", "struct_ops"),
    "syscall": ("SyscallDecorators", "syscall"),
    "tracepoints": ("TracepointDecorators", "tracepoint raw_tracepoint raw_tracepoint_writable btf_tracepoint"),
    "trampolines": ("TrampolineDecorators", "fentry fexit fmod_ret"),
    "uprobes": ("UprobeDecorators", "uprobe uretprobe uprobe_session"),
    "usdt": ("UsdtDecorators", "usdt"),
}


class _LazyDecorator:
    """A decorator as an attribute of `Module`: the family's own, for the module's probes."""

    def __init__(self, file: str, family: str, name: str) -> None:
        self._file, self._family, self._name = file, family, name

    def __get__(self, module: object, owner: type) -> object:
        family = getattr(import_module(f"{__name__}.{self._file}"), self._family)
        return getattr(family if module is None else family(module), self._name)


if TYPE_CHECKING:

    class DecoratorMethods(
        BaseModule,
        CallDecorators,
        CgroupDecorators,
        FreplaceDecorators,
        FunctionDecorators,
        IteratorDecorators,
        KprobeDecorators,
        LsmDecorators,
        NetfilterDecorators,
        NetworkDecorators,
        PerfEventDecorators,
        SocketDecorators,
        StructOpsDecorators,
        SyscallDecorators,
        TracepointDecorators,
        TrampolineDecorators,
        UprobeDecorators,
        UsdtDecorators,
    ):
        """All decorators, as a type checker sees them."""

else:

    class DecoratorMethods(BaseModule):
        """All decorators: every start would import a dozen files if the families were base classes."""

    for _file, (_family, _names) in FAMILIES.items():
        for _name in _names.split():
            setattr(DecoratorMethods, _name, _LazyDecorator(_file, _family, _name))
