"""Time that block I/O waits in the scheduler's queue, as a histogram for each scheduler, by its name.

The time runs from the insertion of a request into the queue until its issue to the device. Without a scheduler, none,
requests that the device can take at once pass no queue, and are not counted. Requests that were merged into others have
left the queue with that.

Overhead: two map operations and a histogram for each request.
"""

from __future__ import annotations

from pyebpf import BPF, KernelObject, char, kernel_string
from pyebpf.in_flight import InFlight, LatencyHistogram
from pyebpf.programs._block import disk_option, is_wanted
from pyebpf.tool import Example, LatencyOptions, SummaryTool, dataclass, histograms_of


@dataclass(frozen=True)
class Options(LatencyOptions):
    """Options: which requests to time, and how to show the time."""

    disk: str | None = disk_option()


def build(options: Options) -> BPF:
    """The probes and their maps; nothing is loaded yet."""
    bpf = BPF()
    waiting = InFlight(bpf, name="waiting")
    latency = LatencyHistogram(bpf, options, key=char[16], label="scheduler")

    @bpf.btf_tracepoint("block_rq_insert")
    def on_insert(rq: KernelObject) -> None:
        if is_wanted(rq, options.disk):
            waiting.start(rq)

    @bpf.btf_tracepoint("block_rq_merge")
    def on_merge(rq: KernelObject) -> None:
        waiting.cancel(rq)

    @bpf.btf_tracepoint("block_rq_issue")
    def on_issue(rq: KernelObject) -> None:
        elapsed = waiting.end(rq)
        if elapsed is not None:
            latency.add(elapsed, kernel_string(rq.q.elevator.type.elevator_name, size=16))

    return bpf


TOOL = SummaryTool(
    name="iosched",
    doc=__doc__,
    section="9.3.10",
    tracing="block I/O schedulers",
    options=Options,
    build=build,
    drop_labels={"waiting": "requests in queues", "latency": "requests of further schedulers"},
    reset=lambda bpf: bpf["waiting"].clear(),
    snapshot=histograms_of("latency", scheduler=lambda name: name or "none"),
    examples=(
        Example("iosched", "a histogram a scheduler, at the end"),
        Example("iosched -m 1 10", "milliseconds, each second, ten times"),
        Example("iosched --disk sda --json", "of one disk, an object each"),
    ),
)
open = TOOL.open  # noqa: A001 - the library's spelling of every tool: iosched.open(disk="sda")
