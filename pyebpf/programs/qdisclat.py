"""Time packets spend in a queueing discipline, as a histogram.

NAME is the discipline's name in tc(8): fq, codel, fq_codel, red, tbf, cbs, pfifo_fast, sfq, htb. The time runs from the
function that enqueues a packet to the one that dequeues it, on all interfaces. `pyebpf qdisc-fq` is `pyebpf qdisclat
fq`, and likewise for the book's other disciplines. Packets that the discipline drops, or splits into new ones, are not
counted.

Overhead: two probes and two map operations for each packet of the discipline.
"""

from __future__ import annotations

from re import fullmatch
from typing import Self

from pyebpf import BPF, InvalidValue, NotFound, u64
from pyebpf.in_flight import InFlight, LatencyHistogram
from pyebpf.tool import Example, SummaryTool, argument, dataclass, histograms_of, milliseconds_option

#: Disciplines whose functions are not NAME_enqueue and NAME_dequeue, and whose module is not sch_NAME.
FUNCTIONS = {"codel": "codel_qdisc", "fq_pie": "fq_pie_qdisc", "pie": "pie_qdisc"}
#: Functions that choose the next packet when the discipline above looks at it, which then does not call the dequeue
#: function. Until 2026 these disciplines' looks did call it; stable kernels have got the change, 6.12.117 among them.
PEEKS = {"codel": "codel_peek", "fq_codel": "fq_codel_peek"}
BUILT_IN = {"pfifo_fast"}
#: Gone from the kernel, and since when.
GONE = {"cbq": "6.3", "dsmark": "6.3", "atm": "6.3"}


@dataclass(frozen=True)
class Options:
    """The discipline, and how its time is shown."""

    name: str = argument("NAME", help="the queueing discipline, such as fq")
    milliseconds: bool = milliseconds_option()

    def __post_init__(self) -> None:
        """Raise InvalidValue for what cannot be a name."""
        if not fullmatch(r"[a-z][a-z0-9_-]*", self.name):
            raise InvalidValue(f"NAME: {self.name!r} is not the name of a queueing discipline, such as fq")


class Latency(BPF):
    """The probes of one discipline, whose module may be missing."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.discipline = name

    def __enter__(self) -> Self:
        try:
            return super().__enter__()
        except NotFound as error:
            raise NotFound(why_missing(self.discipline)) from error


def why_missing(name: str) -> str:
    """Advice about a discipline whose functions the kernel does not have."""
    if name in GONE:
        since = f"left the kernel in Linux {GONE[name]}"
        return f"the queueing discipline {name} {since}; on an older one: modprobe sch_{name}"
    if name in BUILT_IN:
        return f"this kernel has no queueing discipline {name}"
    return f"the queueing discipline {name} is not loaded: modprobe sch_{name}, or there is none of that name"


def build(options: Options) -> Latency:
    """The probes and maps; nothing is loaded yet."""
    bpf = Latency(options.name)
    function = FUNCTIONS.get(options.name, options.name.replace("-", "_"))
    packets = InFlight(bpf, name="packets", oldest_first=True)
    latency = LatencyHistogram(bpf, options)

    # Addresses are all that is needed, and all that there is before Linux 5.11, which has no BTF of modules.
    @bpf.function(f"{function}_enqueue")
    def on_enqueue(skb: u64) -> None:
        packets.start(skb)

    def on_dequeue(retval: u64) -> None:
        if retval:
            latency.add(packets.end(retval))

    bpf.function_return(f"{function}_dequeue")(on_dequeue)
    if options.name in PEEKS:
        bpf.function_return(PEEKS[options.name], optional=True)(on_dequeue)
    return bpf


TOOL = SummaryTool(
    name="qdisclat",
    doc=__doc__,
    section="10.3.24",
    tracing="a queueing discipline",
    options=Options,
    build=build,
    drop_labels={"packets": "packets under way"},
    snapshot=histograms_of("latency"),
    examples=(
        Example("qdisclat fq", "time in fq, one histogram at the end"),
        Example("qdisclat -m tbf 1 10", "in tbf, milliseconds, each second, ten times"),
        Example("qdisclat fq_codel -d 10", "in fq_codel, for ten seconds"),
    ),
)
open = TOOL.open  # noqa: A001 - the library's spelling of every tool: qdisclat.open("fq")
