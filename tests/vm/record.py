"""A pytest plugin for runs whose end nobody may see: each result is written down as soon as it is known.

`-p tests.vm.record --record FILE` writes lines of JSON: first the kernel and how many tests there are, then for each
test that it begins and how it went, at the end pytest's exit status. `--resume` leaves out tests whose results FILE
holds already, and adds to it. `--test-limit SECONDS` fails a test that takes longer. `--plan FILE`, with
--collect-only, writes what tests ask of a machine (`tests.vm.plan`). With `--whole FILE,…` only tests of these files
and parts of files (`tests.vm.parts`) run, and those of others that are marked `every_kernel`.
"""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.vm.parts import Share

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

_AGAIN = 60.0  # seconds that a fixture's end may take after a test was stopped


def pytest_addoption(parser: pytest.Parser) -> None:
    """The plugin's options."""
    group = parser.getgroup("record")
    group.addoption("--record", type=Path, metavar="FILE", help="write results as lines of JSON, at once")
    group.addoption("--resume", action="store_true", help="run only what --record's file has no result of")
    group.addoption("--plan", type=Path, metavar="FILE", help="write what the collected tests ask of a machine")
    group.addoption("--whole", metavar="FILE,...", help="of other files run only what is marked every_kernel")
    group.addoption("--test-limit", type=float, metavar="SECONDS", help="fail a test that takes longer")


def pytest_configure(config: pytest.Config) -> None:
    """Register what the options ask for."""
    if path := config.getoption("--record"):
        with path.open("a" if config.getoption("--resume") else "w") as file:
            file.write("\n" if file.tell() else "")  # the last line may be cut short
        config.pluginmanager.register(_Recorder(path), "recorder")
    if path := config.getoption("--plan"):
        config.pluginmanager.register(_Planner(path), "planner")
    if seconds := config.getoption("--test-limit"):
        config.pluginmanager.register(_Limit(seconds), "limit")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what `--whole` does not name, and with `--resume` what has a result."""
    names = config.getoption("--whole")
    whole = None if names is None else Share(names.split(","))
    done = _results(config.getoption("--record")) if config.getoption("--resume") else set()

    def is_out(item: pytest.Item) -> bool:
        if item.nodeid in done:
            return True
        return whole is not None and not whole.has(item.nodeid) and not _is_for_every_kernel(item)

    out = {item for item in items if is_out(item)}
    if out:
        config.hook.pytest_deselected(items=list(out))
        items[:] = [item for item in items if item not in out]


def _results(path: Path) -> set[str]:
    """The tests that a file of results says the end of."""
    found = set()
    for line in path.read_text().splitlines():
        try:
            found.add(json.loads(line).get("test"))
        except ValueError:  # cut short: the machine was lost while it wrote
            continue
    return found


def _is_for_every_kernel(item: pytest.Item) -> bool:
    return item.get_closest_marker("every_kernel") is not None


class _Recorder:
    """Writes the lines."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._current: dict[str, Any] = {}

    def _write(self, line: dict[str, Any]) -> None:
        # Opened each time, so that no test finds a descriptor of ours, and a machine that is killed loses nothing.
        with self._path.open("a") as file:
            file.write(json.dumps(line, ensure_ascii=False) + "\n")

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self._write({"kernel": os.uname().release, "tests": len(session.items)})

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if not report.passed:
            self._write({"test": report.nodeid, "outcome": report.outcome, "reason": _reason(report), "seconds": 0.0})

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self._write({"begin": nodeid})
        self._current = {"test": nodeid, "outcome": "passed", "reason": "", "seconds": 0.0}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        current = self._current
        current["seconds"] = round(current["seconds"] + report.duration, 3)
        if report.passed or current["outcome"] == "failed" or hasattr(report, "wasxfail"):
            return
        current["outcome"], current["reason"] = report.outcome, _reason(report)

    def pytest_runtest_logfinish(self) -> None:
        self._write(self._current)

    def pytest_sessionfinish(self, exitstatus: int) -> None:
        self._write({"end": int(exitstatus)})


def _reason(report: pytest.CollectReport | pytest.TestReport) -> str:
    """One line: a skip's own words, an exception's last line as pytest sums it up."""
    what = report.longrepr
    if isinstance(what, tuple):  # a skip: path, line, "Skipped: REASON"
        return str(what[2]).removeprefix("Skipped: ")
    crash = getattr(what, "reprcrash", None)
    text = str(what if crash is None else crash.message).strip()
    return text.partition("\n")[0]


class _Planner:
    """Writes one object for each test with a mark that a machine heeds."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self._path.write_text(json.dumps([_wishes(item) for item in session.items]))


def _wishes(item: pytest.Item) -> dict[str, Any]:
    modules: list[str] = []
    devices: list[str] = []
    for mark in item.iter_markers("machine"):
        modules += mark.kwargs.get("modules", ())
        devices += mark.kwargs.get("devices", ())
    marks = sorted({mark.name for mark in item.iter_markers()})
    return {"test": item.nodeid, "marks": marks, "modules": modules, "devices": devices}


class _Limit:
    """Fails a test after some seconds, by a signal that ends most kinds of waiting."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_protocol(self) -> Iterator[None]:
        before = signal.signal(signal.SIGALRM, self._late)
        signal.setitimer(signal.ITIMER_REAL, self._seconds, _AGAIN)
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)

    def _late(self, _: int, frame: FrameType | None) -> None:
        place = f", in {frame.f_code.co_filename}:{frame.f_lineno}" if frame else ""
        pytest.fail(f"not finished after {self._seconds:g} s{place}")
