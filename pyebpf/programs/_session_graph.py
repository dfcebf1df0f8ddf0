"""TCP sessions as a graph: processes and other hosts are its nodes, the bytes that one sent another its edges."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyebpf.tool import Record, dataclass

if TYPE_CHECKING:
    from collections.abc import Iterable
    from ipaddress import IPv4Address, IPv6Address

    from pyebpf.programs.tcplife import Session

STYLE = 'rankdir=LR; node [shape=box, fontname="sans-serif"]; edge [fontname="sans-serif", fontsize=11];'


@dataclass(frozen=True)
class Edge(Record):
    """The `sent` bytes that a node sent another in so many sessions; `line` is its part of the graph as DOT."""

    source: str
    target: str
    sessions: int
    sent: int
    line: str


def _plain(address: IPv4Address | IPv6Address) -> IPv4Address | IPv6Address:
    """The IPv4 address that an IPv6 socket has in IPv6's form."""
    return getattr(address, "ipv4_mapped", None) or address


def _node(session: Session) -> str:
    return f"{session.comm} ({session.pid})" if session.pid else str(_plain(session.local))


def edges(sessions: Iterable[Session]) -> list[Edge]:
    """The edges, by their nodes. Of a session with both ends on this machine each end tells what it sent."""
    found = list(sessions)
    nodes = {(_plain(s.local), s.local_port, _plain(s.remote), s.remote_port): _node(s) for s in found}
    sums: dict[tuple[str, str], tuple[int, int]] = {}

    def add(source: str, target: str, size: int) -> None:
        count, total = sums.get((source, target), (0, 0))
        sums[source, target] = count + 1, total + size

    for session in found:
        other = nodes.get((_plain(session.remote), session.remote_port, _plain(session.local), session.local_port))
        add(_node(session), other or str(_plain(session.remote)), session.sent)
        if other is None:
            add(str(_plain(session.remote)), _node(session), session.received)
    return [
        Edge(source, target, count, total, _line(source, target, count, total, number, len(sums)))
        for number, ((source, target), (count, total)) in enumerate(sorted(sums.items()), 1)
    ]


def _counted(number: int, thing: str) -> str:
    return f"{number:,} {thing}{'' if number == 1 else 's'}"


def _line(source: str, target: str, count: int, total: int, number: int, last: int) -> str:
    """An edge in DOT; the first one opens the graph, the last one closes it. Whoever prints it doubles backslashes."""
    names = " -> ".join('"{}"'.format(name.replace('"', "'")) for name in (source, target))
    label = f"{_counted(count, 'session')}, {_counted(total, 'byte')}"
    begin = f"digraph tcplife {{ {STYLE} " if number == 1 else ""
    return f'{begin}{names} [label="{label}"];{" }" if number == last else ""}'
