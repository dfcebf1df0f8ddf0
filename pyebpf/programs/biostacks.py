"""Latency of block I/O as a histogram for each kernel stack that led to it.

The time runs from the queueing of a request until its completion, with what it waits in the operating system's queue.
The stack is that of the thread that queued it: it says why there is I/O, which a histogram of a disk does not, such as
a file system's journal, swapping, or reading ahead. Requests that were merged into others have ended with that; one
that is issued again goes on, and one that completes in parts ends with its last part. With -f, --svg and the like the
time of all requests by stack is written once, at the end.

Overhead: a stack, three map operations and a histogram for each request.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from pyebpf import KernelObject, Struct, char, comm, field, kstack, now, s32, u64
from pyebpf.programs._block import QueuedRequests, disk_option, is_wanted
from pyebpf.tool import (
    KERNEL_STACK,
    Example,
    Histogram,
    Stack,
    SummaryTool,
    dataclass,
    flag,
    histograms_of,
    milliseconds_option,
    option,
    time_unit,
)

if TYPE_CHECKING:
    from collections.abc import Iterator


class Queued(Struct):
    """A request under way: when it was queued, and by whom."""

    at: u64
    stack: s32
    comm: str = field(char[16])


class OneStack(Struct):
    """Key of the histograms."""

    stack: s32


class ProcessStack(Struct):
    """Key of the histograms by process, and of the times."""

    comm: str = field(char[16])
    stack: s32


@dataclass(frozen=True)
class Options:
    """Options: which requests to time, and how to group them."""

    milliseconds: bool = milliseconds_option()
    by_process: bool = flag("-P", "--processes", help="tell processes apart, by their names")
    disk: str | None = disk_option()
    depth: int = option("--depth", default=32, metavar="N", help="frames of each stack", minimum=1, maximum=127)


class TimedRequests(QueuedRequests):
    """The probes; `seen` are nanoseconds of all intervals, by the thread's name and the stack."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: Counter[tuple[str, tuple[Any, ...]]] = Counter()

    def look(self) -> None:
        """Add the times since the last look, as long as their stacks are there."""
        for key, nanoseconds in self["times"].interval().items():
            self.seen[key.comm, tuple(self.stacks.kernel(key.stack))] += nanoseconds

    def clear(self) -> None:
        """Forget requests under way, and what was seen of others."""
        self["requests"].clear()
        self["times"].interval()
        self.seen.clear()


def build(options: Options) -> TimedRequests:
    """The probes and their maps; nothing is loaded yet."""
    bpf = TimedRequests()
    unit, factor = time_unit(options.milliseconds)
    requests = bpf.hash(key=u64, value=Queued, size=65_536, name="requests")
    latency = bpf.log2_hist(key=ProcessStack if options.by_process else OneStack, unit=unit, name="latency")
    times = bpf.counter(key=ProcessStack, name="times")

    def queued(rq: KernelObject) -> None:
        requests[rq] = Queued(at=now(), stack=kstack(options.depth), comm=comm())

    bpf.queued = queued

    @bpf.btf_tracepoint("block_rq_merge")
    def on_merge(rq: KernelObject) -> None:
        del requests[rq]

    @bpf.btf_tracepoint("block_rq_complete")
    def on_complete(rq: KernelObject, nr_bytes: int) -> None:
        if nr_bytes < rq.__data_len:
            return
        request = requests.get(rq)
        if request is None:
            return
        if is_wanted(rq, options.disk):
            elapsed, key = now() - request.at, ProcessStack(comm=request.comm, stack=request.stack)
            times[key].add(elapsed)
            if options.by_process:
                latency[key].add(elapsed // factor)
            else:
                latency[OneStack(stack=request.stack)].add(elapsed // factor)
        del requests[rq]

    return bpf


_histograms = histograms_of("latency", stack=KERNEL_STACK)


def snapshot(bpf: TimedRequests, options: Options) -> Iterator[Histogram]:
    """The interval's histograms, which give the room of its stacks back."""
    bpf.look()
    yield from _histograms(bpf, options)


def stacks(bpf: TimedRequests, options: Options) -> Iterator[Stack]:  # noqa: ARG001 - as every tool's
    """The time of all requests in microseconds, by the thread's name and the stack, the longest first."""
    bpf.look()
    for (name, stack), nanoseconds in bpf.seen.most_common():
        yield Stack(nanoseconds // 1000, name, None, None, stack)


TOOL = SummaryTool(
    name="biostacks",
    doc=__doc__,
    section="9.3.7",
    tracing="block I/O with stacks",
    options=Options,
    build=build,
    drop_labels={
        "requests": "requests under way",
        "latency": "requests of further stacks",
        "times": "times of further stacks",
    },
    reset=lambda bpf: bpf.clear(),
    snapshot=snapshot,
    stacks=stacks,
    unit="us",
    examples=(
        Example("biostacks", "a histogram a stack, at the end"),
        Example("biostacks -m 10", "milliseconds, every ten seconds"),
        Example("biostacks -P --disk sda", "by process, too, of one disk"),
        Example("biostacks --svg io.svg -d 60", "a minute as a flame graph, by time"),
        Example("biostacks --depth 10 --json", "short stacks, an object each"),
    ),
)
open = TOOL.open  # noqa: A001 - the library's spelling of every tool: biostacks.open(by_process=True)
