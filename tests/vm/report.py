"""What the files of `tests.vm.record` say: how many tests passed, which failed or were skipped, and why.

A skip counts as a failure unless its reason is a probe's "no" (`tests.support.needs`): about the kernel, that is, not
about what the test bed lacks.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from tests.vm.deadline import LATE

ACCEPTED = re.compile(
    r"probe (arch|argument|attach|attribute|browser|btf|btf_variable|device|function|helper|hook|isa|iterator|kernel"
    r"|kfunc|machine|map|member|module|mount|program|setting|tracepoint|user|variable|verifier):[^ ]+: (no|yes)"
)
"""Reasons to skip that count as such: the kernel, or the processor, was asked; "yes", where a test is about a feature's
absence. `machine:virtual` is one whose settings a test may change, `browser:` a program that the test bed need not
have. `command:`, a program that it should have installed, is none."""


@dataclass(frozen=True, slots=True)
class Test:
    """One test: its id, "passed", "failed" or "skipped", and in one line why."""

    id: str
    outcome: str
    reason: str = ""
    seconds: float = 0.0

    @property
    def file(self) -> str:
        """The file that it stands in."""
        return self.id.partition("::")[0]

    @property
    def accepted(self) -> bool:
        """Whether it passed, or was skipped for a reason that counts."""
        return self.outcome == "passed" or (self.outcome == "skipped" and ACCEPTED.fullmatch(self.reason) is not None)


@dataclass(frozen=True, slots=True)
class Report:
    """A run, or several: each test that came to an end, and what kept others from it."""

    tests: tuple[Test, ...] = ()
    trouble: tuple[str, ...] = ()
    kernel: str = ""

    def __add__(self, other: Report) -> Report:
        return Report(self.tests + other.tests, self.trouble + other.trouble)

    def __str__(self) -> str:
        return f"{self.passed} passed, {self.failed} failed, {len(self.skips)} skipped"

    @property
    def passed(self) -> int:
        """How many passed."""
        return sum(test.outcome == "passed" for test in self.tests)

    @property
    def skips(self) -> list[Test]:
        """Those skipped since a probe said no."""
        return [test for test in self.tests if test.outcome == "skipped" and test.accepted]

    @property
    def failures(self) -> list[Test]:
        """Those that failed, or were skipped for another reason."""
        return [test for test in self.tests if not test.accepted]

    @property
    def failed(self) -> int:
        """How many count as failed: tests, and all other trouble."""
        return len(self.failures) + len(self.trouble)

    def lines(self) -> list[str]:
        """Each failure and trouble, and the reasons of skips with their counts."""
        lines = [f"trouble: {text}" for text in self.trouble]
        for test in self.failures:
            word = "skipped without a probe's no" if test.outcome == "skipped" else "failed"
            lines.append(f"{word}: {test.id}: {test.reason}")
        reasons = Counter(test.reason for test in self.skips)
        return [*lines, *(f"skipped {count}: {reason}" for reason, count in sorted(reasons.items()))]


def read(path: Path) -> Report:
    """What a file of results says; a file that is missing or cut short is trouble.

    A run that was resumed (`tests.vm.record`) begins more than once; the first beginning counts all tests.
    """
    try:
        text = path.read_text()
    except OSError as error:
        return Report(trouble=(f"no results in {path}: {error.strerror}",))
    tests: list[Test] = []
    kernel, wanted, running, ended = "", 0, "", False
    for line in text.splitlines():
        try:
            item = json.loads(line)
        except ValueError:  # written by a machine while it was lost
            continue
        if "kernel" in item:
            kernel, wanted = item["kernel"], max(wanted, item["tests"])
        elif "begin" in item:
            running = item["begin"]
        elif "test" in item:
            tests.append(Test(item["test"], item["outcome"], item["reason"], item["seconds"]))
            running = ""
        elif "end" in item:
            ended = True
    trouble = []
    if not ended:
        trouble.append(f"{path}: cut short after {len(tests)} of {wanted} tests{running and f', in {running}'}")
    elif not tests:
        trouble.append(f"{path}: no test ran")
    return Report(tuple(tests), tuple(trouble), kernel)


def read_machines(folder: Path) -> list[Report]:
    """The results of each machine that a folder lists (`tests.vm` writes the list before it starts any)."""
    try:
        names = (folder / "machines").read_text().split()
    except OSError as error:
        return [Report(trouble=(f"no machine was started: {error.strerror}",))]
    return [read(folder / name / "record") for name in names]


# Steps whose failures are those of tests, which the files of results tell one by one.
_OF_TESTS = frozenset({"tests", "tests in virtual machines"})


def read_steps(path: Path) -> Report:
    """What failed, or never came to an end, of the steps that `.ci/steps` noted; no notes are trouble too."""
    try:
        lines = path.read_text().splitlines()
    except OSError as error:
        return Report(trouble=(f"no step was begun: {error.strerror}",))
    ended = {name: int(status) for _, status, name in (line.split(" ", 2) for line in lines if line.startswith("end "))}
    begun = [line.removeprefix("begin ") for line in lines if line.startswith("begin ")]
    trouble = [f"step {name}: not finished" for name in begun if name not in ended]
    trouble += [f"step {name}: status {status}" for name, status in ended.items() if status and name not in _OF_TESTS]
    # A run of tests that was cut off, or crashed, may have written no failure of its own.
    trouble += [f"step {name}: status {ended[name]}" for name in ended if name in _OF_TESTS and ended[name] >= LATE]
    return Report(trouble=tuple(trouble))


def main() -> int:
    """Print the sum of several files of results as one line; 1 if anything failed or a file is missing."""
    parser = argparse.ArgumentParser(prog="python -m tests.vm.report", description=main.__doc__)
    parser.add_argument("--steps", type=Path, help="the notes of `.ci/steps`, whose failures are added")
    parser.add_argument(
        "--machines", type=Path, metavar="FOLDER", help="add the results of each machine that was to run"
    )
    parser.add_argument("files", nargs="+", type=Path)
    options = parser.parse_args()
    reports = [read(path) for path in options.files]
    if options.machines:
        reports += read_machines(options.machines)
    if options.steps:
        reports.append(read_steps(options.steps))
    for report in reports:
        for line in report.lines():
            sys.stdout.write(f"{f'[{report.kernel}] ' if report.kernel else ''}{line}\n")
    total = sum(reports, Report())
    sys.stdout.write(f"{total}\n")
    return 1 if total.failed or not total.passed else 0


if __name__ == "__main__":
    sys.exit(main())
