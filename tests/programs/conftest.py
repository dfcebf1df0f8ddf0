"""The tools, and the kernels whose facts are recorded."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyebpf.target import RecordedTarget

KERNELS = sorted(Path(__file__).with_name("kernels").glob("*.json"))


@pytest.fixture(scope="session", params=KERNELS, ids=[path.stem for path in KERNELS])
def kernel(request):
    """The facts that the tools ask for, of one kernel."""
    return RecordedTarget.from_json(request.param.read_text())


class FakeMap:
    """A map that was read: each call of `interval` gives the next of `intervals`."""

    def __init__(self, *intervals):
        self._intervals = list(intervals)

    def interval(self):
        return self._intervals.pop(0)


@pytest.fixture
def fake_map():
    return FakeMap
