"""Shares of the tests for one run of CI: every test on some kernel, and what matters most on each.

Every kernel runs what is marked `every_kernel` (each kind of attachment, maps, feature probes) and the files that the
newest commits changed. The other files are dealt to the plain kernels by chance, which the commit decides, so that runs
of the same commit are the same and each file meets every kernel in time. One of the flavours has its turn as well.
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
RECENT_TESTS = 150  # of changed files that every kernel runs; older changes have met the kernels in earlier runs

_TOOL = "test_tool_"
#: Kernels with all that tools attach to, so that their exact tests count something. Plain ones.
_OF_TOOLS = ("6.1", "6.12", "7.3")


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
    """By kernel the files all of whose tests it runs; `changed` are for all, the newest first, while there is room."""
    tests = Counter(wish.file for wish in wishes if "any_kernel" not in wish.marks)
    everywhere = _while_there_is_room(changed, tests)
    shares = {name: list(everywhere) for name in names}
    load = dict.fromkeys(names, 0)
    for file in sorted(tests.keys() - set(everywhere), key=lambda file: _number(f"{key} {file}")):
        able = [name for name in names if name in _OF_TOOLS or _TOOL not in file] or names
        name = min(able, key=load.__getitem__)
        shares[name].append(file)
        load[name] += tests[file]
    return {name: tuple(sorted(files)) for name, files in shares.items()}


def changed(count: int = RECENT) -> list[str]:
    """Files of tests/kernel that the newest commits changed, the newest first; a tool stands for its test."""
    found = dict.fromkeys(_test_of(path) for path in _git("log", f"-{count}", "--format=", "--name-only"))
    return [file for file in found if file and (CHECKOUT / file).exists()]


def _while_there_is_room(files: Sequence[str], tests: Mapping[str, int]) -> list[str]:
    taken, room = [], RECENT_TESTS
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
