"""The program type that a section's name says: libbpf's table (tools/lib/bpf/libbpf.c, section_defs, v6.18)."""

from __future__ import annotations

from typing import NamedTuple

from pyebpf.errors import NotFound, closest
from pyebpf.uapi.attach_types import AttachType
from pyebpf.uapi.bpf import ProgramType
from pyebpf.uapi.flags import BPF_F_SLEEPABLE, BPF_F_XDP_HAS_FRAGS

# Section names and the program type and attach type that they mean. A name ending in / may be
# followed by a target; the mark ".s" is a sleepable program, ".frags" multi-buffer XDP.
_ROWS = """
socket                          SOCKET_FILTER
sk_reuseport/migrate            SK_REUSEPORT            SK_REUSEPORT_SELECT_OR_MIGRATE
sk_reuseport                    SK_REUSEPORT            SK_REUSEPORT_SELECT
kprobe/                        KPROBE
kretprobe/                     KPROBE
uprobe/                        KPROBE
uprobe.s/                      KPROBE
uretprobe/                     KPROBE
uretprobe.s/                   KPROBE
kprobe.multi/                  KPROBE                  TRACE_KPROBE_MULTI
kretprobe.multi/               KPROBE                  TRACE_KPROBE_MULTI
kprobe.session/                KPROBE                  TRACE_KPROBE_SESSION
uprobe.multi/                  KPROBE                  TRACE_UPROBE_MULTI
uretprobe.multi/               KPROBE                  TRACE_UPROBE_MULTI
uprobe.session/                KPROBE                  TRACE_UPROBE_SESSION
uprobe.multi.s/                KPROBE                  TRACE_UPROBE_MULTI
uretprobe.multi.s/             KPROBE                  TRACE_UPROBE_MULTI
uprobe.session.s/              KPROBE                  TRACE_UPROBE_SESSION
ksyscall/                      KPROBE
kretsyscall/                   KPROBE
usdt/                          KPROBE
usdt.s/                        KPROBE
tc/ingress                      SCHED_CLS               TCX_INGRESS
tc/egress                       SCHED_CLS               TCX_EGRESS
tcx/ingress                     SCHED_CLS               TCX_INGRESS
tcx/egress                      SCHED_CLS               TCX_EGRESS
tc                              SCHED_CLS
classifier                      SCHED_CLS
action                          SCHED_ACT
netkit/primary                  SCHED_CLS               NETKIT_PRIMARY
netkit/peer                     SCHED_CLS               NETKIT_PEER
tracepoint/                    TRACEPOINT
tp/                            TRACEPOINT
raw_tracepoint/                RAW_TRACEPOINT
raw_tp/                        RAW_TRACEPOINT
raw_tracepoint.w/              RAW_TRACEPOINT_WRITABLE
raw_tp.w/                      RAW_TRACEPOINT_WRITABLE
tp_btf/                        TRACING                 TRACE_RAW_TP
fentry/                        TRACING                 TRACE_FENTRY
fmod_ret/                      TRACING                 MODIFY_RETURN
fexit/                         TRACING                 TRACE_FEXIT
fentry.s/                      TRACING                 TRACE_FENTRY
fmod_ret.s/                    TRACING                 MODIFY_RETURN
fexit.s/                       TRACING                 TRACE_FEXIT
freplace/                      EXT
lsm/                           LSM                     LSM_MAC
lsm.s/                         LSM                     LSM_MAC
lsm_cgroup/                    LSM                     LSM_CGROUP
iter/                          TRACING                 TRACE_ITER
iter.s/                        TRACING                 TRACE_ITER
syscall                         SYSCALL
xdp.frags/devmap                XDP                     XDP_DEVMAP
xdp/devmap                      XDP                     XDP_DEVMAP
xdp.frags/cpumap                XDP                     XDP_CPUMAP
xdp/cpumap                      XDP                     XDP_CPUMAP
xdp.frags                       XDP                     XDP
xdp                             XDP                     XDP
perf_event                      PERF_EVENT
lwt_in                          LWT_IN
lwt_out                         LWT_OUT
lwt_xmit                        LWT_XMIT
lwt_seg6local                   LWT_SEG6LOCAL
sockops                         SOCK_OPS                CGROUP_SOCK_OPS
sk_skb/stream_parser            SK_SKB                  SK_SKB_STREAM_PARSER
sk_skb/stream_verdict           SK_SKB                  SK_SKB_STREAM_VERDICT
sk_skb/verdict                  SK_SKB                  SK_SKB_VERDICT
sk_skb                          SK_SKB
sk_msg                          SK_MSG                  SK_MSG_VERDICT
lirc_mode2                      LIRC_MODE2              LIRC_MODE2
flow_dissector                  FLOW_DISSECTOR          FLOW_DISSECTOR
cgroup_skb/ingress              CGROUP_SKB              CGROUP_INET_INGRESS
cgroup_skb/egress               CGROUP_SKB              CGROUP_INET_EGRESS
cgroup/skb                      CGROUP_SKB
cgroup/sock_create              CGROUP_SOCK             CGROUP_INET_SOCK_CREATE
cgroup/sock_release             CGROUP_SOCK             CGROUP_INET_SOCK_RELEASE
cgroup/sock                     CGROUP_SOCK             CGROUP_INET_SOCK_CREATE
cgroup/post_bind4               CGROUP_SOCK             CGROUP_INET4_POST_BIND
cgroup/post_bind6               CGROUP_SOCK             CGROUP_INET6_POST_BIND
cgroup/bind4                    CGROUP_SOCK_ADDR        CGROUP_INET4_BIND
cgroup/bind6                    CGROUP_SOCK_ADDR        CGROUP_INET6_BIND
cgroup/connect4                 CGROUP_SOCK_ADDR        CGROUP_INET4_CONNECT
cgroup/connect6                 CGROUP_SOCK_ADDR        CGROUP_INET6_CONNECT
cgroup/connect_unix             CGROUP_SOCK_ADDR        CGROUP_UNIX_CONNECT
cgroup/sendmsg4                 CGROUP_SOCK_ADDR        CGROUP_UDP4_SENDMSG
cgroup/sendmsg6                 CGROUP_SOCK_ADDR        CGROUP_UDP6_SENDMSG
cgroup/sendmsg_unix             CGROUP_SOCK_ADDR        CGROUP_UNIX_SENDMSG
cgroup/recvmsg4                 CGROUP_SOCK_ADDR        CGROUP_UDP4_RECVMSG
cgroup/recvmsg6                 CGROUP_SOCK_ADDR        CGROUP_UDP6_RECVMSG
cgroup/recvmsg_unix             CGROUP_SOCK_ADDR        CGROUP_UNIX_RECVMSG
cgroup/getpeername4             CGROUP_SOCK_ADDR        CGROUP_INET4_GETPEERNAME
cgroup/getpeername6             CGROUP_SOCK_ADDR        CGROUP_INET6_GETPEERNAME
cgroup/getpeername_unix         CGROUP_SOCK_ADDR        CGROUP_UNIX_GETPEERNAME
cgroup/getsockname4             CGROUP_SOCK_ADDR        CGROUP_INET4_GETSOCKNAME
cgroup/getsockname6             CGROUP_SOCK_ADDR        CGROUP_INET6_GETSOCKNAME
cgroup/getsockname_unix         CGROUP_SOCK_ADDR        CGROUP_UNIX_GETSOCKNAME
cgroup/sysctl                   CGROUP_SYSCTL           CGROUP_SYSCTL
cgroup/getsockopt               CGROUP_SOCKOPT          CGROUP_GETSOCKOPT
cgroup/setsockopt               CGROUP_SOCKOPT          CGROUP_SETSOCKOPT
cgroup/dev                      CGROUP_DEVICE           CGROUP_DEVICE
struct_ops/                    STRUCT_OPS
struct_ops.s/                  STRUCT_OPS
sk_lookup                       SK_LOOKUP               SK_LOOKUP
netfilter                       NETFILTER               NETFILTER
"""


