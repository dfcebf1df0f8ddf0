"""bpftrace's run-time tests, read from a copy of its tests: blocks of lines, each a directive and its text."""

from __future__ import annotations

import platform
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

#: Folders beside the files of tests, which have none.
_OTHERS = {"engine", "outputs", "scripts"}
#: What a line that begins with spaces goes on with.
_CONTINUED = {"PROG", "EXPECT", "EXPECT_REGEX"}


@dataclass
class Case:
    """One test: its directives, in their order. `expects` has the kind of each expectation and its text."""

    suite: str
    name: str = ""
    run: str = ""
    program: str = ""
    expects: list[tuple[str, str]] = field(default_factory=list)
    timeout: int = 5
    befores: list[str] = field(default_factory=list)
    after: str = ""
    setup: str = ""
    cleanup: str = ""
    requires: list[str] = field(default_factory=list)
    features: list[str] = field(default_factory=list)
    environment: dict[str, str] = field(default_factory=dict)
    architectures: list[str] = field(default_factory=list)
    will_fail: bool = False
    status: int = 0
    new_namespace: bool = False
    least: str = ""
    greatest: str = ""
    local_time: int | None = None

    @property
    def id(self) -> str:
        """Its file and name; a name may stand there twice, for two architectures."""
        return f"{self.suite}.{self.name}"

    @property
    def text(self) -> str:
        """Everything that is run."""
        return "\n".join([self.run, self.program, *self.befores, self.after, self.setup])

    def take(self, word: str, rest: str) -> None:
        """Take a directive. Raises ValueError for one that is not known."""
        simple = {"NAME": "name", "RUN": "run", "PROG": "program", "AFTER": "after", "SETUP": "setup"}
        simple |= {"CLEANUP": "cleanup", "MIN_KERNEL": "least", "MAX_KERNEL": "greatest"}
        lists = {"BEFORE": self.befores, "REQUIRES": self.requires}
        if word in simple:
            setattr(self, simple[word], rest)
        elif word in lists:
            lists[word].append(rest)
        elif word.startswith("EXPECT"):
            self.expects.append((word, rest))
        elif word == "TIMEOUT":
            self.timeout = int(rest)
        elif word == "REQUIRES_FEATURE":
            self.features += rest.split()
        elif word == "ENV":
            self.environment |= dict(each.split("=", 1) for each in rest.split())
        elif word == "ARCH":
            self.architectures = [each.strip() for each in rest.split("|")]
        elif word == "WILL_FAIL":
            self.will_fail = True
        elif word == "RETURN_CODE":
            self.status = int(rest)
        elif word == "NEW_PIDNS":
            self.new_namespace = True
        elif word == "LOCALIZE_TIMESTAMPS":
            self.local_time = int(rest)
        elif word != "SKIP_IF_ENV_HAS":
            msg = f"{self.suite}: there is no directive {word}"
            raise ValueError(msg)

    def is_for(self, machine: str, order: str) -> bool:
        """Whether it is for an architecture and a byte order."""
        here = {machine, order}
        wanted = {each for each in self.architectures if not each.startswith("!")}
        refused = {each[1:] for each in self.architectures if each.startswith("!")}
        return (not wanted or bool(wanted & here)) and not refused & here


def parse(text: str, suite: str) -> list[Case]:
    """The tests of a file: blocks between empty lines; `#` begins a comment."""
    found: list[Case] = []
    case, word = None, ""
    for line in text.split("\n"):
        if line.startswith("#"):
            continue
        if not line:
            case, word = None, ""
            continue
        if line[: len(word) + 1].isspace() and case is not None:
            rest = line[len(word) + 1 :]
            if word == "PROG":
                case.program += f"\n{rest}"
                continue
            if word in _CONTINUED:
                kind, before = case.expects[-1]
                case.expects[-1] = (kind, f"{before}\n{rest}")
                continue
        if not line.strip():
            continue
        word, _, rest = line.strip().partition(" ")
        if case is None:
            case = Case(suite)
            found.append(case)
        case.take(word, rest.strip())
    return found


def read(folder: Path) -> list[Case]:
    """The tests of a copy of bpftrace's `tests` that are for this architecture, by file."""
    machine, order = platform.machine().lower(), "le" if sys.byteorder == "little" else "be"
    files = sorted(each for each in (folder / "runtime").iterdir() if each.is_file() and each.name not in _OTHERS)
    cases = [case for file in files for case in parse(file.read_text(), file.name)]
    return [case for case in cases if case.is_for(machine, order)]
