"""Calls of functions that match a pattern: of the kernel, of libraries and programs; tracepoints and USDT probes, too.

PATTERN is written as bcc's funccount takes it, with `*`, `?` or `[...]` in a name: "tcp_*" or "p::tcp_*" for functions
of the kernel, "c:mal*" or "p:/usr/bin/program:*" for those of a library or program, "t:block:*" for tracepoints,
"u:python3:gc__*" for USDT probes. Functions of the kernel that run between an event and its program are left out.

Overhead: a probe and one per-CPU count for each call, so functions that are called millions of times a second slow the
machine down; functions of processes cost more than those of the kernel. A kernel without kprobe.multi (Debian's Linux
6.1) takes seconds to attach to hundreds of functions, and to detach; -v shows the progress.
"""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from pyebpf import BPF, InvalidValue, TracepointContext, cpu, function_ip, pid, u64
from pyebpf.tool import Column, Example, Record, SummaryTool, argument, dataclass, option, pid_option

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

MAX_PROBES = 1000


#: Meanings of the letter before the first colon of a pattern.
TRACEPOINT, FUNCTION, USDT = "t", "p", "u"


@dataclass(frozen=True)
class Count(Record):
    """A row: a function's, tracepoint's or USDT probe's name, and how often it was called."""

    func: str
    count: int


def split(pattern: str) -> tuple[str, str, str]:
    """Parse a pattern: TRACEPOINT, FUNCTION or USDT, the category or file, and the pattern for names.

    Functions of the kernel have no file. Raises InvalidValue.
    """
    kind, colon, rest = pattern.partition(":")
    where, second, name = rest.partition(":")
    if not colon and pattern:
        return FUNCTION, "", pattern
    if kind == FUNCTION and second and name:
        return FUNCTION, where, name
    if kind in {TRACEPOINT, USDT} and where and name:
        return kind, where, name
    if kind not in {"", TRACEPOINT, FUNCTION, USDT} and rest and not second:
        return FUNCTION, kind, rest
    raise InvalidValue(
        f"{pattern!r}: write 'tcp_*' for functions of the kernel, 'LIBRARY:FUNCTION' for those of a file, "
        "'t:CATEGORY:NAME' for tracepoints, 'u:FILE:PROBE' for USDT probes"
    )


def with_provider(name: str) -> str:
    """The pattern for a USDT probe's provider and name: any provider, if it names none."""
    return name if ":" in name else f"*:{name}"


def check_pattern(pattern: str) -> None:
    """Raise InvalidValue for what is not a pattern, or for one of names that nothing in the kernel can have."""
    kind, where, name = split(pattern)
    of_kernel = kind == TRACEPOINT or not where
    if of_kernel and not (name.isascii() and name.isprintable()):
        raise InvalidValue(f"{pattern!r}: nothing in the kernel has such a name")


def max_probes_option() -> Any:
    """`--max-probes`, for patterns."""
    return option(
        "--max-probes",
        default=MAX_PROBES,
        metavar="N",
        help="reject a pattern that matches more functions",
        minimum=1,
        maximum=1_000_000,
    )


def cpu_option() -> Any:
    """`-c`, `--cpu`, None by default."""
    return option("-c", "--cpu", metavar="CPU", help="only this processor", minimum=0, maximum=8191, names="processor")


@dataclass(frozen=True)
class Options:
    """Options: what to count."""

    pattern: str = argument("PATTERN", help="what to count, such as 'tcp_*', 'c:mal*' or 't:block:*'")
    pid: int | None = pid_option()
    cpu: int | None = cpu_option()
    max_probes: int = max_probes_option()

    def __post_init__(self) -> None:
        """Refuse what is not a pattern."""
        check_pattern(self.pattern)


