"""Write docs/tool-tests.md, how each tool of three chapters is tested; `--check` only compares."""

from __future__ import annotations

import argparse
import re
import statistics
import sys
from pathlib import Path
from typing import TYPE_CHECKING

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tools")]

from generate_tools_page import CHAPTERS, chapter_of, order  # noqa: E402 - the path comes first

from pyebpf.cli.catalogue import names  # noqa: E402 - as above

if TYPE_CHECKING:
    from collections.abc import Iterator

PAGE = ROOT / "docs" / "tool-tests.md"
HEAD = """\
# How the tools are tested

Each tool of these chapters, with the lines of its file in `pyebpf/programs/`, and the file in `tests/kernel/` that runs
it against a workload whose events the test counts itself. The second witness is who else tells that test the same
numbers. The last columns are the start in milliseconds and the peak memory in MiB, of the tool and of its peers, where
[performance](performance.md#tools-beside-their-peers) has them.

<!-- written by tools/generate_tool_tests_page.py from the tools, their tests and docs/performance.md -->
"""
PATTERN = re.compile(r"test_(tool_(?!pages|starts)|function_tools)")  # not what tests all tools alike
COLUMNS = ("tool", "lines", "test", "second witness", "start ms, peak MiB", "of peers")
#: Witnesses by the words of a test file that ask them.
WITNESSES = {
    "disk_statistics(": "`/sys/block/DISK/stat`",
    'Path(f"/sys/block/{loop.name}/stat")': "`/sys/block/DISK/stat`",
    '"/proc/net/dev"': "`/proc/net/dev`",
    '"nstat"': "nstat(8)",
    "tcp_opens.": "`/proc/net/snmp`",
    "tcp_losses": "`/proc/net/snmp`",
    "TCP_INFO": "`struct tcp_info`",
    '"tc", "-s"': "tc(8)",
    "schedstat": "`/proc/PID/schedstat`",
    '"/proc/interrupts"': "`/proc/interrupts`",
    '"/proc/softirqs"': "`/proc/softirqs`",
    "time.monotonic": "the process's clock",
    "CLOCK_MONOTONIC": "the process's clock",
}
#: Tests of one file that several tools share ask these only for one of them.
NOT_OF = {
    "hardirqs": ("`/proc/softirqs`",),
    "softirqs": ("`/proc/interrupts`",),
    "profile": ("the process's clock",),
    "superping": ("tc(8)", "the process's clock"),
    "seeksize": ("the process's clock",),
    "mdflush": ("the process's clock",),
    "bioerr": ("the process's clock",),
    "sormem": ("the process's clock",),
}


def test_files() -> dict[str, str]:
    """Text of the tests that run in a kernel, by the file's name."""
    return {path.name: path.read_text(encoding="utf-8") for path in sorted((ROOT / "tests/kernel").glob("test_*.py"))}


def test_of(name: str, files: dict[str, str]) -> str:
    """The file that says most of a tool: its own, or that of tools that it is tested with."""
    own = f"test_tool_{name}.py"
    tests = {file: text for file, text in files.items() if PATTERN.match(file)}
    return own if own in tests else max(tests, key=lambda file: len(re.findall(rf"\b{name}\b", tests[file])))


def witnesses(name: str, text: str) -> list[str]:
    """Whom the test asks beside the tool."""
    found = dict.fromkeys(words for code, words in WITNESSES.items() if code in text)
    return [words for words in found if words not in NOT_OF.get(name, ())]


def measured() -> dict[str, dict[str, str]]:
    """Start and memory of each tool by whose it is, from the page of performance."""
    page = (ROOT / "docs" / "performance.md").read_text(encoding="utf-8")
    section = page.partition("\n## Tools beside their peers\n")[2].partition("\n## ")[0]
    found: dict[str, dict[str, str]] = {}
    for name, of, start, peak in re.findall(
        r"^\| ([\w-]+) +\| +([\w-]+) \| +([\d,]+) \| +[\d,]+ \| +([\d,]+) \|", section, re.MULTILINE
    ):
        found.setdefault(name, {})[of] = f"{start}, {peak}"
    return found


def rows(chapter: str) -> Iterator[tuple[str, ...]]:
    """A row for each tool."""
    files, figures = test_files(), measured()
    for name in sorted((each for each in names() if chapter_of(each) == chapter), key=order):
        source = ROOT / "pyebpf" / "programs" / f"{name}.py"
        if not source.exists():  # qdisc-fq and its like are spellings of qdisclat
            continue
        test = test_of(name, files)
        peers = dict(figures.get(name, {}))
        own = peers.pop("pyebpf", "")
        yield (
            f"[{name}](tools/{name}.md)",
            str(len(source.read_text(encoding="utf-8").splitlines())),
            f"`{test}`",
            ", ".join(witnesses(name, files[test])),
            own,
            "; ".join(f"{who} {numbers}" for who, numbers in peers.items()),
        )


def page() -> Iterator[str]:
    """The page's text."""
    yield HEAD
    for chapter in list(CHAPTERS)[:3]:
        found = list(rows(chapter))
        middle = statistics.median(int(lines) for _, lines, *_ in found)
        yield f"## {chapter}\n"
        yield f"{len(found)} tools, with a median of {middle:.0f} lines.\n"
        cells = [COLUMNS, ("---", "---:", "---", "---", "---", "---"), *found]
        yield "".join(f"| {' | '.join(row)} |\n" for row in cells)


def main() -> int:
    """Write the page, or compare it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="compare, and write nothing")
    text = "\n".join(page())
    if parser.parse_args().check:
        return int(not PAGE.exists() or PAGE.read_text(encoding="utf-8") != text)
    PAGE.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
