"""Addresses of the network as the tools' records have them and their lines print them."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address


def ip_address(version: int, four: int, six: bytes) -> IPv4Address | IPv6Address:
    """The address of a record that has room for both: `four` as a number, or the sixteen bytes of `six`."""
    return IPv4Address(four) if version == 4 else IPv6Address(six)


def endpoint(address: IPv4Address | IPv6Address, port: int) -> str:
    """An address with its port, as URLs write it."""
    return f"[{address}]:{port}" if address.version == 6 else f"{address}:{port}"
