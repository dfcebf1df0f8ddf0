"""Calls of functions that match a pattern: kernel functions, tracepoints, functions of libraries and programs.

PATTERN is a name, or has `*`, `?` or `[...]` in it, as bcc's funccount takes it: "tcp_*" or "p::tcp_*" for functions of
the kernel, "t:block:*" for tracepoints. Functions that run between an event and its program are left out.

Overhead: a probe and one per-CPU count for each call, so that functions called millions of times a second slow the
machine down. A kernel without kprobe.multi (Linux 6.1 of Debian) takes seconds to attach to hundreds of functions, and
to detach; -v says how far it is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyebpf import BPF, InvalidValue, TracepointContext, function_ip, pid, u32, u64
from pyebpf.tool import Column, Example, SummaryTool, argument, option, pid_option

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["TOOL", "Count", "Options", "build", "open"]

MAX_PROBES = 1000


@dataclass(frozen=True)
class Count:
    """A row: a function's or tracepoint's name, and how often it was called."""

    func: str
    count: int


@dataclass(frozen=True)
class Options:
    """What is counted."""

    pattern: str = argument("PATTERN", help="what to count, such as 'tcp_*' or 't:block:*'")
    pid: int | None = pid_option()
    max_probes: int = option(
        "--max-probes",
        default=MAX_PROBES,
        metavar="N",
        help=f"refuse a pattern that matches more (default {MAX_PROBES})",
        minimum=1,
    )


class Numbers(dict[str, int]):
    """A number for each target, given when the compiler first asks for it."""

    def __missing__(self, target: str) -> int:
        self[target] = len(self)
        return self[target]


class Counter(BPF):
    """`numbers` has the keys of tracepoints; functions of the kernel are counted by their addresses."""

    def __init__(self) -> None:
        super().__init__()
        self.numbers = Numbers()


def split(pattern: str) -> tuple[str, str]:
    """The category of tracepoints, or nothing for functions; and the pattern for names. Raises InvalidValue."""
    kind, colon, rest = pattern.partition(":")
    category, second, name = rest.partition(":")
    if not colon:
        return "", pattern
    if kind == "t" and category and second and name:
        return category, name
    if kind == "p" and not category and name:
        return "", name
    raise InvalidValue(f"{pattern!r}: write 'tcp_*' for functions of the kernel, 't:CATEGORY:NAME' for tracepoints")


def build(options: Options) -> Counter:
    """The probe and the map; nothing is loaded yet."""
    bpf = Counter()
    category, pattern = split(options.pattern)
    if category:
        numbers = bpf.numbers
        by_number = bpf.percpu_hash(key=u32, value=u64, size=options.max_probes, name="counts")

        @bpf.tracepoint(f"{category}:{pattern}", max_probes=options.max_probes)
        def on_tracepoint(ctx: TracepointContext) -> None:
            if options.pid is None or pid() == options.pid:
                by_number[numbers[ctx.target]] += 1

    else:
        by_address = bpf.percpu_hash(key=u64, value=u64, size=options.max_probes, name="counts")

        @bpf.function(pattern, max_probes=options.max_probes)
        def on_function() -> None:
            if options.pid is None or pid() == options.pid:
                by_address[function_ip()] += 1

    return bpf


def snapshot(bpf: Counter, options: Options) -> Iterator[Count]:  # noqa: ARG001 - as every tool's
    """The interval's counts, the most frequent last, as bcc has it."""
    targets = {number: target for target, number in bpf.numbers.items()}
    counts = bpf["counts"].interval().items()
    rows = [Count(targets[key] if targets else bpf.function_name(key), count) for key, count in counts if count]
    yield from sorted(rows, key=lambda row: (row.count, row.func))


TOOL = SummaryTool(
    name="funccount",
    doc=__doc__,
    section="4.5.2",
    tracing="function calls",
    options=Options,
    build=build,
    snapshot=snapshot,
    columns=(Column("FUNC", 40), Column("COUNT", 12, ">")),
    examples=(
        Example("funccount 'tcp_*'", "these functions' calls"),
        Example("funccount 'vfs_*' 1 5", "each second, five times"),
        Example("funccount -p 181 't:syscalls:sys_enter_re*'", "tracepoints, one process"),
        Example("funccount -d 10 --max-probes 2000 'sock_*'", "up to 2,000 functions"),
    ),
)
open = TOOL.open  # noqa: A001 - the library's spelling of every tool: funccount.open("tcp_*")
