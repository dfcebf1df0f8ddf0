"""The table of docs/bpftrace-scripts.md: which scripts of others attach, and what they are told, by kernel.

    python -m tests.script.table 5.10=FILE 6.12=FILE > table.md

Each file has the lines that `python -m tests.script.attached` printed on a machine with that kernel.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from tests.script.attached import ABSENT, REFUSED, TOLD, UNCHANGED, Outcome

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    #: Outcomes by the name of a script, by that of its collection.
    Outcomes: TypeAlias = dict[str, dict[str, Outcome]]

ANSWERS = (UNCHANGED, TOLD, ABSENT, REFUSED)


def read(text: str) -> Outcomes:
    """The outcomes of one kernel; lines of anything else are left out."""
    found: Outcomes = {}
    for line in text.splitlines():
        if line.startswith('{"collection"'):
            each = json.loads(line)
            found.setdefault(each["collection"], {})[each["script"]] = Outcome(each["answer"], each["told"])
    return found


def _counts(answers: Mapping[str, Counter[str]]) -> list[str]:
    return [f"| | {' | '.join(answers)} |", f"|---{'|---:' * len(answers)}|"] + [
        f"| {answer} | {' | '.join(str(count[answer]) for count in answers.values())} |" for answer in ANSWERS
    ]


def table(kernels: Mapping[str, Outcomes]) -> Iterator[str]:
    """All, then the collections: each with its counts, the scripts that run everywhere, and a row for each other."""
    every = {
        release: Counter(each.answer for scripts in found.values() for each in scripts.values())
        for release, found in kernels.items()
    }
    yield "\n".join(["All collections:\n", *_counts(every), ""])
    for name in next(iter(kernels.values())):
        rows, same = [], []
        for script in next(iter(kernels.values()))[name]:
            found = {release: outcomes[name][script] for release, outcomes in kernels.items()}
            if {each.answer for each in found.values()} == {UNCHANGED}:
                same.append(script)
            else:
                rows.append(f"| {script} | {' | '.join(each.answer for each in found.values())} | {_reasons(found)} |")
        counts = {release: Counter(each.answer for each in found[name].values()) for release, found in kernels.items()}
        parts = [f"### {name}\n", *_counts(counts)]
        parts.append(f"\n`yes` on all: {', '.join(same)}.\n" if same else "")
        if rows:
            parts.append(f"| script | {' | '.join(kernels)} | what |\n|---{'|---' * len(kernels)}|---|")
            parts += rows
        yield "\n".join([*parts, ""])


def _reasons(found: Mapping[str, Outcome]) -> str:
    """What is said, each sentence once, with the kernels that it is said on unless those are all."""
    where: dict[str, list[str]] = {}
    for release, (_, told) in found.items():
        for each in told:
            short = each.partition(" (did you mean ")[0].partition("; since Linux ")[0].replace("|", "\\|")
            releases = where.setdefault(short, [])
            if release not in releases:
                releases.append(release)
    return "; ".join(
        short if len(releases) == len(found) else f"{', '.join(releases)}: {short}" for short, releases in where.items()
    )


def main() -> None:
    """Print the table."""
    files = dict(each.split("=", 1) for each in sys.argv[1:])
    for part in table({release: read(Path(path).read_text(encoding="utf-8")) for release, path in files.items()}):
        sys.stdout.write(f"{part}\n")


if __name__ == "__main__":
    main()
