"""What pytest's JUnit files say: how many tests passed, and which failed or were skipped, and why."""

from __future__ import annotations

import argparse
import sys
import xml.etree.ElementTree as ET
from dataclasses import dataclass
from pathlib import Path

from tests.vm.deadline import LATE


@dataclass(frozen=True, slots=True)
class Report:
    """Counts, and for each test that failed or was skipped its name and pytest's one-line reason."""

    passed: int
    failures: tuple[tuple[str, str], ...] = ()
    skips: tuple[tuple[str, str], ...] = ()

    def __add__(self, other: Report) -> Report:
        return Report(self.passed + other.passed, self.failures + other.failures, self.skips + other.skips)

    def __str__(self) -> str:
        return f"{self.passed} passed, {len(self.failures)} failed, {len(self.skips)} skipped"


def read(path: Path) -> Report:
    """The report in a JUnit file. Raises OSError if there is none, ET.ParseError if it is cut short."""
    passed = 0
    failures: list[tuple[str, str]] = []
    skips: list[tuple[str, str]] = []
    # The file is one that our own pytest wrote.
    for case in ET.parse(path).getroot().iter("testcase"):
        name = f"{case.get('classname', '')}::{case.get('name', '')}"
        problem = case.find("failure")
        if problem is None:
            problem = case.find("error")
        skipped = case.find("skipped")
        if problem is not None:
            failures.append((name, _first_line(problem)))
        elif skipped is not None:
            skips.append((name, _first_line(skipped)))
        else:
            passed += 1
    return Report(passed, tuple(failures), tuple(skips))


def _first_line(element: ET.Element) -> str:
    message = element.get("message") or element.text or ""
    return message.strip().partition("\n")[0]


# Steps whose failures are those of tests, which the files of results tell one by one.
_OF_TESTS = frozenset({"tests", "tests in virtual machines"})


def read_steps(path: Path) -> Report:
    """What failed, or never came to an end, of the steps that `.ci/steps` noted; no notes are a failure too."""
    try:
        lines = path.read_text().splitlines()
    except OSError as error:
        return Report(0, (("steps", f"none begun: {error}"),))
    ended = {name: int(status) for _, status, name in (line.split(" ", 2) for line in lines if line.startswith("end "))}
    begun = [line.removeprefix("begin ") for line in lines if line.startswith("begin ")]
    failures = [(name, "not finished") for name in begun if name not in ended]
    failures += [(name, f"status {status}") for name, status in ended.items() if status and name not in _OF_TESTS]
    # A run of tests that was cut off may have written no failure of its own.
    failures += [(name, "ended by its limit") for name in ended if name in _OF_TESTS and ended[name] >= LATE]
    return Report(0, tuple(failures))


def main() -> int:
    """Print the sum of several JUnit files as one line; 1 if anything failed or a file is missing."""
    parser = argparse.ArgumentParser(prog="python -m tests.vm.report", description=main.__doc__)
    parser.add_argument("--steps", type=Path, help="the notes of `.ci/steps`, whose failures are added")
    parser.add_argument("files", nargs="+", type=Path)
    options = parser.parse_args()
    total = read_steps(options.steps) if options.steps else Report(0)
    for name, reason in total.failures:
        sys.stdout.write(f"step {name}: {reason}\n")
    for path in options.files:
        try:
            total += read(path)
        except (OSError, ET.ParseError) as error:
            sys.stdout.write(f"no results in {path}: {error}\n")
            total += Report(0, ((str(path), str(error)),))
    sys.stdout.write(f"{total}\n")
    return 1 if total.failures or not total.passed else 0


if __name__ == "__main__":
    sys.exit(main())
