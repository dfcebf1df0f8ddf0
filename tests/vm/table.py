"""Write into docs/kernels.md which test ran on which kernel: `python -m tests.vm.table RESULTS/*/record`.

Between the page's marks, from the results of `python -m tests.vm` or of `.ci/run`. A file of tests is a row, a run a
column, with the commit that was checked out; the reasons of skips follow. Kernels that were not run keep their columns.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from collections import Counter, defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tests.vm import report
from tests.vm.kernels import FLAVOURS

if TYPE_CHECKING:
    from tests.vm.report import Report

PAGE = Path(__file__).resolve().parents[2] / "docs" / "kernels.md"
BEGIN, END = "<!-- kernels: begin -->", "<!-- kernels: end -->"
_ALL, _COMMIT = "all", "commit"
_FOLDER = "tests/kernel/"  # only what is there asks the kernel


@dataclass
class Column:
    """A kernel's column: what a run of the tests at `commit` gave, by file, and the reasons of its skips."""

    kernel: str
    commit: str
    cells: dict[str, str]
    reasons: dict[str, int]

    @property
    def key(self) -> tuple[str, ...]:
        """Series and flavour: a newer kernel takes an older one's column."""
        return tuple(re.findall(r"^\d+\.\d+|[a-z]\w*", self.kernel))


def column(found: Report, commit: str) -> Column:
    """The column of a run."""
    by_file = defaultdict(list)
    for test in found.tests:
        if test.file.startswith(_FOLDER):
            by_file[test.file.removeprefix(_FOLDER).removesuffix(".py")].append(test)
    cells = {file: _cell(report.Report(tuple(tests))) for file, tests in by_file.items()}
    cells[_ALL] = _cell(report.Report(tuple(test for tests in by_file.values() for test in tests), found.trouble))
    reasons = Counter(test.reason.removeprefix("probe ").removesuffix(": no") for test in found.skips)
    return Column(_short(found.kernel), commit, cells, dict(reasons))


def tables(columns: list[Column]) -> str:
    """The page's part in Markdown."""
    files = sorted({file for each in columns for file in each.cells} - {_ALL})
    reasons = sorted({reason for each in columns for reason in each.reasons})
    rows = [["tests/kernel/", *(each.kernel for each in columns)], ["---", *("---:" for _ in columns)]]
    rows.append([_COMMIT, *(each.commit for each in columns)])
    rows += [[file, *(each.cells.get(file, "-") for each in columns)] for file in [*files, _ALL]]
    lines = [f"| {' | '.join(row)} |" if row[0] != "---" else f"|{'|'.join(row)}|" for row in rows]
    lines += ["", "| probe that said no | tests skipped by kernel |", "|---|---|"]
    for reason in reasons:
        counts = [f"{each.kernel}: {each.reasons[reason]}" for each in columns if reason in each.reasons]
        lines.append(f"| `{reason}` | {', '.join(counts)} |")
    return "\n".join(lines)


def written(part: str) -> list[Column]:
    """The columns of a page's part: `tables` read back."""
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in part.splitlines() if line.startswith("|")]
    if not rows:
        return []
    split = next(at for at, row in enumerate(rows) if row[0] == "probe that said no")
    names, commits, *cells = [row[1:] for row in (rows[0], *rows[2:split])]
    files = [row[0] for row in rows[3:split]]
    found = [
        Column(name, commit, {file: row[at] for file, row in zip(files, cells, strict=True) if row[at] != "-"}, {})
        for at, (name, commit) in enumerate(zip(names, commits, strict=True))
    ]
    for reason, counts in rows[split + 2 :]:
        for text in counts.split(", "):
            name, _, count = text.rpartition(": ")
            found[names.index(name)].reasons[reason.strip("`")] = int(count)
    return found


def _cell(part: Report) -> str:
    """Passed, then what was not: 17, 3 s(kipped), 1 f(ailed)."""
    words = [str(part.passed)]
    words += [f"{count} {letter}" for count, letter in ((len(part.skips), "s"), (part.failed, "f")) if count]
    return ", ".join(words)


def _order(each: Column) -> tuple[bool, int, list[int]]:
    """The development machine first, then Debian's kernels by flavour."""
    flavour = max(number for number, name in enumerate(FLAVOURS) if name in each.kernel)
    return "fc" not in each.key, flavour, [int(number) for number in re.findall(r"\d+", each.kernel)[:2]]


def _short(release: str) -> str:
    """A release without what all of Debian's have in common: 6.12.117-rt; 6.1.0-56."""
    return re.sub(r"\+deb\d+|-amd64", "", release)


def main() -> int:
    """Parse the command line and rewrite the page."""
    parser = argparse.ArgumentParser(prog="python -m tests.vm.table", description=__doc__)
    parser.add_argument("--page", type=Path, default=PAGE)
    parser.add_argument("--commit", help="the runs' commit (default: the one that is checked out)")
    parser.add_argument("files", nargs="+", type=Path, metavar="RESULTS")
    options = parser.parse_args()
    commit = options.commit or _checked_out()
    reports = [report.read(path) for path in options.files]
    if silent := [each.trouble[0] for each in reports if not each.kernel]:
        sys.stderr.write(f"{silent[0]}\n")
        return 1
    before, _, rest = options.page.read_text().partition(BEGIN)
    if END not in rest:
        sys.stderr.write(f"{options.page}: no marks {BEGIN} and {END}\n")
        return 1
    part, _, after = rest.partition(END)
    columns = {each.key: each for each in [*written(part), *(column(each, commit) for each in reports)]}
    options.page.write_text(f"{before}{BEGIN}\n{tables(sorted(columns.values(), key=_order))}\n{END}{after}")
    return 0


def _checked_out() -> str:
    command = ["git", "rev-parse", "--short", "HEAD"]
    return subprocess.run(command, cwd=PAGE.parent, check=True, capture_output=True, text=True).stdout.strip()


if __name__ == "__main__":
    sys.exit(main())
