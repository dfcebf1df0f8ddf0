"""Headers of packets, as Structs of wire types, and their numbers.

    from pyebpf.packet import ETH_P_IP, Ethernet, IPv4

    ethernet = ctx.packet.header(Ethernet, at=0)
    if ethernet is not None and ethernet.protocol == ETH_P_IP:
        ip = ctx.packet.header(IPv4, at=14)

Fields in network order read as numbers of this machine. In user space the same classes make and take apart packets:
`bytes(...)` of one is `to_bytes()`, and `IPv4.from_bytes(data[14:34])` reads it; `checksum` is the Internet's.
"""

from __future__ import annotations

from pyebpf.types import Struct, array, be16, be32, field, u8
from pyebpf.types.bits import bits

__all__ = [
    "ARP",
    "ETH_P_8021AD",
    "ETH_P_8021Q",
    "ETH_P_ARP",
    "ETH_P_IP",
    "ETH_P_IPV6",
    "ICMP",
    "IPPROTO_ICMP",
    "IPPROTO_ICMPV6",
    "IPPROTO_IPIP",
    "IPPROTO_SCTP",
    "IPPROTO_TCP",
    "IPPROTO_UDP",
    "TCP",
    "UDP",
    "VLAN",
    "Ethernet",
    "IPv4",
    "IPv6",
    "checksum",
]

# linux/if_ether.h
ETH_P_IP = 0x0800
ETH_P_ARP = 0x0806
ETH_P_8021Q = 0x8100
ETH_P_IPV6 = 0x86DD
ETH_P_8021AD = 0x88A8

# linux/in.h, linux/in6.h
IPPROTO_ICMP = 1
IPPROTO_IPIP = 4
IPPROTO_TCP = 6
IPPROTO_UDP = 17
IPPROTO_ICMPV6 = 58
IPPROTO_SCTP = 132


class Ethernet(Struct):
    """IEEE 802.3, 14 bytes. `protocol` is an ETH_P_ number."""

    destination: bytes = field(array(u8, 6), default=bytes(6))
    source: bytes = field(array(u8, 6), default=bytes(6))
    protocol: be16 = ETH_P_IP


class VLAN(Struct):
    """IEEE 802.1Q, 4 bytes behind an Ethernet header whose protocol is ETH_P_8021Q; `protocol` is what follows."""

    tci: be16 = 0
    protocol: be16 = ETH_P_IP
    priority = bits("tci", 13, 3)
    drop_eligible = bits("tci", 12)
    id = bits("tci", 0, 12)


class ARP(Struct):
    """RFC 826 for IPv4 over Ethernet, 28 bytes. Addresses are bytes: nothing here is aligned."""

    hardware: be16 = 1
    protocol: be16 = ETH_P_IP
    hardware_length: u8 = 6
    protocol_length: u8 = 4
    operation: be16 = 1
    sender_hardware: bytes = field(array(u8, 6), default=bytes(6))
    sender: bytes = field(array(u8, 4), default=bytes(4))
    target_hardware: bytes = field(array(u8, 6), default=bytes(6))
    target: bytes = field(array(u8, 4), default=bytes(4))


class IPv4(Struct):
    """RFC 791, 20 bytes without options: what follows begins at `header_length`, in bytes, from here."""

    version_and_length: u8 = 0x45
    service: u8 = 0
    length: be16 = 20
    identification: be16 = 0
    flags_and_offset: be16 = 0
    ttl: u8 = 64
    protocol: u8 = IPPROTO_UDP
    checksum: be16 = 0
    source: be32 = 0
    destination: be32 = 0
    version = bits("version_and_length", 4, 4)
    header_length = bits("version_and_length", 0, 4, unit=4)
    dscp = bits("service", 2, 6)
    ecn = bits("service", 0, 2)
    dont_fragment = bits("flags_and_offset", 14)
    more_fragments = bits("flags_and_offset", 13)
    fragment_offset = bits("flags_and_offset", 0, 13, unit=8)


class IPv6(Struct):
    """RFC 8200, 40 bytes. `next_header` is an IPPROTO_ number, or an extension's."""

    version_class_flow: be32 = 6 << 28
    length: be16 = 0
    next_header: u8 = IPPROTO_UDP
    hop_limit: u8 = 64
    source: bytes = field(array(u8, 16), default=bytes(16))
    destination: bytes = field(array(u8, 16), default=bytes(16))
    version = bits("version_class_flow", 28, 4)
    traffic_class = bits("version_class_flow", 20, 8)
    flow_label = bits("version_class_flow", 0, 20)


class UDP(Struct):
    """RFC 768, 8 bytes; `length` counts them, too."""

    source: be16 = 0
    destination: be16 = 0
    length: be16 = 8
    checksum: be16 = 0


class TCP(Struct):
    """RFC 9293, 20 bytes without options: the data begins at `header_length`, in bytes, from here."""

    source: be16 = 0
    destination: be16 = 0
    sequence: be32 = 0
    acknowledgment: be32 = 0
    length_and_flags: be16 = 0x5000
    window: be16 = 0
    checksum: be16 = 0
    urgent: be16 = 0
    header_length = bits("length_and_flags", 12, 4, unit=4)
    cwr = bits("length_and_flags", 7)
    ece = bits("length_and_flags", 6)
    urg = bits("length_and_flags", 5)
    ack = bits("length_and_flags", 4)
    psh = bits("length_and_flags", 3)
    rst = bits("length_and_flags", 2)
    syn = bits("length_and_flags", 1)
    fin = bits("length_and_flags", 0)


class ICMP(Struct):
    """RFC 792 and, for IPv6, RFC 4443: 8 bytes. `identifier` and `sequence` are those of an echo."""

    type: u8 = 8
    code: u8 = 0
    checksum: be16 = 0
    rest: be32 = 0
    identifier = bits("rest", 16, 16)
    sequence = bits("rest", 0, 16)


def checksum(data: bytes, start: int = 0) -> int:
    """The Internet checksum of RFC 1071 over `data`, whose own checksum field is 0; `start` is a sum to go on from."""
    total = start + sum(int.from_bytes(data[i : i + 2].ljust(2, b"\0"), "big") for i in range(0, len(data), 2))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return total ^ 0xFFFF
