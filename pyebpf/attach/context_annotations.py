"""Annotations of `ctx`, which show a type checker the fields of a program's context."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

T = TypeVar("T")


class TracepointContext:
    """A tracepoint's record, as its `format` describes it: `ctx.filename`. `ctx.target` is "category:name"."""

    target: str

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...


class RawTracepointContext:
    """A raw tracepoint's arguments by name. `ctx.target` is the tracepoint's name."""

    target: str

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...


class PerfEventContext:
    """The context of a perf event's program.

    `ip` is the interrupted instruction's address, `sample_period` events since the last one, `addr` the data address
    where the event has one (struct bpf_perf_event_data).
    """

    target: str
    ip: int
    sample_period: int
    addr: int


class Packet:
    """A packet's bytes; `len(ctx.packet)` counts them."""

    if TYPE_CHECKING:

        def header(self, type: type[T], at: int = 0) -> T | None:  # noqa: A002 - the language's keyword
            """The T that begins `at` bytes into the packet, in place; None where the packet ends before its end.

            It is gone after any helper that may move the packet.
            """

        def load(self, type: type[T], at: int = 0) -> T | None:  # noqa: A002 - the language's keyword
            """A copy of that T, also where the packet lies in several pieces."""

        def __len__(self) -> int: ...


class XdpContext:
    """A frame as the driver has it (struct xdp_md). `ingress_ifindex`: the interface's index.

    `data_meta` is room in front of the frame, made by `helpers.xdp_adjust_meta`, for tc programs to read.
    """

    target: str
    packet: Packet
    data_meta: Packet
    ingress_ifindex: int
    rx_queue_index: int


class SkBuff:
    """A packet of the network stack (struct __sk_buff). Fields in network order read as numbers of this machine.

    `data_meta` is what XDP left in front of the frame, for tc programs only.
    """

    target: str
    packet: Packet
    data_meta: Packet
    len: int
    pkt_type: int
    mark: int
    queue_mapping: int
    protocol: int
    vlan_present: int
    vlan_tci: int
    vlan_proto: int
    priority: int
    ingress_ifindex: int
    ifindex: int
    tc_index: int
    cb: list[int]
    hash: int
    tc_classid: int
    napi_id: int
    family: int
    remote_ip4: int
    local_ip4: int
    remote_ip6: list[int]
    local_ip6: list[int]
    remote_port: int
    local_port: int
    tstamp: int
    wire_len: int
    gso_segs: int
    gso_size: int
    tstamp_type: int
    hwtstamp: int


class Sock:
    """A socket (struct bpf_sock). Addresses and ports are numbers in the machine's order, IPv6 addresses 16 bytes."""

    bound_dev_if: int
    family: int
    type: int
    protocol: int
    mark: int
    priority: int
    src_ip4: int
    src_ip6: bytes
    src_port: int
    dst_port: int
    dst_ip4: int
    dst_ip6: bytes
    state: int
    rx_queue_mapping: int


class FlowKeys:
    """The result of a flow dissector (struct bpf_flow_keys)."""

    nhoff: int
    thoff: int
    addr_proto: int
    is_frag: int
    is_first_frag: int
    is_encap: int
    ip_proto: int
    n_proto: int
    sport: int
    dport: int
    ipv4_src: int
    ipv4_dst: int
    ipv6_src: bytes
    ipv6_dst: bytes
    flags: int
    flow_label: int


class SockContext(Sock):
    """A socket that is made, bound or closed (struct bpf_sock)."""

    target: str


class SockAddrContext:
    """An address of a system call (struct bpf_sock_addr); `user_…` is the caller's, which may be changed."""

    target: str
    user_family: int
    user_ip4: int
    user_ip6: bytes
    user_port: int
    family: int
    type: int
    protocol: int
    msg_src_ip4: int
    msg_src_ip6: bytes
    sk: Sock


class SockoptContext:
    """A socket option (struct bpf_sockopt); `optval` is its value's memory."""

    target: str
    optval: Packet
    sk: Sock
    level: int
    optname: int
    optlen: int
    retval: int


class SysctlContext:
    """A setting that is read or written (struct bpf_sysctl); `name` is its path below /proc/sys."""

    target: str
    name: str
    write: int
    file_pos: int


class DeviceContext:
    """A device file (struct bpf_cgroup_dev_ctx). `access_type`: BPF_DEVCG_ACC_* << 16 | BPF_DEVCG_DEV_*."""

    target: str
    access_type: int
    major: int
    minor: int


class SockOpsContext:
    """An event of a TCP socket (struct bpf_sock_ops); `op` is one of BPF_SOCK_OPS_*."""

    target: str
    op: int
    args: list[int]
    reply: int
    replylong: list[int]
    family: int
    remote_ip4: int
    local_ip4: int
    remote_ip6: bytes
    local_ip6: bytes
    remote_port: int
    local_port: int
    is_fullsock: int
    snd_cwnd: int
    srtt_us: int
    bpf_sock_ops_cb_flags: int
    state: int
    rtt_min: int
    snd_ssthresh: int
    rcv_nxt: int
    snd_nxt: int
    snd_una: int
    mss_cache: int
    ecn_flags: int
    rate_delivered: int
    rate_interval_us: int
    packets_out: int
    retrans_out: int
    total_retrans: int
    segs_in: int
    data_segs_in: int
    segs_out: int
    data_segs_out: int
    lost_out: int
    sacked_out: int
    sk_txhash: int
    bytes_received: int
    bytes_acked: int
    sk: Sock | None
    skb_len: int
    skb_tcp_flags: int
    skb_hwtstamp: int


class SkMsgContext:
    """Data on its way out of a socket (struct sk_msg_md)."""

    target: str
    packet: Packet
    family: int
    remote_ip4: int
    local_ip4: int
    remote_ip6: bytes
    local_ip6: bytes
    remote_port: int
    local_port: int
    size: int
    sk: Sock


class SkReuseportContext:
    """A packet for sockets that share a port (struct sk_reuseport_md)."""

    target: str
    packet: Packet
    len: int
    eth_protocol: int
    ip_protocol: int
    bind_inany: int
    hash: int
    sk: Sock
    migrating_sk: Sock | None


class SkLookupContext:
    """A connection or datagram that looks for its socket (struct bpf_sk_lookup)."""

    target: str
    sk: Sock | None
    family: int
    protocol: int
    remote_ip4: int
    remote_ip6: bytes
    remote_port: int
    local_ip4: int
    local_ip6: bytes
    local_port: int
    ingress_ifindex: int


class FlowDissectorContext:
    """A packet to dissect."""

    target: str
    packet: Packet
    flow_keys: FlowKeys
