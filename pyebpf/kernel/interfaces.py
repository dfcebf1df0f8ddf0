"""Network interfaces of this process's network namespace, by name and index."""

from __future__ import annotations

import socket

from pyebpf.errors import NotFound, closest
from pyebpf.kernel.shortages import raise_shortage


def has_interface(name: str) -> bool:
    """Whether there is an interface of that name."""
    try:
        socket.if_nametoindex(name)
    except OSError as error:
        raise_shortage(error)  # of the socket that is asked
        return False
    return True


def interface_index(name: str) -> int:
    """The index of an interface. Raises NotFound with the closest names."""
    try:
        return socket.if_nametoindex(name)
    except OSError as error:
        raise_shortage(error)
        names = [each for _, each in socket.if_nameindex()]
        hint = closest(name, names)
        there = "" if hint or len(names) > 8 else f": there is {', '.join(names)}"
        raise NotFound(f"no network interface {name!r} in this network namespace{hint}{there}") from None


def interface_name(index: int) -> str:
    """The name of the interface with this index; "#7" where this namespace has none."""
    try:
        return socket.if_indextoname(index)
    except OSError:
        return f"#{index}"
