"""Packets that the kernel drops, counted by reason and kernel stack, with the network counters that changed in text.

Counts packets of every protocol that the kernel frees as dropped (skb:kfree_skb), not those that it frees after use.
Many of them are harmless, such as what is left in the queues of a closed socket: the reason says so, since Linux 5.17,
and the stack. In text, not in JSON or CSV, the kernel's counters that changed meanwhile are below the last summary, as
nstat(8) has them: those of this network namespace, while stacks are of the whole machine. With -f, --svg and the like
packets by reason and stack are written once, at the end.

Overhead: 1.5 us for each packet that is dropped, nothing for others.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Self

from pyebpf import BPF, RawTracepointContext, Struct, has_field, kstack, s32, u32
from pyebpf.programs._counters import changes, network_counters
from pyebpf.programs._drops import EVENT, ReasonFilter, check_reasons, reason_names, reasons_option
from pyebpf.tool import Column, Example, Record, Stack, SummaryTool, dataclass, option

if TYPE_CHECKING:
    from collections.abc import Iterator


class Site(Struct):
    """Key of the counts."""

    reason: u32
    stack: s32


@dataclass(frozen=True)
class Dropped(Record):
    """Packets dropped for one reason at one place; `stack` is the kernel's, the innermost function first."""

    count: int
    reason: str
    stack: tuple[str, ...]


@dataclass(frozen=True)
class Options:
    """Options: which drops to count."""

    reasons: tuple[str, ...] = reasons_option()
    depth: int = option(
        "--depth",
        default=8,
        metavar="N",
        help="frames of each stack",
        minimum=1,
        maximum=127,
    )


class Drops(BPF):
    """The probe; `before` are the counters at the start, `seen` the packets of all intervals."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: Counter[Any] = Counter()

    def counted(self) -> dict[Any, int]:
        """The packets of an interval by their sites."""
        found: dict[Any, int] = self["drops"].interval()
        self.seen.update(found)
        return found

    def clear(self) -> None:
        """Forget what was seen so far."""
        self.counted()
        self.seen.clear()

    def __enter__(self) -> Self:
        super().__enter__()
        self.before = network_counters()
        return self


def build(options: Options) -> Drops:
    """The probe and its map; nothing is loaded yet."""
    bpf, reasons = Drops(), ReasonFilter(options.reasons)
    bpf.before_compiling.append(check_reasons(options.reasons))
    drops = bpf.counter(key=Site)

    @bpf.btf_tracepoint("kfree_skb")
    def on_drop(ctx: RawTracepointContext) -> None:
        if reasons.wanted(ctx):
            # Since Linux commit c504e5c2f964 ("net: skb: introduce kfree_skb_reason()") (v5.17).
            drops[Site(reason=ctx.reason if has_field(EVENT, "reason") else 0, stack=kstack(options.depth))].add()

    return bpf


def snapshot(bpf: Drops, options: Options) -> Iterator[Dropped]:  # noqa: ARG001 - as every tool's
    """The interval's drops, the most frequent last."""
    name = reason_names(bpf)
    for site, count in sorted(bpf.counted().items(), key=lambda item: (item[1], item[0].reason, item[0].stack)):
        stack = tuple(str(frame) for frame in bpf.stacks.kernel(site.stack))
        yield Dropped(count, name(site.reason), stack)


def stacks(bpf: Drops, options: Options) -> Iterator[Stack]:  # noqa: ARG001 - as every tool's
    """The packets of all intervals by reason and stack, the most first."""
    name = reason_names(bpf)
    bpf.counted()
    for site, count in sorted(bpf.seen.items(), key=lambda item: -item[1]):
        yield Stack(count, name(site.reason), None, None, bpf.stacks.kernel(site.stack))


def footer(bpf: Drops, options: Options) -> Iterator[str]:  # noqa: ARG001 - as every tool's
    """The counters that changed since the start."""
    yield ""
    yield f"{'NETWORK COUNTER':<31} {'CHANGE':>10}"
    for name, change in changes(bpf.before).items():
        yield f"{name:<31} {change:>10}"


TOOL = SummaryTool(
    name="skbdrop",
    doc=__doc__,
    section="10.3.28",
    tracing="dropped packets",
    options=Options,
    build=build,
    drop_labels={"drops": "packets of further places"},
    reset=lambda bpf: bpf.clear(),
    snapshot=snapshot,
    stacks=stacks,
    unit="packets",
    record=Dropped,
    columns=(Column("COUNT", 8, ">"), Column("REASON"), Column("STACK", below=True)),
    footer=footer,
    examples=(
        Example("skbdrop", "stacks and counters, at the end"),
        Example("skbdrop -r no_socket,netfilter_drop", "only these reasons"),
        Example("skbdrop --svg d.svg -d 60", "a minute as a flame graph"),
        Example("skbdrop --depth 30 --json 10", "each ten seconds, longer"),
    ),
)
open = TOOL.open  # noqa: A001 - the library's spelling of every tool: skbdrop.open()
