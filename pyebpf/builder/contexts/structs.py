"""The structs of include/uapi/linux/bpf.h that programs at sockets and control groups are given, as tables.

Offsets and sizes are held to the running kernel's BTF, and what may be read and written to its verifier, by
tests/kernel/test_context_fields.py.
"""

from __future__ import annotations

from pyebpf.builder.contexts.fields import Bytes, FieldTable, Number, To, Words

__all__ = [
    "CGROUP_DEVICE",
    "DISSECTED",
    "FLOW_KEYS",
    "SK_LOOKUP",
    "SK_MSG",
    "SK_REUSEPORT",
    "SOCK",
    "SOCKOPT",
    "SOCK_ADDR",
    "SOCK_COMMON",
    "SOCK_OPS",
    "SYSCTL",
]

_IPV6 = 16
_SOCK_OWN = ("sock_create", "sock_release")
_POST_BIND = ("post_bind4", "post_bind6")
_V4 = ("bind4", "connect4", "sendmsg4", "recvmsg4", "getpeername4", "getsockname4")
_V6 = ("bind6", "connect6", "sendmsg6", "recvmsg6", "getpeername6", "getsockname6")

#: A socket: what programs at its creation and binding are given, and what `ctx.sk` of others leads to.
SOCK = FieldTable(
    "struct bpf_sock",
    Number("bound_dev_if", 0, on=_SOCK_OWN, writable=_SOCK_OWN),
    Number("family", 4),
    Number("type", 8),
    Number("protocol", 12),
    Number("mark", 16, on=_SOCK_OWN, writable=_SOCK_OWN),
    Number("priority", 20, on=_SOCK_OWN, writable=_SOCK_OWN),
    Number("src_ip4", 24, network=32, on=("post_bind4",)),
    Bytes("src_ip6", 28, _IPV6, on=("post_bind6",)),
    Number("src_port", 44, on=_POST_BIND),
    Number("dst_port", 48, 2, network=16),
    Number("dst_ip4", 52, network=32),
    Bytes("dst_ip6", 56, _IPV6),
    Number("state", 72),
    Number("rx_queue_mapping", 76, signed=True),
)

#: A socket that may be no full one (a request, or one in TIME_WAIT).
SOCK_COMMON = FieldTable(
    "struct bpf_sock",
    *(field for name, field in SOCK.fields.items() if name not in ("type", "protocol", "mark", "priority")),
)

SOCK_ADDR = FieldTable(
    "struct bpf_sock_addr",
    Number("user_family", 0),
    Number("user_ip4", 4, network=32, on=_V4, writable=True),
    Bytes("user_ip6", 8, _IPV6, on=_V6, writable=True),
    Number("user_port", 24, network=16, writable=True),
    Number("family", 28),
    Number("type", 32),
    Number("protocol", 36),
    Number("msg_src_ip4", 40, network=32, on=("sendmsg4",), writable=True),
    Bytes("msg_src_ip6", 44, _IPV6, on=("sendmsg6",), writable=True),
    To("sk", 64, SOCK),
)

SOCKOPT = FieldTable(
    "struct bpf_sockopt",
    To("sk", 0, SOCK),
    Number("level", 24, signed=True, writable=("setsockopt",)),
    Number("optname", 28, signed=True, writable=("setsockopt",)),
    Number("optlen", 32, signed=True, writable=True),
    Number("retval", 36, signed=True, on=("getsockopt",), writable=True),
)

SYSCTL = FieldTable(
    "struct bpf_sysctl",
    Number("write", 0),
    Number("file_pos", 4, writable=True),
)

CGROUP_DEVICE = FieldTable(
    "struct bpf_cgroup_dev_ctx",
    Number("access_type", 0),
    Number("major", 4),
    Number("minor", 8),
)

