"""The structs of include/uapi/linux/bpf.h that programs at sockets and control groups are given, as tables.

Offsets and sizes are held to the running kernel's BTF, and what may be read and written to its verifier, by
tests/kernel/test_context_fields.py.
"""

from __future__ import annotations

from pyebpf.attach.fields import Bytes, FieldTable, IntegerField, NestedField, WordArrayField

_IPV6 = 16
_SOCK_OWN = ("sock_create", "sock_release")
_POST_BIND = ("post_bind4", "post_bind6")
_V4 = ("bind4", "connect4", "sendmsg4", "recvmsg4", "getpeername4", "getsockname4")
_V6 = ("bind6", "connect6", "sendmsg6", "recvmsg6", "getpeername6", "getsockname6")

#: A socket: what programs at its creation and binding are given, and what `ctx.sk` of others leads to.
SOCK = FieldTable(
    "struct bpf_sock",
    IntegerField("bound_dev_if", 0, on=_SOCK_OWN, writable=_SOCK_OWN),
    IntegerField("family", 4),
    IntegerField("type", 8),
    IntegerField("protocol", 12),
    IntegerField("mark", 16, on=_SOCK_OWN, writable=_SOCK_OWN),
    IntegerField("priority", 20, on=_SOCK_OWN, writable=_SOCK_OWN),
    IntegerField("src_ip4", 24, network=32, on=("post_bind4",)),
    Bytes("src_ip6", 28, _IPV6, on=("post_bind6",)),
    IntegerField("src_port", 44, on=_POST_BIND),
    IntegerField("dst_port", 48, 2, network=16),
    IntegerField("dst_ip4", 52, network=32),
    Bytes("dst_ip6", 56, _IPV6),
    IntegerField("state", 72),
    IntegerField("rx_queue_mapping", 76, signed=True),
)

#: A socket that may be no full one (a request, or one in TIME_WAIT).
SOCK_COMMON = FieldTable(
    "struct bpf_sock",
    *(field for name, field in SOCK.fields.items() if name not in ("type", "protocol", "mark", "priority")),
)

SOCK_ADDR = FieldTable(
    "struct bpf_sock_addr",
    IntegerField("user_family", 0),
    IntegerField("user_ip4", 4, network=32, on=_V4, writable=True),
    Bytes("user_ip6", 8, _IPV6, on=_V6, writable=True),
    IntegerField("user_port", 24, network=16, writable=True),
    IntegerField("family", 28),
    IntegerField("type", 32),
    IntegerField("protocol", 36),
    IntegerField("msg_src_ip4", 40, network=32, on=("sendmsg4",), writable=True),
    Bytes("msg_src_ip6", 44, _IPV6, on=("sendmsg6",), writable=True),
    NestedField("sk", 64, SOCK),
)

SOCKOPT = FieldTable(
    "struct bpf_sockopt",
    NestedField("sk", 0, SOCK),
    IntegerField("level", 24, signed=True, writable=("setsockopt",)),
    IntegerField("optname", 28, signed=True, writable=("setsockopt",)),
    IntegerField("optlen", 32, signed=True, writable=True),
    IntegerField("retval", 36, signed=True, on=("getsockopt",), writable=True),
)

SYSCTL = FieldTable(
    "struct bpf_sysctl",
    IntegerField("write", 0),
    IntegerField("file_pos", 4, writable=True),
)

CGROUP_DEVICE = FieldTable(
    "struct bpf_cgroup_dev_ctx",
    IntegerField("access_type", 0),
    IntegerField("major", 4),
    IntegerField("minor", 8),
)

