"""Round-trip times of TCP: a histogram for each remote host.

The times are those that the kernel works with, smoothed over the last measurements of a connection (srtt). One is
taken for each segment that an established connection receives, so busy connections weigh more.

Overhead: one probe and one map operation for each segment that an established connection receives.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyebpf import BPF, InvalidValue, KernelObject, Struct, cast
from pyebpf.endpoints import Endpoints, endpoints
from pyebpf.filters import SocketFilter
from pyebpf.tool import Example, Histogram, SocketOptions, SummaryTool, dataclass, flag, milliseconds_option

if TYPE_CHECKING:
    from collections.abc import Iterator


class Host(Struct):
    """Key of the histograms: ends of which only the addresses are kept that tell them apart."""

    ends: Endpoints


@dataclass(frozen=True)
class Options(SocketOptions):
    """Options: which connections to measure, and how to show them."""

    by_local: bool = flag("-b", "--byladdr", help="a histogram for each local address; with -B for each pair")
    by_remote: bool = flag("-B", "--byraddr", help="a histogram for each remote address, as without -b")
    total: bool = flag("-t", "--total", help="one histogram for all hosts")
    average: bool = flag("-e", "--extension", help="the average of each histogram, too")
    milliseconds: bool = milliseconds_option()

    def __post_init__(self) -> None:
        """Refuse what contradicts."""
        if self.total and (self.by_local or self.by_remote):
            raise InvalidValue("--total: one histogram is not told apart by addresses: leave it out, or -b and -B")

    @property
    def keeps_remote(self) -> bool:
        """Whether remote addresses tell histograms apart."""
        return self.by_remote or not self.by_local


def build(options: Options) -> BPF:
    """The probe and its histograms; nothing is loaded yet."""
    bpf, sockets = BPF(), SocketFilter(options)
    unit, factor = ("msecs", 1_000) if options.milliseconds else ("usecs", 1)
    if options.total:
        overall = bpf.log2_hist(unit=unit, name="times", sums=options.average)
    else:
        times = bpf.log2_hist(key=Host, unit=unit, name="times", sums=options.average)

    # In tcp_rcv_established, which the book's idea was to trace.
    @bpf.btf_tracepoint("tcp_probe")
    def on_segment(sk: KernelObject) -> None:
        # In eighths; none before the first measurement.
        smoothed = cast("struct tcp_sock", sk).srtt_us >> 3
        if smoothed == 0:
            return
        ends = endpoints(sk)
        if not sockets.wanted(ends):
            return
        if options.total:
            overall.add(smoothed // factor)
        else:
            if not options.by_local:
                ends.local_high, ends.local_low = 0, 0
            if not options.keeps_remote:
                ends.remote_high, ends.remote_low = 0, 0
            ends.local_port, ends.remote_port, ends.family = 0, 0, 0
            times[Host(ends=ends)].add(smoothed // factor)

    return bpf


def snapshot(bpf: BPF, options: Options) -> Iterator[Histogram]:
    """The interval's histograms, that of the most segments last."""
    found = bpf["times"].interval()
    if options.total:
        yield found.with_labels(averages(found))
        return
    for host, each in sorted(found.items(), key=lambda item: (item[1].total, str(item[0].ends))):
        local = {"local host": str(host.ends.local)} if options.by_local else {}
        remote = {"remote host": str(host.ends.remote)} if options.keeps_remote else {}
        yield each.with_labels({**local, **remote, **averages(each)})


def averages(found: Histogram) -> dict[str, float]:
    """The label with a histogram's average, of one whose sum is kept."""
    return {} if found.average is None else {"average": round(found.average, 3)}


TOOL = SummaryTool(
    name="tcprtt",
    doc=__doc__,
    tracing="TCP round-trip times",
    options=Options,
    build=build,
    drop_labels={"times": "segments of further hosts"},
    snapshot=snapshot,
    examples=(
        Example("tcprtt", "a histogram for each host, at the end"),
        Example("tcprtt -m 10", "milliseconds, every ten seconds"),
        Example("tcprtt -t -D 443", "one histogram, of this remote port"),
        Example("tcprtt -b -B -e", "for each pair of hosts, and averages"),
        Example("tcprtt --address 192.0.2.0/24", "hosts of a network"),
    ),
)
open = TOOL.open  # noqa: A001 - the library's spelling of every tool: tcprtt.open(remote_ports=(443,))
