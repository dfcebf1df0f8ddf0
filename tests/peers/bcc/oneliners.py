"""One-liners of bcc's that books and pages print, with what makes their events and how their outputs compare."""

from __future__ import annotations

from typing import NamedTuple


class OneLiner(NamedTuple):
    """A command line, the workload that makes its events, and the form of what it prints."""

    command: tuple[str, ...]
    workload: str
    form: str


#: Functions that timers run, so often as a tool traces.
BY_TIMERS = frozenset({"tcp_orphan_count_sum", "tcp_orphan_update"})

ONE_LINERS = (
    # Disks.
    OneLiner(("funccount", "t:block:*"), "disk", "counts"),
    OneLiner(("argdist", "-H", "t:block:block_rq_issue():u32:args->bytes"), "disk", "buckets"),
    OneLiner(("stackcount", "t:block:block_rq_issue"), "disk", "stacks"),
    OneLiner(("argdist", "-C", "t:block:block_rq_issue():char*:args->rwbs"), "disk", "values"),
    OneLiner(
        (
            "trace",
            't:block:block_rq_complete (args->error) "dev %d type %s error %d", args->dev, args->rwbs, args->error',
        ),
        "disk errors",
        "lines",
    ),
    # Networks.
    OneLiner(("argdist", "-C", "t:syscalls:sys_exit_connect():int:args->ret:args->ret<0"), "connects", "values"),
    OneLiner(("stackcount", "-U", "t:syscalls:sys_enter_connect"), "connects", "stacks of users"),
    OneLiner(("argdist", "-H", "p::tcp_sendmsg(void *sk, void *msg, int size):int:size"), "tcp", "buckets"),
    OneLiner(("argdist", "-H", "r::tcp_recvmsg():int:$retval:$retval>0"), "tcp", "buckets"),
    OneLiner(("funccount", "tcp_*"), "tcp", "counts"),
    OneLiner(("argdist", "-H", "p::udp_sendmsg(void *sk, void *msg, int size):int:size"), "udp", "buckets"),
    OneLiner(("argdist", "-H", "r::udp_recvmsg():int:$retval:$retval>0"), "udp", "buckets"),
    OneLiner(("funccount", "udp_*"), "udp", "counts"),
    OneLiner(("stackcount", "t:net:net_dev_xmit"), "udp", "stacks"),
    OneLiner(("funccount", "ieee80211_*"), "udp", "counts"),
    OneLiner(("funccount", "ixgbevf_*"), "udp", "counts"),
)
