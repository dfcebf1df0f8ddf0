"""Helpers that sign SYN packets: cookies by which a server knows an ACK without having kept anything.

The kernel's secret is its own: cookies here are made of the machine's, by the same rules (net/ipv4/syncookies.c), so
that what one program signs another accepts, and nothing else.
"""

from __future__ import annotations

from hashlib import blake2s
from typing import TYPE_CHECKING

from pyebpf.uapi.errno_table import EACCES, EINVAL, ENOENT
from pyebpf.vm.helpers.registry import emulates

if TYPE_CHECKING:
    from pyebpf.vm.machine import Machine

_LOW = 0xFFFF_FFFF
_TCP_HEADER = 20
_NO_OPERATION, _MSS = 1, 2
#: Largest segments that cookies can tell apart: msstab of IPv4 and of IPv6.
_SIZES = {4: (536, 1300, 1440, 1460), 6: (1280 - 60, 1480 - 60, 1500 - 60, 9000 - 60)}
_DEFAULT = {4: 536, 6: 1220}
_ADDRESSES = {4: (12, 20), 6: (8, 40)}
_FIN_RST_SYN_ACK = 0x17
_SYN, _ACK = 0x02, 0x10


def _tuple(vm: Machine, version: int, ip: int, tcp: int) -> bytes:
    start, end = _ADDRESSES[version]
    return vm.memory.read(ip, end)[start:] + vm.memory.read(tcp, 4)


def _cookie(vm: Machine, key: bytes, sequence: int, index: int) -> int:
    """24 bits of hash, and the index of the segment size in the low ones of what is added."""
    digest = blake2s(key + sequence.to_bytes(4, "big"), key=vm.secret, digest_size=4).digest()
    return (int.from_bytes(digest, "big") & ~3 & _LOW) | index


def _largest(header: bytes) -> int:
    """The MSS option of a TCP header, 0 without one."""
    at = _TCP_HEADER
    while at < len(header) and header[at]:
        if header[at] == _NO_OPERATION:
            at += 1
            continue
        if at + 1 >= len(header) or header[at + 1] < 2:
            return 0
        if header[at] == _MSS and header[at + 1] == 4 and at + 4 <= len(header):
            return int.from_bytes(header[at + 2 : at + 4], "big")
        at += header[at + 1]
    return 0


def _sign(vm: Machine, version: int, ip: int, tcp: int, length: int) -> int:
    length &= _LOW
    if length < _TCP_HEADER:
        return -EINVAL
    header = vm.memory.read(tcp, length)
    if length != header[12] >> 4 << 2:
        return -EINVAL
    wanted = _largest(header) or _DEFAULT[version]
    sizes = _SIZES[version]
    index = max((n for n, size in enumerate(sizes) if size <= wanted), default=0)
    sequence = int.from_bytes(header[4:8], "big")
    return sizes[index] << 32 | _cookie(vm, _tuple(vm, version, ip, tcp), sequence, index)


def _accepts(vm: Machine, version: int, ip: int, tcp: int) -> bool:
    header = vm.memory.read(tcp, _TCP_HEADER)
    sequence, acknowledged = (int.from_bytes(header[at : at + 4], "big") - 1 & _LOW for at in (4, 8))
    return _cookie(vm, _tuple(vm, version, ip, tcp), sequence, acknowledged & 3) == acknowledged


@emulates("tcp_raw_gen_syncookie_ipv4")
def tcp_raw_gen_syncookie_ipv4(vm: Machine, ip: int, tcp: int, length: int) -> int:
    """A SYN's cookie in the low 32 bits, the segment size that it stands for in the high ones."""
    return _sign(vm, 4, ip, tcp, length)


@emulates("tcp_raw_gen_syncookie_ipv6")
def tcp_raw_gen_syncookie_ipv6(vm: Machine, ip: int, tcp: int, length: int) -> int:
    """The same over IPv6."""
    return _sign(vm, 6, ip, tcp, length)


@emulates("tcp_raw_check_syncookie_ipv4")
def tcp_raw_check_syncookie_ipv4(vm: Machine, ip: int, tcp: int) -> int:
    """0 if an ACK acknowledges a cookie that was signed here, else -EACCES."""
    return 0 if _accepts(vm, 4, ip, tcp) else -EACCES


@emulates("tcp_raw_check_syncookie_ipv6")
def tcp_raw_check_syncookie_ipv6(vm: Machine, ip: int, tcp: int) -> int:
    """The same over IPv6."""
    return 0 if _accepts(vm, 6, ip, tcp) else -EACCES


def _headers(vm: Machine, ip: int, ip_length: int, tcp: int, tcp_length: int) -> tuple[int, bytes] | None:
    """IP version and TCP header; None for lengths that no header has."""
    if ip_length & _LOW < _TCP_HEADER or tcp_length & _LOW < _TCP_HEADER:
        return None
    version = vm.memory.read(ip, 1)[0] >> 4
    header = vm.memory.read(tcp, tcp_length & _LOW)
    return (version, header) if version in _ADDRESSES else None


@emulates("tcp_gen_syncookie")
def tcp_gen_syncookie(vm: Machine, socket: int, ip: int, ip_length: int, tcp: int, tcp_length: int) -> int:
    """A cookie for a SYN to a socket that listens; -ENOENT for another."""
    found, headers = vm.sockets.at(socket), _headers(vm, ip, ip_length, tcp, tcp_length)
    if headers is None or found is None or found.protocol != "tcp":
        return -EINVAL
    version, header = headers
    if len(header) != header[12] >> 4 << 2:
        return -EINVAL
    if not found.listens or header[13] & _FIN_RST_SYN_ACK != _SYN:
        return -EINVAL if not found.listens else -ENOENT
    return _sign(vm, version, ip, tcp, tcp_length)


@emulates("tcp_check_syncookie")
def tcp_check_syncookie(vm: Machine, socket: int, ip: int, ip_length: int, tcp: int, tcp_length: int) -> int:
    """0 if an ACK to a socket that listens acknowledges a cookie, else -ENOENT."""
    found, headers = vm.sockets.at(socket), _headers(vm, ip, ip_length, tcp, tcp_length)
    if headers is None or found is None or found.protocol != "tcp" or not found.listens:
        return -EINVAL
    version, header = headers
    if header[13] & _FIN_RST_SYN_ACK != _ACK:
        return -ENOENT
    return 0 if _accepts(vm, version, ip, tcp) else -ENOENT