class Counter(BPF):
    """A module with the map `counts`, whose keys `name` turns into names: by default addresses of the kernel's."""

    def __init__(self) -> None:
        super().__init__()
        self.name: Callable[[int], str] = self.matching_names
        #: What names of the kernel's functions match.
        self.pattern = "*"
        self._matching: dict[int, str] = {}

    def matching_names(self, address: int) -> str:
        """The names of the kernel's function at an address that the pattern matches."""
        if address not in self._matching:
            names = [name for name in self.function_names(address) if fnmatchcase(name, self.pattern)]
            self._matching[address] = "/".join(names) or self.function_name(address)
        return self._matching[address]

    def place_name(self, number: int) -> str:
        """The name of a place in a file: one link has all of them."""
        return self.links[0].places[number]


def build(options: Options) -> Counter:
    """The probe and the map; nothing is loaded yet."""
    bpf = Counter()
    kind, where, pattern = split(options.pattern)
    most, process = options.max_probes, options.pid
    counts = bpf.percpu_hash(key=u64, value=u64, size=most, name="counts")

    def wanted() -> bool:
        if options.cpu is not None and cpu() != options.cpu:
            return False
        # A file's probes are put into the process that is asked for alone.
        return process is None or pid() == process or (bool(where) and kind != TRACEPOINT)

    if kind == TRACEPOINT:
        targets: list[str] = []
        bpf.name = targets.__getitem__

        def number(target: str) -> int:
            """A tracepoint's number: the probe is compiled for each."""
            if target not in targets:
                targets.append(target)
            return targets.index(target)

        @bpf.tracepoint(f"{where}:{pattern}", max_probes=most)
        def on_tracepoint(ctx: TracepointContext) -> None:
            if wanted():
                counts[number(ctx.target)] += 1

    elif kind == USDT:
        bpf.name = bpf.place_name

        @bpf.usdt(where, with_provider(pattern), pid=process, max_probes=most)
        def on_mark(ctx: Any) -> None:
            if wanted():
                counts[ctx.cookie] += 1

    elif where:
        bpf.name = bpf.place_name

        @bpf.uprobe(where, pattern, pid=process, max_probes=most)
        def on_call(ctx: Any) -> None:
            if wanted():
                counts[ctx.cookie] += 1

    else:
        bpf.pattern = pattern.rpartition(":")[2]

        @bpf.function(pattern, max_probes=most)
        def on_function() -> None:
            if wanted():
                counts[function_ip()] += 1

    return bpf


def snapshot(bpf: Counter, options: Options) -> Iterator[Count]:  # noqa: ARG001 - as every tool's
    """The interval's counts, the most frequent last, as bcc has it."""
    totals: dict[str, int] = {}
    for key, count in bpf["counts"].interval().items():
        if count:
            name = bpf.name(key)
            totals[name] = totals.get(name, 0) + count
    yield from sorted((Count(*each) for each in totals.items()), key=lambda row: (row.count, row.func))


TOOL = SummaryTool(
    name="funccount",
    doc=__doc__,
    tracing="function calls",
    options=Options,
    build=build,
    drop_labels={"counts": "calls of other functions"},
    snapshot=snapshot,
    columns=(Column("FUNC", 40, cut=False, field="function", type="str"), Column("COUNT", 12, ">", type="int")),
    examples=(
        Example("funccount 'tcp_*'", "these functions' calls", "kernel functions"),
        Example("funccount 'vfs_*' 1 5", "each second, five times"),
        Example("funccount -p 181 't:syscalls:sys_enter_re*'", "tracepoints, one process", "tracepoints"),
        Example("funccount -p 181 'c:mal*'", "of the C library", "functions of files"),
        Example("funccount 'u:stdc++:*'", "exceptions of C++ (USDT)", "USDT probes"),
        Example("funccount -c 1 'vfs_*'", "on processor 1"),
        Example("funccount -d 10 --max-probes 2000 'sock_*'", "up to 2,000 functions"),
    ),
)
open = TOOL.open  # noqa: A001 - the library's spelling of every tool: funccount.open("tcp_*")
