"""Which tests run in which machine, and what they ask of it: read from the tests before it boots.

A plain kernel runs all of tests/kernel but what is marked `any_kernel`, whose result cannot depend on the kernel; a
flavour runs what is marked `every_kernel`. `tests.vm.shards` deals a part of that to each. `machine(modules=(…),
devices=(…))` marks what a test asks for: a machine is started once, with all that its tests ask for.
"""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tests.vm.devices import DEVICES
from tests.vm.kernels import ARM64, ARM64_16K, FLAVOURED, FLAVOURS, SUITES
from tests.vm.parts import Share

if TYPE_CHECKING:
    from collections.abc import Sequence

CHECKOUT = Path(__file__).resolve().parents[2]
TESTS = ("tests/kernel",)
MODULES = ("loop",)  # what tests use and the kernel does not load by itself when asked for


@dataclass(frozen=True, slots=True)
class Run:
    """A kernel and its share of the tests: a pytest `-m` expression, a limit in seconds for all and for one test.

    `thread` is how QEMU emulates its processors, `architecture` one of `tests.vm.platforms`. Where `whole` is given, of
    files and parts (`tests.vm.parts`) that it does not name only tests marked `every_kernel` are taken.
    """

    series: str
    flavour: str
    select: str
    limit: float
    test_limit: float = 300
    thread: str = "multi"
    whole: tuple[str, ...] | None = None
    architecture: str = "amd64"

    def takes(self, wish: Wishes) -> bool:
        """Whether a test is among them."""
        if not self.select:
            return True
        if "every_kernel" in wish.marks:
            return True
        if self.flavour or "any_kernel" in wish.marks:
            return False
        return self.whole is None or _share(self.whole).has(wish.test)


_share = functools.cache(Share)


def _run(series: str, flavour: str, architecture: str = "amd64") -> Run:
    if architecture != "amd64":
        select, limit = ("every_kernel", 1800) if flavour else ("not any_kernel", 5400)
        return Run(series, flavour, select, limit, 600, architecture=architecture)
    if not flavour:
        return Run(series, "", "not any_kernel", 2300)
    return Run(series, flavour, "every_kernel", 900, thread=short_thread(series))


def short_thread(series: str) -> str:
    """How a short run's processors are emulated.

    Linux 6.12 patches its own code so often that processors emulated at the same time have met half of a change: a
    panic ("int3" in __schedule()). In turn takes two to three times as long, which only the short runs can afford.
    """
    return "single" if series == "6.12" else "multi"


_PAIRS = [
    *((series, "") for series in SUITES),
    *((series, flavour) for flavour in FLAVOURS[1:] for series in FLAVOURED),
]
# Plain ones first: they take longest.
RUNS = {f"{series}{flavour and '-'}{flavour}": _run(series, flavour) for series, flavour in _PAIRS}
RUNS |= {f"{series}-arm64": _run(series, "", "arm64") for series in ARM64}
RUNS |= {f"{series}-arm64-16k": _run(series, "16k", "arm64") for series in ARM64_16K}
"""By the name that `--kernel` takes: 5.10, 6.1, 6.12, …, 6.1-rt, …, 6.12-arm64, 6.12-arm64-16k"""
DEALT = tuple(name for name, run in RUNS.items() if run.series in FLAVOURED and run.architecture == "amd64")
"""Those that run where none is named, and have a share of each commit's tests: the ones that the whole suite is known
to pass on."""
OFFERED = ("6.12-arm64", "7.3", "6.18")
"""Those that `--core` and `--shard` run, too, wherever apt reaches the suites that have them.

Not 5.10: of three runs one ended in a lockup of both emulated processors.
"""


@dataclass(frozen=True, slots=True)
class Wishes:
    """One test, as pytest names it, its marks, and the modules and devices that it asks for."""

    test: str
    marks: frozenset[str]
    modules: tuple[str, ...]
    devices: tuple[str, ...]

    @property
    def file(self) -> str:
        """The file that it is in."""
        return self.test.partition("::")[0]


def collect(tests: Sequence[str]) -> list[Wishes]:
    """Ask pytest. Collecting also leaves the bytecode of test modules, which guests would compile anew each time.

    What is wrong with a test module is told by the run itself.
    """
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    with tempfile.TemporaryDirectory(prefix="pyebpf-plan-") as folder:
        plan = Path(folder, "plan")
        subprocess.run(
            [
                *(sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider"),
                *("-p", "tests.vm.record", "--plan", str(plan), *tests),
            ],
            cwd=CHECKOUT,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            check=False,
        )
        items = json.loads(plan.read_text()) if plan.exists() else []
    return [
        Wishes(item["test"], frozenset(item["marks"]), tuple(item["modules"]), tuple(item["devices"])) for item in items
    ]


def union(run: Run, wishes: Sequence[Wishes]) -> tuple[list[str], list[str]]:
    """The devices and the modules for all tests that the run takes, each once."""
    taken = [wish for wish in wishes if run.takes(wish)]
    devices = dict.fromkeys(device for wish in taken for device in wish.devices)
    modules = dict.fromkeys((*MODULES, *(module for wish in taken for module in wish.modules)))
    return list(devices), list(modules)


def files(run: Run, wishes: Sequence[Wishes]) -> list[str]:
    """The files that have tests for the run, so that a guest, which is slow, imports no others."""
    return list(dict.fromkeys(wish.file for wish in wishes if run.takes(wish)))


def drivers(devices: Sequence[str]) -> list[str]:
    """The modules that drive some devices."""
    return list(dict.fromkeys(module for device in devices for module in DEVICES[device].modules))
