"""Memory that a process has allocated and not freed, by the stacks that allocated it.

Follows malloc, calloc, realloc, posix_memalign, memalign, aligned_alloc, valloc, pvalloc and free of the C library.
What is older than half a second (-o) may be a leak: see whether it grows from one interval to the next. With -f, --svg
and the like all stacks are written once, at the end.

Overhead: two probes in user space and a stack for each allocation, one for each free. A process that allocates all the
time becomes much slower.
"""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from pyebpf import BPF, InvalidValue, Struct, helpers, now, s32, u64, user, ustack
from pyebpf.programs._thread_stacks import source_option, unwind_option, user_frames
from pyebpf.tool import (
    Column,
    Example,
    Record,
    Stack,
    SummaryTool,
    dataclass,
    flag,
    monotonic_time,
    option,
    pid_option,
)
from pyebpf.unwinding import Unwinder, unwinder_of

if TYPE_CHECKING:
    from collections.abc import Iterator

MOST = 1 << 19


class Allocation(Struct):
    """Memory that was not freed, and when and by which stack it was allocated."""

    size: u64
    at: u64
    stack: s32


@dataclass(frozen=True)
class Leak(Record):
    """A row: the bytes and number of a stack's allocations, and its functions, the innermost first.

    With -a a row is one allocation, of an `address` and `age` nanoseconds old.
    """

    bytes: int
    allocations: int
    stack: tuple[str, ...]
    address: int = 0
    age: int = 0


@dataclass(frozen=True)
class Options:
    """Options: which process, and which of its allocations."""

    pid: int | None = pid_option("this process")
    older: int = option(
        "-o", "--older", metavar="MS", default=500, help="only allocations so many milliseconds old", minimum=0
    )
    min_size: int | None = option("-z", "--min-size", metavar="BYTES", help="only of so many bytes and more", minimum=0)
    max_size: int | None = option("-Z", "--max-size", metavar="BYTES", help="only of so many bytes and less", minimum=0)
    sample_rate: int = option(
        "-s", "--sample-rate", metavar="N", default=1, help="only one of N, at random", minimum=1, maximum=(1 << 32) - 1
    )
    obj: str = option("-O", "--obj", metavar="FILE", default="libc.so.6", help="the library or program with malloc")
    prefix: str = option(
        "-S", "--symbols-prefix", metavar="PREFIX", default="", help="what malloc and the others begin with: je_"
    )
    show_allocs: bool = flag("-a", "--show-allocs", help="show each allocation: its address, size and age")
    sort: str = option(
        "--sort", metavar="BY", default="size", choices=("size", "count"), help="which stacks are the largest"
    )
    unwind: bool = unwind_option()
    source: str | None = source_option()
    top: int = option("--top", metavar="TOP", default=10, help="show only this many stacks", minimum=1)

    def __post_init__(self) -> None:
        """Refuse what names nothing."""
        if self.pid is None:
            raise InvalidValue("--pid: name the process, such as -p 181")
        if self.max_size is not None and (self.min_size or 0) > self.max_size:
            raise InvalidValue(f"nothing has both {self.min_size} bytes at least and {self.max_size} at most")
        if not self.obj:
            raise InvalidValue("--obj: name the library or program with malloc")


def build(options: Options) -> BPF:
    """The probes and the map; nothing is loaded yet."""
    bpf = BPF()
    allocations = bpf.hash(key=u64, value=Allocation, size=MOST, name="allocations")
    library, process, prefix = options.obj, options.pid, options.prefix
    unwinder = Unwinder(bpf, (process or 0,)) if options.unwind else None

    def allocated(address: int, size: int) -> None:
        if address == 0 or (options.min_size is not None and size < options.min_size):
            return
        if options.max_size is not None and size > options.max_size:
            return
        if options.sample_rate > 1 and helpers.get_prandom_u32() % options.sample_rate:
            return
        allocations[address] = Allocation(
            size=size, at=now(), stack=ustack() if unwinder is None else unwinder.ustack()
        )

    @bpf.user_call(library, *(f"{prefix}{name}" for name in ("malloc", "valloc", "pvalloc")), pid=process)
    def on_malloc(size: u64, retval: u64) -> None:
        allocated(retval, size)

    @bpf.user_call(library, f"{prefix}memalign", f"{prefix}aligned_alloc", pid=process)
    def on_aligned(_alignment: u64, size: u64, retval: u64) -> None:
        allocated(retval, size)

    @bpf.user_call(library, f"{prefix}posix_memalign", pid=process)
    def on_posix(address: u64, _alignment: u64, size: u64, retval: s32) -> None:
        if retval == 0:
            allocated(user(address, u64)[0], size)

    @bpf.user_call(library, f"{prefix}calloc", pid=process)
    def on_calloc(number: u64, size: u64, retval: u64) -> None:
        allocated(retval, number * size)

    @bpf.user_call(library, f"{prefix}realloc", pid=process)
    def on_realloc(_old: u64, size: u64, retval: u64) -> None:
        allocated(retval, size)

    # At the entry: when the call returns, another thread may have got the memory.
    @bpf.uprobe(library, f"{prefix}free", f"{prefix}realloc", pid=process)
    def on_free(address: u64) -> None:
        del allocations[address]

    return bpf


