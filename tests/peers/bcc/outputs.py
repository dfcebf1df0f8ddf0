"""What bcc's tools and pyebpf's of the same names print, as counts by what was counted."""

from __future__ import annotations

import re
from collections import Counter

_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
_EXPRESSION = re.compile(r"[^=,]+ = ")
#: Lines of each form, as bcc and as pyebpf have them: `count` of what the other groups are.
_LINES = {
    "counts": (re.compile(r"\s*(?:b')?(?P<name>[\w.:]+)'?\s+(?P<count>\d+)"),),
    "values": (re.compile(r"\s+(?P<count>\d+)\s+(?P<name>\S.*)"), re.compile(r"\[(?P<name>.*)\]: (?P<count>\d+)")),
    "lines": (re.compile(r"\s*\d+\s+\d+\s+\S+\s+\S+\s+(?P<name>.+)"),),
    "buckets": (
        re.compile(r"\s*(?P<low>-?\d+)(?: -> (?P<last>-?\d+))?\s*: (?P<count>\d+)\b.*"),
        re.compile(r"\[(?P<low>-?\d+)(?P<unit>[KMG]?)(?:, (?P<end>-?\d+)(?P<ends>[KMG]?)\)|\])\s+(?P<count>\d+) \|.*"),
    ),
}
_STACK_COUNT = re.compile(r"\s+(\d+)")


def counts_of(form: str, text: str) -> dict[str, int]:
    """The counts of an output in one of the forms, without those of nothing."""
    if form == "stacks":
        return _stacks(text)
    if form == "stacks of users":  # bcc does not find all names
        return {"": sum(_stacks(text).values())}
    found: Counter[str] = Counter()
    for line in text.splitlines():
        match = next((each for each in (pattern.fullmatch(line) for pattern in _LINES[form]) if each), None)
        if match is not None:
            groups = match.groupdict()
            name = _bucket(groups) if form == "buckets" else _plain(groups["name"])
            found[name] += int(groups.get("count", 1))
    return {name: count for name, count in found.items() if count}


def _plain(name: str) -> str:
    """A name without the expression that stands before it, and without a literal's quotes."""
    return re.sub(r"b?'(.*?)'", r"\1", _EXPRESSION.sub("", name)).strip()


def _bucket(groups: dict[str, str | None]) -> str:
    """First and last value of a bucket."""
    low = int(groups["low"] or 0) * _UNITS[groups.get("unit") or ""]
    if low in (0, 1):
        return "0 -> 1"  # bcc has both in one
    if groups.get("end"):
        return f"{low} -> {int(groups['end'] or 0) * _UNITS[groups['ends'] or ''] - 1}"
    return f"{low} -> {groups.get('last') or low}"


def _stacks(text: str) -> dict[str, int]:
    """Counts by the innermost function: what lies below it may be named or unwound otherwise."""
    found: Counter[str] = Counter()
    innermost = ""
    for line in text.splitlines():
        if match := _STACK_COUNT.fullmatch(line):
            found[innermost] += int(match[1])
            innermost = ""
        elif not innermost and line.startswith("  "):
            innermost = _plain(line).partition("+")[0]
    return dict(found)
