"""The network counters of /proc/net, as nstat(8) names them, and what changed in them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

PROC = Path("/proc/net")


def network_counters() -> dict[str, int]:
    """The counters of this network namespace: TcpExtListenDrops, IpInReceives, Udp6InErrors."""
    found: dict[str, int] = {}
    for name in ("snmp", "netstat"):
        lines = _lines(name)
        # A line of names, and below it one of values, each after the protocol.
        for names, values in zip(lines[::2], lines[1::2], strict=True):
            protocol, *words = names.split()
            found |= {
                protocol.rstrip(":") + word: int(value) for word, value in zip(words, values.split()[1:], strict=True)
            }
    # Without IPv6 there is no such file.
    found |= {name: int(value) for name, value in (line.split() for line in _lines("snmp6"))}
    return found


def _lines(name: str) -> list[str]:
    path = PROC / name
    return path.read_text(encoding="ascii").splitlines() if path.exists() else []


def changes(before: Mapping[str, int]) -> dict[str, int]:
    """The counters that are not as they were, with the difference."""
    after = network_counters()
    return {name: after[name] - before.get(name, 0) for name in after if after[name] != before.get(name, 0)}
