"""What two tracers printed of the same events, compared up to times, addresses and the tracers themselves."""

from __future__ import annotations

import re
from collections import Counter
from typing import NamedTuple

#: Lines about either tracer, and about what starts them.
_TRACERS = re.compile(r"pyebpf|bpftrace|python|libbpf|chroot|unshare")
_TOLD = re.compile(r"^(?:Tracing \d+ probes?|Attach(?:ed|ing) \d+ probes?|WARNING|stdin:|\S*\.bt:\d+)")
_BAR = re.compile(r"\|[@ ]*\|$")
_TIMES = re.compile(r"\b\d+:\d\d:\d\d\b|\b\d+\.\d+\b|\b0x[0-9a-f]+\b")
_NUMBERS = re.compile(r"-?\b\d+[KMGTk]?\b")


class Compared(NamedTuple):
    """The verdict, and the forms of lines that only one of them printed."""

    verdict: str
    ours: tuple[str, ...] = ()
    theirs: tuple[str, ...] = ()


def lines_of(text: str) -> list[str]:
    """Lines with times and addresses made alike, without those of the tracers and without their remarks."""
    found = []
    for line in text.splitlines():
        kept = " ".join(_TIMES.sub("#", _BAR.sub("", line)).split())
        if kept and not _TOLD.match(line) and not _TRACERS.search(line):
            found.append(kept)
    return found


def compare(ours: str, theirs: str) -> Compared:
    """Both outputs: "same" lines; "alike", the same forms of lines with other numbers; "silent"; or "different".

    "more": theirs, who began before, has others besides.
    """
    mine, their = lines_of(ours), lines_of(theirs)
    if not mine and not their:
        return Compared("silent")
    if Counter(mine) == Counter(their):
        return Compared("same")
    forms, others = ({_NUMBERS.sub("#", line) for line in lines} for lines in (mine, their))
    if forms == others:
        return Compared("alike")
    if forms < others:
        return Compared("more", (), tuple(sorted(others - forms)))
    return Compared("different", tuple(sorted(forms - others)), tuple(sorted(others - forms)))
