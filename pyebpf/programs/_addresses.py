"""Addresses of the network as the tools' records have them and their lines print them."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address

from pyebpf import Struct, array, field, u8, u16, u32


class PacketAddresses(Struct):
    """From whom to whom an IP packet is; of `version` 4 or 6, whose fields are filled."""

    source4: u32
    destination4: u32
    source6: bytes = field(array(u8, 16))
    destination6: bytes = field(array(u8, 16))
    version: u16

    @property
    def source(self) -> IPv4Address | IPv6Address:
        """The sender's address."""
        return ip_address(self.version, self.source4, self.source6)

    @property
    def destination(self) -> IPv4Address | IPv6Address:
        """The receiver's address."""
        return ip_address(self.version, self.destination4, self.destination6)


def ip_address(version: int, four: int, six: bytes) -> IPv4Address | IPv6Address:
    """The address of a record that has room for both: `four` as a number, or the sixteen bytes of `six`."""
    return IPv4Address(four) if version == 4 else IPv6Address(six)


def socket_address(version: int, four: int, six: bytes) -> IPv4Address | IPv6Address:
    """The address of a socket's end: an IPv4 address of an IPv6 socket, ::ffff:a.b.c.d, is one of IPv4."""
    address = ip_address(version, four, six)
    return getattr(address, "ipv4_mapped", None) or address
