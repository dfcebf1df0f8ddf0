"""Nagle's algorithm: how TCP is asked to send, and how long it holds data back.

Each attempt to send is counted by its flags: none (Nagle's algorithm decides), OFF (TCP_NODELAY, or data that must go
now), CORK (TCP_CORK or MSG_MORE), PUSH. The histogram has the times from an attempt that left data unsent with nothing
in flight to the one that sent it.

Overhead: two probes and one map operation for each attempt to send a segment.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyebpf import BPF, KernelObject, Struct, now, u32
from pyebpf.endpoints import endpoints
from pyebpf.filters import SocketFilter
from pyebpf.in_flight import InFlight, LatencyHistogram
from pyebpf.tool import (
    Column,
    Example,
    Record,
    SocketOptions,
    SummaryMode,
    SummaryTool,
    dataclass,
    flag,
    histograms_of,
    milliseconds_option,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

#: include/net/tcp.h: TCP_NAGLE_OFF, TCP_NAGLE_CORK, TCP_NAGLE_PUSH
FLAGS = ("OFF", "CORK", "PUSH")


class Attempts(Struct):
    """Key of the counts: the flags, and whether data was held back."""

    flags: u32
    held: u32


@dataclass(frozen=True)
class Attempt(Record):
    """A row: attempts to send with some flags, and how many of them left data unsent with nothing in flight."""

    flags: str
    count: int
    held: int


@dataclass(frozen=True)
class Options(SocketOptions):
    """Options: which connections to measure, and how to show them."""

    milliseconds: bool = milliseconds_option()
    blocked: bool = flag("-b", "--blocked", help="only the histogram, each interval")


def build(options: Options) -> BPF:
    """The probe and maps; nothing is loaded yet."""
    bpf, sockets = BPF(), SocketFilter(options)
    attempts = bpf.counter(key=Attempts)
    blocked = LatencyHistogram(bpf, options, name="blocked")
    # Some are closed while their data is held back.
    waiting = InFlight(bpf, size=16_384, name="waiting", oldest_first=True)

    @bpf.call("tcp_write_xmit")
    def on_attempt(sk: KernelObject, nonagle: int, retval: int) -> None:
        if not sockets.wanted(endpoints(sk)):
            return
        # Data is left, nothing is in flight whose ACK would let it out, and it may not go now.
        held = u32(retval & 0xFF)
        attempts[Attempts(flags=nonagle, held=held)].add()
        if held:
            waiting.began.add(sk, now())
        else:
            blocked.add(waiting.end(sk))

    return bpf


def flag_names(flags: int) -> str:
    """Flags by their names, none for 0; a bit without name as its number."""
    names = [name for bit, name in enumerate(FLAGS) if flags >> bit & 1]
    if flags >> len(FLAGS):
        names.append(hex(flags >> len(FLAGS) << len(FLAGS)))
    return "|".join(names) or "none"


def snapshot(bpf: BPF, options: Options) -> list[Attempt]:  # noqa: ARG001 - as every tool's
    """The interval's attempts by flags, the most first."""
    counts: dict[int, list[int]] = {}
    for key, count in bpf["attempts"].interval().items():
        row = counts.setdefault(key.flags, [0, 0])
        row[0] += count
        row[1] += count if key.held else 0
    rows = [Attempt(flag_names(flags), count, held) for flags, (count, held) in counts.items()]
    return sorted(rows, key=lambda row: (-row.count, row.flags))


def times(bpf: BPF, options: Options) -> Iterator[str]:  # noqa: ARG001 - as every tool's
    """The histogram of all intervals, as lines of text."""
    found = bpf["blocked"].snapshot()
    if found.total:
        yield ""
        yield "time that data was held back:"
        yield from str(found).splitlines()


TOOL = SummaryTool(
    name="tcpnagle",
    doc=__doc__,
    section="10.3.19",
    tracing="attempts to send over TCP",
    options=Options,
    build=build,
    drop_labels={"attempts": "attempts with further flags", "waiting": "connections that wait"},
    snapshot=snapshot,
    footer=times,
    record=Attempt,
    columns=(
        Column("FLAGS", 16),
        Column("COUNT", 10, ">"),
        Column("HELD", 10, ">", key="held", field="held_count"),
    ),
    modes={"blocked": SummaryMode(snapshot=histograms_of("blocked"))},
    examples=(
        Example("tcpnagle", "counts by flags, and a histogram, at the end"),
        Example("tcpnagle -m -L 443", "milliseconds, of this local port"),
        Example("tcpnagle -b --json 10", "the histogram of every ten seconds"),
    ),
)
open = TOOL.open  # noqa: A001 - the library's spelling of every tool: tcpnagle.open(local_ports=(443,))
