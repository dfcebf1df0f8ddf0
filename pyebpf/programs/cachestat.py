"""Page cache hits and misses each second, with pages that became dirty, the ratio, and the size of the cache.

Hits are pages that were used and were there before; misses those that were added for it. Both are estimates from four
counts of the kernel's: pages marked as accessed, added, and made dirty, by files and by buffers.

Overhead: a probe and a per-CPU count for each page that is used.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyebpf import BPF, u32
from pyebpf.tool import Column, Example, Record, SummaryTool, dataclass

if TYPE_CHECKING:
    from collections.abc import Iterator

ACCESSED, ADDED, DIRTIED, BUFFERS_DIRTIED = range(4)


@dataclass(frozen=True)
class Cache(Record):
    """Counts of the page cache in an interval, in pages, and its size in bytes; `ratio` is None if nothing was used."""

    hits: int
    misses: int
    dirties: int
    buffers: int
    cached: int

    @property
    def ratio(self) -> float | None:
        """Percent of the uses that were hits."""
        uses = self.hits + self.misses
        return 100 * self.hits / uses if uses else None


@dataclass(frozen=True)
class Options:
    """Options: none of its own."""


def build(options: Options) -> BPF:  # noqa: ARG001 - as every tool's
    """The probes and the counts; nothing is loaded yet."""
    bpf = BPF()
    pages = bpf.counter(key=u32, name="pages")

    @bpf.function("folio_mark_accessed")
    def on_access() -> None:
        pages[ACCESSED].add()

    @bpf.function("mark_page_accessed")
    def on_page_access() -> None:
        pages[ACCESSED].add()

    def choose_access(target: Any) -> None:
        # Since Linux 5.16 mark_page_accessed() calls folio_mark_accessed().
        unwanted = on_page_access if target.has_function("folio_mark_accessed") else on_access
        bpf.probes = [probe for probe in bpf.probes if probe is not unwanted]

    bpf.before_compiling.append(choose_access)

    @bpf.btf_tracepoint("mm_filemap_add_to_page_cache")
    def on_add() -> None:
        pages[ADDED].add()

    @bpf.btf_tracepoint("writeback_dirty_folio", optional=True)
    @bpf.btf_tracepoint("writeback_dirty_page", optional=True)
    def on_dirty() -> None:
        pages[DIRTIED].add()

    @bpf.btf_tracepoint("block_dirty_buffer")
    def on_buffer() -> None:
        pages[BUFFERS_DIRTIED].add()

    return bpf


def snapshot(bpf: Any, options: Options) -> Iterator[Cache]:  # noqa: ARG001 - as every tool's
    """The interval's counts, as bcc's tool reckons with them."""
    counts = dict(bpf["pages"].interval().items())
    accessed, added, dirtied, buffers = (counts.get(number, 0) for number in range(4))
    total = max(accessed - buffers, 0)
    misses = min(max(added - dirtied, 0), total)
    memory = {name: int(value.split()[0]) << 10 for name, value in _lines()}
    yield Cache(total - misses, misses, buffers, memory["Buffers"], memory["Cached"])


def _lines() -> Iterator[tuple[str, str]]:
    for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
        name, _, value = line.partition(":")
        yield name, value


TOOL = SummaryTool(
    name="cachestat",
    doc=__doc__,
    section="8.3.16",
    tracing="the page cache",
    options=Options,
    build=build,
    drop_labels={"pages": "pages"},
    snapshot=snapshot,
    record=Cache,
    screen=True,
    columns=(
        Column("HITS", 8, ">"),
        Column("MISSES", 8, ">"),
        Column("DIRTIES", 8, ">"),
        Column("HITRATIO", 9, ">", key="ratio", decimals=2, field="hit_percent"),
        Column("BUFFERS_MB", 12, ">", key="buffers", scale=1 << 20, decimals=0, field="buffers_bytes"),
        Column("CACHED_MB", 10, ">", key="cached", scale=1 << 20, decimals=0, field="cached_bytes"),
    ),
    examples=(
        Example("cachestat", "each second, until Ctrl-C"),
        Example("cachestat -C 10 6", "every ten seconds for a minute"),
        Example("cachestat 1 --csv", "a row a second"),
    ),
)
open = TOOL.open  # noqa: A001 - the library's spelling of every tool: cachestat.open()
