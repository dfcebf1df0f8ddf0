"""The release that brought each feature that tests ask for: a kernel of the test bed that is newer has it.

A probe that says "no" there is wrong, or the test bed is: `tests.support.needs` fails the test. Where Debian builds
a feature later than Linux had it, the release is the first of its kernels that does.
"""

from __future__ import annotations

import os
import platform

from tests.support.release import kernel_release

__all__ = ["ARM64", "RELEASES", "UNPOLICED", "brought_by", "overdue"]

_OLDEST = (5, 10)
_SINCE: dict[tuple[int, int], str] = {
    _OLDEST: "attach:clsact attach:cgroup_inet_sock_create attach:fentry attach:fexit attach:flow_dissector "
    "attach:fmod_ret attach:freplace attach:iter attach:kprobe attach:kretprobe attach:perf_breakpoint "
    "attach:perf_software attach:raw_tp attach:raw_tp_writable attach:sk_lookup attach:sk_msg attach:sk_reuseport "
    "attach:sk_skb_parser attach:sk_skb_stream_verdict attach:socket_filter attach:struct_ops attach:tp_btf "
    "attach:uprobe attach:uprobe_semaphore attach:uretprobe attach:xdp attach:xdp_netlink isa:jmp32 isa:v1 "
    "helper:d_path@tracing helper:skb_output@tracing iterator:bpf_map_elem program:tracepoint program:tracing",
    (5, 11): "helper:get_current_task_btf@raw_tracepoint helper:task_storage_get@tracing map:long_keys",
    (5, 12): "helper:check_mtu@sched_cls helper:get_socket_cookie@tracing isa:atomic isa:v3",
    (5, 13): "attach:sk_skb helper:for_each_map_elem@cgroup_skb helper:for_each_map_elem@cgroup_sock_addr "
    "helper:for_each_map_elem@raw_tracepoint helper:for_each_map_elem@tracepoint",
    (5, 14): "helper:for_each_map_elem@syscall program:syscall",
    (5, 15): "attach:perf helper:get_attach_cookie@kprobe helper:get_func_ip@kprobe helper:task_pt_regs@kprobe "
    "helper:task_pt_regs@perf_event helper:timer_init@syscall helper:timer_init@tracing",
    (5, 16): "helper:trace_vprintk@raw_tracepoint",
    (
        5,
        17,
    ): "helper:loop helper:loop@raw_tracepoint helper:loop@socket_filter helper:loop@syscall helper:loop@tracepoint "
    "helper:strncmp@raw_tracepoint",
    (5, 18): "helper:xdp_load_bytes@xdp member:bpf_tunnel_key.local_ipv4 program:xdp@frags",
    (5, 19): "helper:map_lookup_percpu_elem@raw_tracepoint helper:dynptr_from_mem@syscall helper:kptr_xchg@sched_cls "
    "helper:ringbuf_reserve_dynptr@raw_tracepoint helper:ringbuf_reserve_dynptr@syscall",
    (6, 0): "helper:tcp_raw_gen_syncookie_ipv4@sched_cls",
    # LSM programs are Linux 5.7's, those of a control group 6.0's; Debian has built them in since 6.1.
    (6, 1): "attach:lsm attach:lsm_cgroup helper:set_retval@cgroup_sock_addr helper:spin_lock@tracing "
    "helper:user_ringbuf_drain@raw_tracepoint helper:user_ringbuf_drain@tracepoint "
    "iterator:cgroup member:bpf_iter_link_info.task",
    (6, 2): "helper:cgrp_storage_get@tracing kfunc:bpf_rcu_read_lock kfunc:bpf_rdonly_cast kfunc:bpf_task_acquire "
    "kfunc:bpf_task_from_pid",
    (6, 3): "kfunc:bpf_cpumask_create kfunc:bpf_xdp_metadata_rx_hash program:xdp@hints",
    (6, 4): "attach:netfilter attach:struct_ops_link kfunc:bpf_cgroup_from_id kfunc:bpf_dynptr_from_skb "
    "kfunc:bpf_dynptr_from_xdp kfunc:bpf_iter_num_new",
    (6, 5): "kfunc:bpf_cpumask_any_and_distribute kfunc:bpf_cpumask_any_distribute kfunc:bpf_cpumask_first_and",
    (6, 6): "attach:tcx attach:uprobe_multi isa:bswap isa:ldsx isa:movsx isa:sdiv isa:v4",
    (6, 7): "attach:cgroup_unix_connect attach:netkit",
    (6, 8): "kfunc:bpf_cpumask_weight",
    (6, 9): "isa:addr_space_cast isa:may_goto",
    (6, 10): "attach:raw_tp_cookie",
    (6, 11): "kfunc:bpf_iter_bits_new",
    (6, 12): "attach:kprobe_multi attach:kprobe_session",  # Linux 5.18 and 6.10, with CONFIG_FPROBE
    (6, 13): "attach:uprobe_session",
    (6, 15): "isa:load_acquire kfunc:bpf_cpumask_populate",
    (6, 18): "helper:get_current_comm@sched_cls",  # not in Linux 6.12
}
RELEASES = {name: release for release, names in _SINCE.items() for name in names.split()}

#: On arm64 a trampoline takes ftrace with direct calls, and kprobe.multi its own.
ARM64 = {
    **dict.fromkeys(("attach:kprobe_multi", "attach:kprobe_session"), (6, 18)),
    **dict.fromkeys(
        ("attach:fentry", "attach:fexit", "attach:fmod_ret", "attach:freplace", "attach:lsm", "attach:lsm_cgroup"),
        (6, 12),
    ),
    **dict.fromkeys(("attach:struct_ops", "attach:struct_ops_link"), (6, 12)),
}

UNPOLICED = {
    "attach:perf_hardware": "a processor's, which emulation has not",
    "helper:inode_storage_get@lsm": "by LSM programs, which probes load by their first hook",
    "helper:get_current_comm@syscall": "of programs of that kind",
    "helper:sk_storage_get@tracing": "of programs of that kind",
    "helper:task_storage_get@tracepoint": "of programs of that kind",
    "kfunc:bpf_list_push_back_impl": "renamed later",
    "kfunc:bpf_rbtree_add_impl": "renamed later",
}
"""Features that tests ask for and no release promises, with the reason."""


def brought_by(name: str) -> tuple[int, int] | None:
    """The release since which the test bed's kernels have a feature; None if that is not known."""
    kind, _, what = name.partition(":")
    if kind == "map" and name not in RELEASES:
        from pyebpf.specs.map_traits import MAP_TRAITS
        from pyebpf.uapi.bpf import MapType

        major, _, minor = MAP_TRAITS[MapType[what.upper()]].since.partition(".")
        return max((int(major), int(minor or 0)), _OLDEST)
    known = RELEASES.get(name)
    return ARM64.get(name, known) if platform.machine() == "aarch64" else known


def overdue(name: str) -> str | None:
    """What is wrong with a probe's "no", on a machine of the test bed whose kernel should have it; else None."""
    if "PYEBPF_VM" not in os.environ:  # set by tests/vm; other kernels are built as somebody wants them
        return None
    release = brought_by(name)
    if release is None or kernel_release() < release:
        return None
    return f"Linux {os.uname().release} has it since {release[0]}.{release[1]}"