class Convention(NamedTuple):
    """The meaning of a section name.

    `flags` are BPF_F_* of the load; `target` is what follows the kind after a slash, empty if nothing does.
    """

    kind: str
    program_type: ProgramType
    attach_type: AttachType | None
    flags: int
    target: str

    @property
    def attach_number(self) -> int:
        """`expected_attach_type` as the load takes it; 0 where the kind has none."""
        return int(self.attach_type) if self.attach_type is not None else 0


def _table() -> dict[str, tuple[ProgramType, AttachType | None, bool]]:
    table = {}
    for line in _ROWS.strip().splitlines():
        name, program_type, *attach_type = line.split()
        attach = AttachType[attach_type[0]] if attach_type else None
        table[name.rstrip("/")] = (ProgramType[program_type], attach, name.endswith("/"))
    return table


_TABLE = _table()


def convention(section: str) -> Convention:
    """Meaning of a section with a program, by its name. NotFound, with the closest names, for one that has none."""
    name = section.removeprefix("?")  # libbpf's mark for "not loaded by itself"
    kind, target = name, ""
    if kind not in _TABLE:
        kind, _, target = name.partition("/")
        if kind not in _TABLE or not _TABLE[kind][2]:
            raise NotFound(f"section {section!r} names no program type{closest(name, _TABLE)}")
    program_type, attach_type, _ = _TABLE[kind]
    flags = (
        BPF_F_SLEEPABLE if kind.endswith(".s") or kind == "syscall" else BPF_F_XDP_HAS_FRAGS if ".frags" in kind else 0
    )
    return Convention(kind, program_type, attach_type, flags, target)
