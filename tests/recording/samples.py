"""Recordings with an entry of every kind, made by the writer itself: for the tests of damage and for fuzzing."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyebpf.output.columns import Column
from pyebpf.output.histogram import log2
from pyebpf.output.stacks import SLOT, Stack, StackPart
from pyebpf.recording.entries import Frame, histogram_entry, stack_entries
from pyebpf.recording.tables import Extraction
from pyebpf.recording.writer import Writer

if TYPE_CHECKING:
    from collections.abc import Iterator

START = 1_795_509_000 * 10**9
KINDS = ("events", "summary", "histograms", "stacks")
COLUMNS = (
    Column("TIME", 8, key="at", field="time"),
    Column("PID", 7),
    Column("LAT(us)", 8, ">", key="ns", scale=1000, decimals=2, field="latency_ns", type="int", drawn=True),
    Column("STACK", below=True),
)


class Row:
    """A record."""

    def __init__(self, pid: int) -> None:
        self.pid, self.ns, self.stack = pid, 1500 * pid, ("main", f"f{pid}")


def header(kind: str) -> dict[str, Any]:
    """The header of a recording of a kind."""
    table = Extraction(COLUMNS, None, is_timed=True).table
    return {
        "id": "0123456789abcdef",
        "version": "0.1.0",
        "tool": "sample",
        "kernel": "6.12",
        "machine": "x86_64",
        "kind": "summary" if kind == "histograms" else kind,
        "arguments": ["-d", "5"],
        "start": START,
        "zone": 3600,
        "tracing": "samples",
        "unit": "samples",
        "form": "text",
        "timestamps": False,
        "screen": kind == "summary",
        "rows": 20,
        "delimited": False,
        "annotated": False,
        "events": table if kind in {"events", "histograms"} else None,
        "summary": table if kind == "summary" else None,
    }


def entries(kind: str) -> Iterator[list[Any]]:
    """Entries of that kind of tool, and those that every tool may have."""
    get, at = Extraction(COLUMNS, None, is_timed=True).values, START
    if kind in {"events", "histograms"}:
        yield from (["event", at + pid, *get(Row(pid))] for pid in (2, 3, 5))
    if kind == "summary":
        yield ["interval", at + 10**9, "loadavg: 1", 2]
        yield from (["row", *get(Row(pid))] for pid in (7, 11))
    if kind == "histograms":
        yield ["interval", at + 10**9, None, 1]
        yield histogram_entry(log2([0, 1, 5], unit="usecs", labels={"disk": "vda"}))
        yield ["event", at + 2 * 10**9, *get(Row(13))]
        yield ["interval", at + 2 * 10**9, None, 0]
    if kind == "stacks":
        main, call, frames = Frame("main", "/bin/a"), Frame("do_syscall_64", "kernel"), {}
        yield ["stacks", at, 2]
        yield from stack_entries(Stack(7, "a", 42, (main,), (call,), (StackPart("waker", "b", 5, (main,)),)), frames)
        times = ((START, 1), (START + 2 * SLOT, 2))
        yield from stack_entries(Stack(3, "b", None, None, (call,), times=times), frames)
    yield ["dropped", at, {"ring buffer full": 23}]
    yield ["zone", -3600]
    yield ["footer", ["", "the end"]]
    yield ["end", at, "error", "it broke", 3]


def recording(kind: str) -> bytes:
    """The bytes of a recording, its entries in two blocks."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "sample"

        def failed(message: str) -> None:
            raise AssertionError(message)

        writer = Writer(str(path), header(kind), failed)
        made = list(entries(kind))
        for index, entry in enumerate(made):
            writer.add(entry)
            if index == len(made) // 2:
                writer.flush()
        writer.close()
        return path.read_bytes()