def outstanding(bpf: BPF, options: Options) -> dict[int, list[tuple[int, int, int]]]:
    """Allocations that are not freed, by the number of their stack: size, address and age of each."""
    now_, oldest = time.monotonic_ns(), options.older * 1_000_000
    found: dict[int, list[tuple[int, int, int]]] = {}
    for address, each in bpf["allocations"].items():
        age = now_ - monotonic_time(each.at)
        if age >= oldest:
            found.setdefault(each.stack, []).append((each.size, address, age))
    return found


def snapshot(bpf: BPF, options: Options) -> Iterator[Leak]:
    """Allocations that are not freed, by stack, the most bytes last, or the most allocations; with -a each."""
    unwinder = unwinder_of(bpf)
    if unwinder is not None:
        unwinder.look()
    leaks: dict[tuple[str, ...], list[tuple[int, int, int]]] = {}
    for number, each in outstanding(bpf, options).items():
        stack = tuple(frame.label for frame in user_frames(bpf, number, options.pid or 0, options.source))
        leaks.setdefault(stack, []).extend(each)

    def amount(item: tuple[tuple[str, ...], list[tuple[int, int, int]]]) -> tuple[int, int, tuple[str, ...]]:
        stack, each = item
        size, count = sum(size for size, _, _ in each), len(each)
        return (count, size, stack) if options.sort == "count" else (size, count, stack)

    for stack, each in sorted(leaks.items(), key=amount)[-options.top :]:
        if options.show_allocs:
            yield from (Leak(size, 1, stack, address, age) for size, address, age in sorted(each))
        else:
            yield Leak(sum(size for size, _, _ in each), len(each), stack)


def stacks(bpf: BPF, options: Options) -> Iterator[Stack]:
    """The bytes that are not freed, by stack: all of them, whatever --top says, the most first."""
    pid = options.pid or 0
    name = ""
    with suppress(OSError):  # it has ended
        name = Path(f"/proc/{pid}/comm").read_bytes().removesuffix(b"\n").decode(errors="surrogateescape")
    sizes = {number: sum(size for size, _, _ in each) for number, each in outstanding(bpf, options).items()}
    for number, size in sorted(sizes.items(), key=lambda item: -item[1]):
        yield Stack(size, name or str(pid), pid, user_frames(bpf, number, pid, options.source), None)


def columns(options: Options) -> tuple[Column, ...]:
    """The columns: -a has one for the address and one for the age in place of the number."""
    each = (
        Column("ADDRESS", 18, key=lambda leak: f"{leak.address:#x}", field="allocation_address"),
        Column("AGE(ms)", 12, ">", key="age", scale=1_000_000, decimals=0, field="age_ns"),
    )
    return (
        Column("BYTES", 12, ">", field="outstanding_bytes"),
        *(each if options.show_allocs else (Column("ALLOCS", 8, ">", key="allocations"),)),
        Column("STACK", below=True),
    )


TOOL = SummaryTool(
    name="memleak",
    doc=__doc__,
    section="7.3.2",
    tracing="malloc and free",
    options=Options,
    build=build,
    drop_labels={"allocations": "allocations"},
    snapshot=snapshot,
    stacks=stacks,
    unit="bytes",
    record=Leak,
    columns=columns,
    examples=(
        Example("memleak -p 181 5", "of process 181, every five seconds"),
        Example("memleak -p 181 -o 60000 -d 300", "what is older than a minute"),
        Example("memleak -p 181 -z 4096 --json", "of 4 KiB and more, an object a stack"),
        Example("memleak -p 181 -a --top 3", "each of the three largest stacks"),
        Example("memleak -p 181 -S je_", "malloc and the like by other names"),
        Example("memleak -p 181 --svg l.svg -d 9", "a flame graph of what is left"),
    ),
)
open = TOOL.open  # noqa: A001 - the library's spelling of every tool: memleak.open(pid=42)
