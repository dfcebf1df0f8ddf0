"""Addresses of the functions that run between a tracepoint and its programs (`builder/intrinsics/tracer_frames.py`)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from pyebpf.builder.intrinsics.tracer_frames import RANGES

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_NEAR = 1 << 14


def tracer_ranges(tracepoints: Iterable[str], text: bytes | None = None) -> list[int]:
    """Start and size of each range, zeros behind. `text` is the content of /proc/kallsyms, for tests."""
    if text is None:
        from pyebpf.symbols.kernel import read_kallsyms

        text = read_kallsyms()
    ranges = list(_joined(sorted(_find(text, rb" bpf_trace_run\d+\n"))))
    for name in tracepoints:
        for prefix in ("__bpf_trace_", "__traceiter_"):
            ranges += _find(text, re.escape(f" {prefix}{name}\n".encode()))
    flat = [number for start, end in ranges[:RANGES] for number in (start, end - start)]
    return flat + [0] * (2 * RANGES - len(flat))


def _joined(ranges: list[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Functions of one file lie side by side: one range, unless something says otherwise."""
    if ranges and ranges[-1][1] - ranges[0][0] < _NEAR:
        yield ranges[0][0], ranges[-1][1]
    else:
        yield from ranges


def _find(text: bytes, pattern: bytes) -> Iterator[tuple[int, int]]:
    """Start and end of functions: the file lists the kernel's by address, so that the next one is on a line below."""
    for match in re.finditer(pattern, text):
        line = text.rfind(b"\n", 0, match.start()) + 1
        start = int(text[line : line + 16], 16)
        end, place = start, match.end()
        while start and end <= start and place + 16 <= len(text):
            end = int(text[place : place + 16], 16)
            place = text.find(b"\n", place) + 1 or len(text)
        if start < end < start + _NEAR:
            yield start, end