SOCK_OPS = FieldTable(
    "struct bpf_sock_ops",
    Number("op", 0),
    Words("args", 4, 4),
    Number("reply", 4, writable=True),
    Words("replylong", 4, 4),
    Number("family", 20),
    Number("remote_ip4", 24, network=32),
    Number("local_ip4", 28, network=32),
    Bytes("remote_ip6", 32, _IPV6),
    Bytes("local_ip6", 48, _IPV6),
    Number("remote_port", 64, network=32),
    Number("local_port", 68),
    Number("is_fullsock", 72),
    Number("snd_cwnd", 76),
    Number("srtt_us", 80),
    Number("bpf_sock_ops_cb_flags", 84),
    Number("state", 88),
    Number("rtt_min", 92),
    Number("snd_ssthresh", 96),
    Number("rcv_nxt", 100),
    Number("snd_nxt", 104),
    Number("snd_una", 108),
    Number("mss_cache", 112),
    Number("ecn_flags", 116),
    Number("rate_delivered", 120),
    Number("rate_interval_us", 124),
    Number("packets_out", 128),
    Number("retrans_out", 132),
    Number("total_retrans", 136),
    Number("segs_in", 140),
    Number("data_segs_in", 144),
    Number("segs_out", 148),
    Number("data_segs_out", 152),
    Number("lost_out", 156),
    Number("sacked_out", 160),
    Number("sk_txhash", 164, writable=True),
    Number("bytes_received", 168, 8),
    Number("bytes_acked", 176, 8),
    To("sk", 184, SOCK, nullable=True),
    Number("skb_len", 208),
    Number("skb_tcp_flags", 212),
    Number("skb_hwtstamp", 216, 8, since="6.2"),
)

SK_MSG = FieldTable(
    "struct sk_msg_md",
    Number("family", 16),
    Number("remote_ip4", 20, network=32),
    Number("local_ip4", 24, network=32),
    Bytes("remote_ip6", 28, _IPV6),
    Bytes("local_ip6", 44, _IPV6),
    Number("remote_port", 60, network=32),
    Number("local_port", 64),
    Number("size", 68),
    To("sk", 72, SOCK),
)

SK_REUSEPORT = FieldTable(
    "struct sk_reuseport_md",
    Number("len", 16),
    Number("eth_protocol", 20, network=16),
    Number("ip_protocol", 24),
    Number("bind_inany", 28),
    Number("hash", 32),
    To("sk", 40, SOCK, since="5.14"),
    To("migrating_sk", 48, SOCK_COMMON, nullable=True, since="5.14"),
)

SK_LOOKUP = FieldTable(
    "struct bpf_sk_lookup",
    To("sk", 0, SOCK, nullable=True),
    Number("family", 8),
    Number("protocol", 12),
    Number("remote_ip4", 16, network=32),
    Bytes("remote_ip6", 20, _IPV6),
    Number("remote_port", 36, 2, network=16),
    Number("local_ip4", 40, network=32),
    Bytes("local_ip6", 44, _IPV6),
    Number("local_port", 60),
    Number("ingress_ifindex", 64, since="5.17"),
)

FLOW_KEYS = FieldTable(
    "struct bpf_flow_keys",
    Number("nhoff", 0, 2, writable=True),
    Number("thoff", 2, 2, writable=True),
    Number("addr_proto", 4, 2, writable=True),
    Number("is_frag", 6, 1, writable=True),
    Number("is_first_frag", 7, 1, writable=True),
    Number("is_encap", 8, 1, writable=True),
    Number("ip_proto", 9, 1, writable=True),
    Number("n_proto", 10, 2, network=16, writable=True),
    Number("sport", 12, 2, network=16, writable=True),
    Number("dport", 14, 2, network=16, writable=True),
    Number("ipv4_src", 16, network=32, writable=True),
    Number("ipv4_dst", 20, network=32, writable=True),
    Bytes("ipv6_src", 16, _IPV6, writable=True),
    Bytes("ipv6_dst", 32, _IPV6, writable=True),
    Number("flags", 48),
    Number("flow_label", 52, network=32, writable=True),
)

#: Fields of an sk_buff that programs of the flow dissector see.
DISSECTED = FieldTable("struct __sk_buff", To("flow_keys", 144, FLOW_KEYS))
