"""Shares of the tests for one run of CI: what matters most on each kernel, and of the rest what there is time for.

Every kernel runs what is marked `every_kernel` (each kind of attachment, maps, feature probes) and the files that the
newest commits changed; some kernel runs the exact test of each tool. Other files are dealt to the plain kernels by
chance, which the commit decides, until there are REST tests: runs of the same commit are the same, more tests make no
run longer, and each file meets every kernel in time. One of the flavours has its turn as well.
"""

from __future__ import annotations

import subprocess
from collections import Counter
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from tests.vm.kernels import FLAVOURED, FLAVOURS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from tests.vm.plan import Wishes

CHECKOUT = Path(__file__).resolve().parents[2]
RECENT = 20  # commits that are looked at
RECENT_TESTS = 100  # of changed files that every kernel runs; older changes have met the kernels in earlier runs
REST = 800  # tests of other files that one run deals, a third of what there is

_TOOL = "test_tool_"
#: A tool's test takes as long as so many others: it waits for a workload.
_TOOL_WEIGHT = 8
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
    wishes: Sequence[Wishes], names: Sequence[str], key: str, changed: Sequence[str]
) -> dict[str, tuple[str, ...]]:
    """By kernel the files all of whose tests it runs; `changed` are for all, the newest first, while there is room.

    What is marked `every_kernel` each runs anyway, and does not count.
    """
    tests = Counter(wish.file for wish in wishes if not wish.marks & {"any_kernel", "every_kernel"})
    everywhere = _while_there_is_room(changed, tests, RECENT_TESTS)
    shares = {name: list(everywhere) for name in names}
    load = dict.fromkeys(names, 0)
    others = sorted(tests.keys() - set(everywhere), key=lambda file: _number(f"{key} {file}"))
    tools = [file for file in others if _TOOL in file]
    rest = _while_there_is_room([file for file in others if _TOOL not in file], tests, REST)
    for kernels, files, weight in ((_OF_TOOLS, tools, _TOOL_WEIGHT), (None, rest, 1)):
        able = [name for name in names if (not name.endswith(_SLOW) if kernels is None else name in kernels)] or names
        for file in files:
            name = min(able, key=load.__getitem__)
            shares[name].append(file)
            load[name] += tests[file] * weight
    return {name: tuple(sorted(files)) for name, files in shares.items()}


def changed(count: int = RECENT) -> list[str]:
    """Files of tests/kernel that the newest commits changed, the newest first; a tool stands for its test."""
    found = dict.fromkeys(_test_of(path) for path in _git("log", f"-{count}", "--format=", "--name-only"))
    return [file for file in found if file and (CHECKOUT / file).exists()]


def _while_there_is_room(files: Sequence[str], tests: Mapping[str, int], room: int) -> list[str]:
    """Files with `room` tests at most; one that is too large for what is left of it is passed over."""
    taken = []
    for file in files:
        if 0 < tests.get(file, 0) <= room:
            taken.append(file)
            room -= tests[file]
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
