"""Shares of the tests for one run of CI: what matters most on each kernel, and of the rest what there is time for.

Every kernel runs what is marked `every_kernel` (each kind of attachment, maps, feature probes) and the files that the
newest commits changed. TOOLS seconds of the exact tests of tools run on some kernel, the newest changes first, without
those that passed on the host. Other files are dealt to the plain kernels until there are REST seconds. Chance, which
the commit decides, chooses among the tools and among the others: runs of the same commit are the same, more tests make
no run longer, and each file meets every kernel in time. One of the flavours has its turn as well.

Files are weighed by what their tests took in a machine: `python -m tests.vm.shards RESULTS/*/record` writes that down.
Of those that take longer than PART seconds the parts are dealt (`tests.vm.parts`).
"""

from __future__ import annotations

import argparse
import json
import subprocess
from collections import Counter, defaultdict
from hashlib import sha256
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING

from tests.vm import report
from tests.vm.kernels import FLAVOURED, FLAVOURS
from tests.vm.parts import part_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from tests.vm.plan import Wishes
    from tests.vm.report import Report

CHECKOUT = Path(__file__).resolve().parents[2]
SECONDS = Path(__file__).with_name("seconds.json")
"""What a test of a file takes on average in an emulated machine, by the file's name."""
UNMEASURED = 3.0  # seconds of a test of a file that is new
RECENT = 20  # commits that are looked at
RECENT_SECONDS = 40.0  # of changed files that every kernel runs; older changes have met the kernels in earlier runs
TOOLS = 400.0  # seconds of tools' files that one run deals
REST = 200.0  # of other files
PART = 50.0  # the most that a part of a file takes, or a single test

_TOOL = "test_tool_"
#: Kernels with all that tools attach to, so that their exact tests count something. Plain ones that every apt reaches.
_OF_TOOLS = ("6.1", "6.12")
#: Ends the names of machines that run no rest: they are slower than others.
_SLOW = "-arm64"


def commit() -> str:
    """The checkout's commit, which decides who runs what; "" where there is no git."""
    return "".join(_git("rev-parse", "HEAD"))


def turn(key: str) -> str:
    """The flavour whose turn it is, such as "6.12-rt"."""
    flavours = [f"{series}-{flavour}" for flavour in FLAVOURS[1:] for series in FLAVOURED]
    return flavours[_number(key) % len(flavours)]


def deal(
    wishes: Sequence[Wishes],
    names: Sequence[str],
    key: str,
    changed: Sequence[str],
    *,
    seen: frozenset[str] = frozenset(),
) -> dict[str, tuple[str, ...]]:
    """By kernel the files and parts whose tests it runs; `changed` are for all, the newest first, while there is room.

    Files of tools that are in `seen` are dealt as others are. What is marked `every_kernel` each runs anyway, and does
    not count.
    """
    seconds = weights(wishes)
    changed = [part for file in changed for part in sorted(seconds) if _file(part) == file]
    everywhere = _while_there_is_room(changed, seconds, RECENT_SECONDS)
    shares = {name: list(everywhere) for name in names}
    load = dict.fromkeys(names, 0.0)
    others = sorted(seconds.keys() - set(everywhere), key=lambda file: _number(f"{key} {file}"))
    newest_first = dict.fromkeys([*(file for file in changed if file in others), *others])
    unseen = [file for file in newest_first if _TOOL in file and _file(file) not in seen]
    tools = _while_there_is_room(unseen, seconds, TOOLS)
    rest = _while_there_is_room([file for file in others if file not in unseen], seconds, REST)
    for kernels, files in ((_OF_TOOLS, tools), (None, rest)):
        able = [name for name in names if (not name.endswith(_SLOW) if kernels is None else name in kernels)] or names
        for file in files:
            name = min(able, key=load.__getitem__)
            shares[name].append(file)
            load[name] += seconds[file]
    return {name: tuple(sorted(files)) for name, files in shares.items()}


def weights(wishes: Sequence[Wishes]) -> dict[str, float]:
    """The seconds of each part's tests, but for those that each machine runs, or none."""
    by_file = _written()
    tests = [wish for wish in wishes if not wish.marks & {"any_kernel", "every_kernel"}]
    a_test = {file: by_file.get(Path(file).stem, UNMEASURED) for file in {wish.file for wish in tests}}
    counts = Counter(wish.file for wish in tests)
    found: dict[str, float] = defaultdict(float)
    for wish in tests:
        parts = max(1, ceil(counts[wish.file] * a_test[wish.file] / PART))
        found[part_of(wish.test, parts)] += a_test[wish.file]
    return dict(found)


def _file(part: str) -> str:
    return part.partition("@")[0]


def _written() -> dict[str, float]:
    """The seconds that were written down; none before the first time."""
    found: dict[str, float] = json.loads(SECONDS.read_text()) if SECONDS.exists() else {}
    return found


def passed(found: Report) -> frozenset[str]:
    """The files all of whose tests passed."""
    whole = {test.file for test in found.tests}
    return frozenset(whole - {test.file for test in found.tests if test.outcome != "passed"})


def measured(reports: Sequence[Report]) -> dict[str, float]:
    """The mean of what a file's tests took, of those that passed."""
    took = defaultdict(list)
    for each in reports:
        for test in each.tests:
            if test.outcome == "passed":
                took[Path(test.file).stem].append(test.seconds)
    return {file: round(sum(all_) / len(all_), 2) for file, all_ in sorted(took.items())}


def changed(count: int = RECENT) -> list[str]:
    """Files of tests/kernel that the newest commits changed, the newest first; a tool stands for its test."""
    found = dict.fromkeys(_test_of(path) for path in _git("log", f"-{count}", "--format=", "--name-only"))
    return [file for file in found if file and (CHECKOUT / file).exists()]


def _while_there_is_room(files: Sequence[str], seconds: Mapping[str, float], room: float) -> list[str]:
    """Files that take `room` seconds at most; one that takes more than what is left of it is passed over."""
    taken = []
    for file in files:
        if 0 < seconds.get(file, 0) <= room:
            taken.append(file)
            room -= seconds[file]
    return taken


def _test_of(path: str) -> str:
    """The file of tests that a changed file calls for, or ""."""
    folder, _, name = path.rpartition("/")
    if folder == "pyebpf/programs":
        return f"tests/kernel/{_TOOL}{name}"
    return path if folder == "tests/kernel" and name.startswith("test_") else ""


def _number(text: str) -> int:
    return int.from_bytes(sha256(text.encode()).digest()[:8])


def _git(*arguments: str) -> Iterator[str]:
    """Lines that git prints; none without a repository."""
    try:
        done = subprocess.run(["git", *arguments], cwd=CHECKOUT, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return iter(())
    return iter(done.stdout.split("\n")) if done.returncode == 0 else iter(())


def main() -> None:
    """Write SECONDS from results of whole runs; files that these do not have keep what they had."""
    parser = argparse.ArgumentParser(prog="python -m tests.vm.shards", description=main.__doc__)
    parser.add_argument("files", nargs="+", type=Path, metavar="RESULTS")
    found = _written() | measured([report.read(path) for path in parser.parse_args().files])
    there = {
        file: seconds for file, seconds in sorted(found.items()) if (CHECKOUT / f"tests/kernel/{file}.py").exists()
    }
    SECONDS.write_text(json.dumps(there, indent=0) + "\n")


if __name__ == "__main__":
    main()
