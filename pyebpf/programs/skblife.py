"""Lifespans of socket buffers (struct sk_buff) as a histogram: from allocation, or cloning, to being freed.

Every packet, and every message of UNIX and netlink sockets, is in such a buffer. Functions of the kernel that make
buffers and that give them up are traced, not the slab caches, since each processor keeps a stock of its own of freed
buffers, past the caches. Buffers that were made before skblife started are not counted.

Overhead: two or three probes and map operations for each buffer.
"""

from __future__ import annotations

from pyebpf import BPF, u64
from pyebpf.in_flight import InFlight, LatencyHistogram
from pyebpf.tool import Example, SummaryTool, dataclass, histograms_of, milliseconds_option

LIFESPAN = "lifespan"
#: Functions that return a new buffer. Some call others of these, or have them inlined; the last return counts.
MAKERS = (
    "__alloc_skb",
    "__build_skb",
    "build_skb",
    "build_skb_around",
    "__netdev_alloc_skb",
    "skb_clone",
    "alloc_skb_for_msg",
)
#: Those that some kernels have: napi_build_skb since Linux 5.12, slab_build_skb since 6.3; __napi_alloc_skb lost its
#: underscores in Linux 6.10.
SOME_MAKERS = ("napi_build_skb", "slab_build_skb", "__napi_alloc_skb", "napi_alloc_skb")


@dataclass(frozen=True)
class Options:
    """Options: how to show the time."""

    milliseconds: bool = milliseconds_option("milliseconds instead of nanoseconds")


def build(options: Options) -> BPF:
    """The probes and maps; nothing is loaded yet."""
    bpf = BPF()
    buffers = InFlight(bpf, name="buffers")
    lifespan = LatencyHistogram(bpf, options, name=LIFESPAN, unit="nsecs")

    # Addresses are all that is needed: nothing of a buffer is read.
    @bpf.function_return(*MAKERS)
    @bpf.function_return(*SOME_MAKERS, optional=True)
    def on_made(retval: u64) -> None:
        if retval:
            buffers.start(retval)

    # Each buffer that is freed passes one of these, but skb_morph() too, which fills a buffer again, has the first.
    @bpf.function("skb_release_head_state", "__consume_stateless_skb")
    @bpf.function("napi_skb_free_stolen_head", optional=True)
    def on_freed(skb: u64) -> None:
        lifespan.add(buffers.end(skb))

    return bpf


TOOL = SummaryTool(
    name="skblife",
    doc=__doc__,
    section="10.3.29",
    tracing="the lifespans of socket buffers",
    options=Options,
    build=build,
    drop_labels={"buffers": "buffers in use"},
    snapshot=histograms_of(LIFESPAN),
    examples=(
        Example("skblife", "one histogram when Ctrl-C ends it"),
        Example("skblife -m 1 10", "milliseconds, each second, ten times"),
        Example("skblife --json -d 10", "for ten seconds, an object"),
    ),
)
open = TOOL.open  # noqa: A001 - the library's spelling of every tool: skblife.open()