SOCK_OPS = FieldTable(
    "struct bpf_sock_ops",
    IntegerField("op", 0),
    WordArrayField("args", 4, 4),
    IntegerField("reply", 4, writable=True),
    WordArrayField("replylong", 4, 4),
    IntegerField("family", 20),
    IntegerField("remote_ip4", 24, network=32),
    IntegerField("local_ip4", 28, network=32),
    Bytes("remote_ip6", 32, _IPV6),
    Bytes("local_ip6", 48, _IPV6),
    IntegerField("remote_port", 64, network=32),
    IntegerField("local_port", 68),
    IntegerField("is_fullsock", 72),
    IntegerField("snd_cwnd", 76),
    IntegerField("srtt_us", 80),
    IntegerField("bpf_sock_ops_cb_flags", 84),
    IntegerField("state", 88),
    IntegerField("rtt_min", 92),
    IntegerField("snd_ssthresh", 96),
    IntegerField("rcv_nxt", 100),
    IntegerField("snd_nxt", 104),
    IntegerField("snd_una", 108),
    IntegerField("mss_cache", 112),
    IntegerField("ecn_flags", 116),
    IntegerField("rate_delivered", 120),
    IntegerField("rate_interval_us", 124),
    IntegerField("packets_out", 128),
    IntegerField("retrans_out", 132),
    IntegerField("total_retrans", 136),
    IntegerField("segs_in", 140),
    IntegerField("data_segs_in", 144),
    IntegerField("segs_out", 148),
    IntegerField("data_segs_out", 152),
    IntegerField("lost_out", 156),
    IntegerField("sacked_out", 160),
    IntegerField("sk_txhash", 164, writable=True),
    IntegerField("bytes_received", 168, 8),
    IntegerField("bytes_acked", 176, 8),
    NestedField("sk", 184, SOCK, nullable=True),
    IntegerField("skb_len", 208),
    IntegerField("skb_tcp_flags", 212),
    IntegerField("skb_hwtstamp", 216, 8, since="6.2"),
)

SK_MSG = FieldTable(
    "struct sk_msg_md",
    IntegerField("family", 16),
    IntegerField("remote_ip4", 20, network=32),
    IntegerField("local_ip4", 24, network=32),
    Bytes("remote_ip6", 28, _IPV6),
    Bytes("local_ip6", 44, _IPV6),
    IntegerField("remote_port", 60, network=32),
    IntegerField("local_port", 64),
    IntegerField("size", 68),
    NestedField("sk", 72, SOCK),
)

SK_REUSEPORT = FieldTable(
    "struct sk_reuseport_md",
    IntegerField("len", 16),
    IntegerField("eth_protocol", 20, network=16),
    IntegerField("ip_protocol", 24),
    IntegerField("bind_inany", 28),
    IntegerField("hash", 32),
    NestedField("sk", 40, SOCK, since="5.14"),
    NestedField("migrating_sk", 48, SOCK_COMMON, nullable=True, since="5.14"),
)

SK_LOOKUP = FieldTable(
    "struct bpf_sk_lookup",
    NestedField("sk", 0, SOCK, nullable=True),
    IntegerField("family", 8),
    IntegerField("protocol", 12),
    IntegerField("remote_ip4", 16, network=32),
    Bytes("remote_ip6", 20, _IPV6),
    IntegerField("remote_port", 36, 2, network=16),
    IntegerField("local_ip4", 40, network=32),
    Bytes("local_ip6", 44, _IPV6),
    IntegerField("local_port", 60),
    IntegerField("ingress_ifindex", 64, since="5.17"),
)

FLOW_KEYS = FieldTable(
    "struct bpf_flow_keys",
    IntegerField("nhoff", 0, 2, writable=True),
    IntegerField("thoff", 2, 2, writable=True),
    IntegerField("addr_proto", 4, 2, writable=True),
    IntegerField("is_frag", 6, 1, writable=True),
    IntegerField("is_first_frag", 7, 1, writable=True),
    IntegerField("is_encap", 8, 1, writable=True),
    IntegerField("ip_proto", 9, 1, writable=True),
    IntegerField("n_proto", 10, 2, network=16, writable=True),
    IntegerField("sport", 12, 2, network=16, writable=True),
    IntegerField("dport", 14, 2, network=16, writable=True),
    IntegerField("ipv4_src", 16, network=32, writable=True),
    IntegerField("ipv4_dst", 20, network=32, writable=True),
    Bytes("ipv6_src", 16, _IPV6, writable=True),
    Bytes("ipv6_dst", 32, _IPV6, writable=True),
    IntegerField("flags", 48),
    IntegerField("flow_label", 52, network=32, writable=True),
)

#: Fields of an sk_buff that programs of the flow dissector see.
DISSECTED = FieldTable("struct __sk_buff", NestedField("flow_keys", 144, FLOW_KEYS))
