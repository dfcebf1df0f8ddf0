"""Write docs/tools/README.md, every tool in the order of the book with output of its page; `--check` only compares."""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from pyebpf.cli.catalogue import find, names  # noqa: E402 - the path comes first

if TYPE_CHECKING:
    from collections.abc import Iterator

FOLDER = ROOT / "docs" / "tools"
PAGE = FOLDER / "README.md"
#: The longest output that is shown; longer ones end in a line of three dots.
LINES = 16
HEAD = """\
# Tools

Every tool in the order of *BPF Performance Tools*, with real output. The page of a tool has its options, fields and
overhead. `pyebpf TOOL --help` and `pyebpf schema TOOL` say what each prints, `pyebpf doctor --tools` which run on a
machine.

{questions}

`pyebpf list WORD` names the tools that have the word in their summaries.

<!-- written by tools/generate_tools_page.py from the tools and their pages -->
"""
#: What somebody wants to know, and the tools that answer it.
QUESTIONS = {
    "Who uses the processors, and where in the code?": "profile",
    "Why does a process wait, and for whom?": "offcputime wakeuptime offwaketime",
    "Do processes wait for a processor?": "runqlat runqslower runqlen",
    "Which programs are started, and how do they end?": "execsnoop exitsnoop",
    "Who opens, deletes or looks for files?": "opensnoop filelife statsnoop",
    "Who reads and writes disks, and how slow are they?": "biotop biosnoop biolatency",
    "Who connects to whom, and how much do they send?": "tcpconnect tcpaccept tcplife tcptop",
    "Are packets lost, and why?": "tcpretrans tcpdrop skbdrop",
    "Are names (DNS) slow to look up?": "gethostlatency",
    "Which system calls are made, and by whom?": "syscount",
    "Where does memory go?": "memleak oomkill drsnoop cachestat",
    "Who sends signals?": "killsnoop",
    "How often is a function called, from where, and how long does it take?": "funccount stackcount funclatency",
}
#: Chapters in the order of the page: the tools whose section is not declared by themselves.
CHAPTERS = {
    "Networking (chapter 10)": ("tcplife",),
    "Disks (chapter 9)": (
        "biolatency",
        "biosnoop",
        "bitesize",
        "biopattern",
        "biotop",
        "biostacks",
        "seeksize",
        "biocpu",
        "bioerr",
        "biotimeout",
        "iosched",
        "biomerge",
        "mdflush",
        "scsilatency",
        "scsiresult",
        "nvmelatency",
    ),
    "Processors": (
        "profile",
        "runqlat",
        "runqslower",
        "cpudist",
        "runqlen",
        "offcputime",
        "wakeuptime",
        "offwaketime",
        "chain",
        "hardirqs",
        "softirqs",
    ),
    "Processes": ("execsnoop", "exitsnoop", "killsnoop", "threadsnoop", "bashreadline"),
    "Memory": ("oomkill", "memleak", "drsnoop"),
    "Files, system calls and functions": (
        "opensnoop",
        "statsnoop",
        "filelife",
        "vfsstat",
        "filetype",
        "cachestat",
        "syscount",
        "funccount",
        "stackcount",
        "funclatency",
        "funcslower",
    ),
}
#: The sections of tools that do not declare theirs.
SECTIONS = {"tcplife": "10.3.13"}


def chapter_of(name: str) -> str:
    """The heading below which a tool stands: what has a section is of the chapter on networking, as is what is new."""
    return next((title for title, tools in CHAPTERS.items() if name in tools), next(iter(CHAPTERS)))


def order(name: str) -> tuple[object, ...]:
    """The place of a tool in its chapter: by section, then those without one."""
    chapter = chapter_of(name)
    section = find(name).section or SECTIONS.get(name, "")
    number = tuple(int(part) for part in section.split(".")) if section else (99,)
    known = CHAPTERS[chapter].index(name) if not section and name in CHAPTERS[chapter] else 0
    return (*number, known, name)


def output_of(page: str) -> str:
    """The first block of a page, what a command prints."""
    found = re.search(r"^```\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
    assert found is not None, "a page of a tool begins with its output"
    lines = found[1].splitlines()
    return "\n".join(lines if len(lines) <= LINES else [*lines[: LINES - 1], "..."])


def sections() -> Iterator[str]:
    """The page's text."""
    rows = (
        f"| {question} | {', '.join(f'[{name}]({name}.md)' for name in tools.split())} |"
        for question, tools in QUESTIONS.items()
    )
    yield HEAD.format(questions="\n".join(["| question | tools |", "|---|---|", *rows]))
    for chapter in CHAPTERS:
        yield f"## {chapter}\n"
        for name in sorted((each for each in names() if chapter_of(each) == chapter), key=order):
            tool = find(name)
            section = tool.section or SECTIONS.get(name, "")
            yield f"### [{name}]({name}.md)\n"
            yield f"{tool.summary}.{f' Section {section}.' if section else ''}\n"
            yield f"```\n{output_of((FOLDER / f'{name}.md').read_text(encoding='utf-8'))}\n```\n"


def main() -> int:
    """Write the page, or compare it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="compare, and write nothing")
    text = "\n".join(sections())
    if parser.parse_args().check:
        return int(not PAGE.exists() or PAGE.read_text(encoding="utf-8") != text)
    PAGE.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
