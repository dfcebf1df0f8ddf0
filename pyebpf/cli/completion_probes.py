"""Attach points that a word may become: what a shell's completion of `pyebpf list` asks."""

from __future__ import annotations

import os
import re
from itertools import islice
from typing import TYPE_CHECKING

from pyebpf.errors import PyebpfError
from pyebpf.runtime.attach_points import (
    BY_NAME,
    FENTRY,
    KPROBE,
    OF_BCC,
    TRACEPOINT,
    UPROBE,
    USDT,
    AttachPoints,
    Pattern,
)
from pyebpf.specs.attach_point import is_pattern

if TYPE_CHECKING:
    from collections.abc import Iterator

#: Characters that every shell takes for themselves; a name with others has to be typed.
_PLAIN = re.compile(r"[\w.:/@+,%~-]+", re.ASCII)
_MAX_CANDIDATES = 20_000


def candidates(word: str) -> list[str]:
    """Words that begin with this one: attach points, or what ends with ":" or "/" for more to come."""
    kind, colon, rest = word.partition(":")
    if not colon:
        return sorted(f"{name}:" for name in BY_NAME if name.startswith(word))
    if kind in OF_BCC:  # p:FILE:FUNCTION, and p::FUNCTION is the kernel's
        lead = f"{kind}::" if rest.startswith(":") else f"{kind}:"
        return _plain(lead, KPROBE if rest.startswith(":") else UPROBE, rest.removeprefix(":"))
    return _plain(f"{kind}:", BY_NAME[kind], rest) if kind in BY_NAME else []


def script_candidates(word: str) -> list[str]:
    """The same by the names that `pyebpf -l` has."""
    from pyebpf.cli.bpftrace_list import kinds, of_kind

    kind, colon, rest = word.partition(":")
    if not colon:
        return sorted(f"{name}:" for name in kinds() if name.startswith(word))
    if kind in BY_NAME:
        return _plain(f"{kind}:", BY_NAME[kind], rest)
    if kind not in kinds() or is_pattern(rest):
        return []
    try:
        found = [each for each in of_kind(kind, rest) if each.startswith(rest)]
    except (PyebpfError, OSError):
        return []
    return [each for each in (f"{kind}:{name}" for name in found) if _PLAIN.fullmatch(each)]


def _plain(lead: str, kind: str, rest: str) -> list[str]:
    """Words that stand behind `lead` and begin with `rest`, with the lead."""
    if is_pattern(rest):
        return []
    try:
        found = list(islice(_continued(kind, rest), _MAX_CANDIDATES))
    except (PyebpfError, OSError):
        return []  # nobody reads errors while they press Tab
    whole = (lead + each for each in dict.fromkeys(found) if each.startswith(rest))
    return [each for each in whole if _PLAIN.fullmatch(each)]


def _continued(kind: str, rest: str) -> Iterator[str]:
    """Continue behind a kind's colon: names, or what ends with ":" or "/"."""
    place, colon, name = rest.partition(":")
    if kind in {UPROBE, USDT} and not colon:
        yield from _files(place)
        return
    with AttachPoints() as points:
        if kind == TRACEPOINT and not colon:
            for each in points.tracefs().categories():
                yield f"{each}:"
            return
        if kind in {KPROBE, FENTRY} and not rest:
            return  # tens of thousands
        pattern = Pattern(f"{kind}:{rest}*", kind, place if colon else "", f"{name if colon else rest}*")
        of_any_provider = kind == USDT and ":" not in name
        if of_any_provider:
            pattern = pattern._replace(name="*:*")
        for point in points.find(pattern).points:
            yield f"{place}:{point.name}" if colon else point.name
            if of_any_provider and name:
                yield f"{place}:{point.name.rpartition(':')[2]}"


def _files(start: str) -> Iterator[str]:
    """Libraries and programs by name, or files by path."""
    folder, slash, _ = start.rpartition("/")
    if slash:
        with os.scandir(folder or "/") as entries:
            for entry in entries:
                yield f"{folder}/{entry.name}{'/' if entry.is_dir() else ':'}"
        return
    from pyebpf.symbols.libraries import library_names

    yield from (f"{name}:" for name in library_names())
    if not start:
        return  # thousands
    for folder in os.environ.get("PATH", "").split(":"):
        try:
            with os.scandir(folder) as entries:
                yield from (f"{entry.name}:" for entry in entries)
        except OSError:
            continue
