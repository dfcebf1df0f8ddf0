"""bcc's and bpftrace's tools, for who types their names: the table of docs/comparison.md, which peer_tools.txt has."""

from __future__ import annotations

import re

_OF = {"bcc": "bcc's", "bpftrace": "bpftrace's", "both": "bcc's and bpftrace's"}
_LINK = re.compile(r"\[([^\]]+)\]\(([^)#]+)[^)]*\)")


def peer_tools() -> dict[str, tuple[str, str]]:
    """Who has the tool of a name, "bcc", "bpftrace" or "both", and the answer as the page has it."""
    from importlib.resources import files

    text = files("pyebpf.cli").joinpath("peer_tools.txt").read_text(encoding="utf-8")
    rows = (line.split("\t") for line in text.splitlines())
    return {name: (of, answer) for name, of, answer in rows}


def answer_for(name: str) -> str:
    """A line about a tool of bcc's or bpftrace's that pyebpf does not have by that name; empty for any other name."""
    found = peer_tools().get(name)
    if found is None:
        return ""
    of, answer = found
    return f"there is no tool {name!r}; for {_OF[of]}: {_LINK.sub(_linked, answer).replace('`', '')}"


def _linked(link: re.Match[str]) -> str:
    """A tool's page is the tool; any other page is named."""
    text, page = link.groups()
    return text if page.startswith("tools/") else f"{text} (docs/{page})"
