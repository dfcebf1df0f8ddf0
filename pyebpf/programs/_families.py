"""Names of address families and protocols, without AF_ and IPPROTO_."""

from __future__ import annotations

import socket
from functools import cache


@cache
def _names(prefix: str) -> dict[int, str]:
    """Names of this Python's socket module by number."""
    return {int(value): name.removeprefix(prefix) for name, value in vars(socket).items() if name.startswith(prefix)}


def family_name(number: int) -> str:
    """An address family, INET6; its number if it has no name."""
    return _names("AF_").get(number, str(number))


def protocol_name(number: int) -> str:
    """A protocol of IP, TCP; its number if it has no name."""
    return _names("IPPROTO_").get(number, str(number))
