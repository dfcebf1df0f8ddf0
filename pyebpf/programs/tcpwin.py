"""TCP congestion windows and send buffers: a line for each segment that arrives, each retransmission and each change.

EVENT is rcv for a segment that an established connection receives, retrans for one that it sends again, and new for a
connection that is established. The values are those of the moment: the congestion window and the slow-start threshold
in segments, the send buffer's size and what it holds in bytes. CSV has the book's names; --plot draws them.

Overhead: one probe and one record for each segment that an established connection receives: choose connections.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyebpf import BPF, InvalidValue, KernelObject, NotFound, Struct, TcpState, cast, now, u32, u64
from pyebpf.endpoints import Endpoints, endpoints, with_port
from pyebpf.filters import SocketFilter
from pyebpf.programs._tcp import IPPROTO_TCP
from pyebpf.tool import (
    Column,
    EventTool,
    Example,
    SocketOptions,
    Stop,
    dataclass,
    ends_columns,
    events,
    monotonic_time,
    option,
)
from pyebpf.tool.files import check_writable, write_file
from pyebpf.tool.line_charts import Panel, line_charts

if TYPE_CHECKING:
    from collections.abc import Iterator

RECEIVED, AGAIN, NEW = 0, 1, 2
EVENTS = ("rcv", "retrans", "new")
#: TCP_INFINITE_SSTHRESH of include/net/tcp.h: no threshold yet.
NO_THRESHOLD = 0x7FFFFFFF
#: Connections that a plot shows: those with the most events.
MOST_PLOTTED = 8


class Window(Struct):
    """A connection's window and buffer at an event; time in nanoseconds of time.monotonic_ns()'s clock."""

    time: u64
    socket: u64
    kind: u32
    snd_cwnd: u32
    snd_ssthresh: u32
    sk_sndbuf: u32
    sk_wmem_queued: u32
    ends: Endpoints

    @property
    def event(self) -> str:
        """The event's name."""
        return EVENTS[self.kind]

    @property
    def sock(self) -> str:
        """The address of the kernel's `struct sock`."""
        return f"{self.socket:#x}"


@dataclass(frozen=True)
class Options(SocketOptions):
    """Options: which connections to report, and whether to draw them."""

    plot: str | None = option(
        "--plot", metavar="FILE", help="write an SVG of all lines to this file at the end", output_only=True
    )


def build(options: Options) -> BPF:
    """The probes and their buffer; nothing is loaded yet."""
    if options.plot is not None:
        check_plot(options.plot)
    bpf, sockets = BPF(), SocketFilter(options)
    windows = bpf.ringbuf(Window, name="windows")

    def report(sk: KernelObject, kind: int) -> None:
        ends = endpoints(sk)
        if sockets.wanted(ends):
            tcp = cast("struct tcp_sock", sk)
            windows.emit(
                Window(
                    time=now(),
                    socket=u64(sk),
                    kind=kind,
                    snd_cwnd=tcp.snd_cwnd,
                    snd_ssthresh=tcp.snd_ssthresh,
                    sk_sndbuf=sk.sk_sndbuf,
                    sk_wmem_queued=sk.sk_wmem_queued,
                    ends=ends,
                )
            )

    # In tcp_rcv_established, before it handles the segment.
    @bpf.btf_tracepoint("tcp_probe")
    def on_segment(sk: KernelObject) -> None:
        report(sk, RECEIVED)

    @bpf.btf_tracepoint("tcp_retransmit_skb")
    def on_retransmit(sk: KernelObject) -> None:
        report(sk, AGAIN)

    @bpf.btf_tracepoint("inet_sock_set_state")
    def on_state(sk: KernelObject, newstate: int) -> None:
        if newstate == TcpState.ESTABLISHED and sk.sk_protocol == IPPROTO_TCP:
            report(sk, NEW)

    return bpf


def windows(bpf: BPF, options: Options, stop: Stop) -> Iterator[Window]:
    """Events as they happen; at the end they are drawn."""
    seen: list[Window] = []
    try:
        for found in events(bpf["windows"], stop):
            found.time = monotonic_time(found.time)
            if options.plot is not None:
                seen.append(found)
            yield found
    finally:
        if options.plot is not None and seen:
            write(options.plot, plot(seen))


def check_plot(path: str) -> None:
    """Refuse a file that can't be written: before the tracing, not after. Raises InvalidValue."""
    if not path:
        raise InvalidValue("--plot: name the file to write")
    try:
        check_writable(path)
    except InvalidValue as error:
        raise InvalidValue(f"--plot: {error}") from None


def write(path: str, text: str) -> None:
    """Write a plot. Raises NotFound."""
    try:
        write_file(path, text)
    except OSError as error:
        raise NotFound(f"--plot: {path} cannot be written: {error.strerror}") from None


def plot(seen: list[Window]) -> str:
    """Two charts for each connection, its window and its buffer: SVG."""
    by_socket: dict[Any, list[Window]] = {}
    for each in seen:
        by_socket.setdefault((each.socket, each.ends.local_port, each.ends.remote_port), []).append(each)
    busiest = sorted(by_socket.values(), key=len, reverse=True)[:MOST_PLOTTED]
    panels = []
    for windows in sorted(busiest, key=lambda windows: windows[0].time):
        last = windows[-1].ends
        name = f"{with_port(last.local, last.local_port)} - {with_port(last.remote, last.remote_port)}"
        thresholds = [each for each in windows if each.snd_ssthresh < NO_THRESHOLD]
        segments = {"snd_cwnd": _line(windows, "snd_cwnd"), "snd_ssthresh": _line(thresholds, "snd_ssthresh")}
        buffers = {attribute: _line(windows, attribute) for attribute in ("sk_sndbuf", "sk_wmem_queued")}
        again = {"retrans": [each.time / 1e9 for each in windows if each.kind == AGAIN]}
        panels.append(Panel(f"{name}: congestion window", "segments", segments, again))
        panels.append(Panel(f"{name}: send buffer", "bytes", buffers, again))
    return line_charts("TCP congestion windows and send buffers", panels)


def _line(windows: list[Window], attribute: str) -> list[tuple[float, int]]:
    return [(each.time / 1e9, getattr(each, attribute)) for each in windows]


TOOL = EventTool(
    name="tcpwin",
    doc=__doc__,
    section="10.3.18",
    tracing="TCP windows",
    options=Options,
    build=build,
    drop_labels={"windows": "events"},
    records=windows,
    record=Window,
    time="time",
    columns=(
        Column("EVENT", 7),
        Column("SOCK", 18, field="sock"),
        Column("TIME_US", 12, ">", key=lambda window: window.time // 1000, field="time_us", type="int"),
        Column("CWND", 5, ">", key="snd_cwnd"),
        Column("SSTHRESH", 10, ">", key="snd_ssthresh"),
        Column("SNDBUF", 8, ">", key="sk_sndbuf"),
        Column("WMEM_QUEUED", 11, ">", key="sk_wmem_queued"),
        *ends_columns(printed=False),
    ),
    examples=(
        Example("tcpwin -L 443", "connections of this local port"),
        Example("tcpwin -D 5201 --csv", "of this remote port, as CSV"),
        Example("tcpwin -D 5201 --plot win.svg -d 10", "draw ten seconds of them"),
    ),
)
open = TOOL.open  # noqa: A001 - the library's spelling of every tool: tcpwin.open(local_ports=(443,))
