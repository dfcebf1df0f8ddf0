"""Output of programs in an order that is known.

Entries of maps are sorted, whole, and so are lines that begin with `~`, which loops over maps print.
"""

from __future__ import annotations

import json
import re
from itertools import groupby

#: The first line of a map's entry: its name, its key, its value.
ENTRY = re.compile(r"(@\w*)(\[.*\])?:(?: (.*))?")
#: A line of a histogram.
ROW = re.compile(r"[\[(].*\|$")


def ordered(text: str, *, as_json: bool) -> list[str]:
    """The lines of an output, sorted where their order is open."""
    if as_json:
        lines = [found for line in text.splitlines() if line and (found := _object(line))]
    else:
        lines = _entries([line for line in text.splitlines() if line])
    return [line for marked, group in groupby(lines, _marked) for line in (sorted(group) if marked else group)]


def _object(line: str) -> str:
    """An object with its names sorted; nothing if only bpftrace prints it; a line that is no JSON as it is."""
    try:
        value = json.loads(line)
    except json.JSONDecodeError:
        return line
    return "" if _alone(value) else json.dumps(value, sort_keys=True)


def _alone(value: dict[str, object]) -> bool:
    """Whether only bpftrace prints this: an aggregation of nothing, or that a processor has no entry of a map."""
    data = value.get("data")
    empty = value["type"] == "stats" and isinstance(data, dict) and list(data.values()) == [{}]
    return empty or value["type"] == "helper_error"


def _marked(line: str) -> bool:
    return line.startswith(("~", '{"data": "~'))


def _entries(lines: list[str]) -> list[str]:
    """Lines with the entries of each printed map sorted, but for `@t…`, whose values differ."""
    whole: list[tuple[str, str]] = []
    for line in lines:
        found = ENTRY.fullmatch(line)
        if found and found[2] is not None:
            whole.append((found[1], line))
        elif ROW.fullmatch(line) and whole and whole[-1][0]:
            name, above = whole[-1]
            whole[-1] = (name, f"{above}\n{line}")
        else:
            whole.append(("", line))
    result: list[str] = []
    for name, group in groupby(whole, lambda entry: entry[0]):
        entries = list(group)
        texts = [text for _, text in entries]
        result += texts if not name or name.startswith("@t") else sorted(texts)
    return result
