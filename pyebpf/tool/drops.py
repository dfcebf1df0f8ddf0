"""Drops by reason, in the words of a tool."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


def in_words(dropped: Mapping[str, int], drop_labels: Mapping[str, str]) -> dict[str, int]:
    """Drops by reason without the tool's own names of maps and probes, which mean nothing to whoever runs it.

    `drop_labels` names the entries of each map. "MAP: reason" and "PROBE: reason" become what was dropped, and why;
    hidden maps, whose reasons tell it all, and attach points ("tracepoint ...: missed by the kernel") are no such
    names.
    """
    found: dict[str, int] = {}
    for text, count in dropped.items():
        named = max((name for name in drop_labels if text.startswith(f"{name}: ")), key=len, default="")
        name, colon, reason = (named, ":", text[len(named) + 2 :]) if named else text.partition(": ")
        if named:
            words = f"{drop_labels[named]}: {reason}"
        elif colon and name.startswith("."):
            words = reason
        elif colon and name.isidentifier():
            words = f"events: {reason}"
        else:
            words = text
        if count:
            found[words] = found.get(words, 0) + count
    return found
