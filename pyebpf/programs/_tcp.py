"""Parts that the TCP tools share: numbers, names of states, ends with their ports in one column."""

from __future__ import annotations

from typing import Any

from pyebpf import TcpState
from pyebpf.endpoints import with_port
from pyebpf.tool import Column, ends_columns

#: include/uapi/linux/in.h
IPPROTO_TCP, IPPROTO_UDP = 6, 17
#: Multipath TCP (since Linux 5.6).
IPPROTO_MPTCP = 262


def state_name(number: int) -> str:
    """A state of a TCP socket, ESTABLISHED; its number if it has no name."""
    try:
        return TcpState(number).name
    except ValueError:
        return str(number)


def local_end(record: Any) -> str:
    """The local address and port of a record's `ends`."""
    return with_port(record.ends.local, record.ends.local_port)


def remote_end(record: Any) -> str:
    """The remote address and port of a record's `ends`."""
    return with_port(record.ends.remote, record.ends.remote_port)


def joined_ends_columns(*between: Column, headings: tuple[str, str], width: int = 21) -> tuple[Column, ...]:
    """Two columns of text, ends as ADDRESS:PORT, with others in between; four fields of JSON and CSV."""
    local, remote = headings
    return (
        Column(local, width, key=local_end, cut=False, field=None),
        *between,
        Column(remote, width, key=remote_end, cut=False, field=None),
        *ends_columns(printed=False),
    )
