"""Addresses of the network as the tools' records have them and their lines print them."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address


def ip_address(version: int, four: int, six: bytes) -> IPv4Address | IPv6Address:
    """The address of a record that has room for both: `four` as a number, or the sixteen bytes of `six`."""
    return IPv4Address(four) if version == 4 else IPv6Address(six)


def socket_address(version: int, four: int, six: bytes) -> IPv4Address | IPv6Address:
    """The address of a socket's end: an IPv4 address of an IPv6 socket, ::ffff:a.b.c.d, is one of IPv4."""
    address = ip_address(version, four, six)
    return getattr(address, "ipv4_mapped", None) or address
