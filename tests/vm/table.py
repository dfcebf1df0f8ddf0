"""Write into docs/kernels.md which test ran on which kernel: `python -m tests.vm.table RESULTS/*/record`.

Between the page's marks, from what `.ci/run` leaves in the folder that CI_RESULTS names. A file of tests is a row, a
run a column; the reasons of skips follow.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING

from tests.vm import report
from tests.vm.kernels import FLAVOURS

if TYPE_CHECKING:
    from tests.vm.report import Report

PAGE = Path(__file__).resolve().parents[2] / "docs" / "kernels.md"
BEGIN, END = "<!-- kernels: begin -->", "<!-- kernels: end -->"
_FOLDER = "tests/kernel/"  # only what is there asks the kernel


def tables(reports: list[Report]) -> str:
    """The page's part in Markdown."""
    names = [_short(each.kernel) for each in reports]
    cells: dict[str, list[str]] = defaultdict(lambda: ["-"] * len(reports))
    reasons: dict[str, dict[str, int]] = defaultdict(dict)
    totals = []
    for column, each in enumerate(reports):
        by_file = defaultdict(list)
        for test in each.tests:
            if test.file.startswith(_FOLDER):
                by_file[test.file.removeprefix(_FOLDER)].append(test)
        for file, tests in by_file.items():
            cells[file][column] = _cell(report.Report(tuple(tests)))
        totals.append(_cell(report.Report(tuple(test for tests in by_file.values() for test in tests), each.trouble)))
        for test in each.skips:
            found = reasons[test.reason.removeprefix("probe ").removesuffix(": no")]
            found[names[column]] = found.get(names[column], 0) + 1
    lines = [f"| tests/kernel/ | {' | '.join(names)} |", f"|---|{'---:|' * len(names)}"]
    lines += [f"| {file.removesuffix('.py')} | {' | '.join(row)} |" for file, row in sorted(cells.items())]
    lines += [f"| all | {' | '.join(totals)} |", "", "| probe that said no | tests skipped by kernel |", "|---|---|"]
    for reason, counts in sorted(reasons.items()):
        lines.append(f"| `{reason}` | {', '.join(f'{name}: {count}' for name, count in counts.items())} |")
    return "\n".join(lines)


def _cell(part: Report) -> str:
    """Passed, then what was not: 17, 3 s(kipped), 1 f(ailed)."""
    words = [str(part.passed)]
    words += [f"{count} {letter}" for count, letter in ((len(part.skips), "s"), (part.failed, "f")) if count]
    return ", ".join(words)


def _order(each: Report) -> tuple[bool, int, str]:
    """The development machine first, then Debian's kernels by flavour."""
    flavour = max(number for number, name in enumerate(FLAVOURS) if name in each.kernel)
    return each.kernel.endswith("amd64"), flavour, each.kernel


def _short(release: str) -> str:
    """A release without what all of Debian's have in common: 6.12.117-rt; 6.1.0-56."""
    return re.sub(r"\+deb\d+|-amd64", "", release)


def main() -> int:
    """Parse the command line and rewrite the page."""
    parser = argparse.ArgumentParser(prog="python -m tests.vm.table", description=__doc__)
    parser.add_argument("--page", type=Path, default=PAGE)
    parser.add_argument("files", nargs="+", type=Path, metavar="RESULTS")
    options = parser.parse_args()
    reports = sorted((report.read(path) for path in options.files), key=_order)
    if silent := [each.trouble[0] for each in reports if not each.kernel]:
        sys.stderr.write(f"{silent[0]}\n")
        return 1
    before, _, rest = options.page.read_text().partition(BEGIN)
    _, _, after = rest.partition(END)
    if not after:
        sys.stderr.write(f"{options.page}: no marks {BEGIN} and {END}\n")
        return 1
    options.page.write_text(f"{before}{BEGIN}\n{tables(reports)}\n{END}{after}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
