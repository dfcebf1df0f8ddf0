"""A probe's "no" on a kernel that is newer than the feature is a failure."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support import releases
from tests.support.needs import needs
from tests.support.releases import UNPOLICED, brought_by, overdue

KERNEL_TESTS = Path(__file__).resolve().parents[1] / "kernel"
_CALL = re.compile(r"\bneeds\(([^()]*)\)")
_NAME = re.compile(r"(?<!f)[\"']((?:isa|map|program|helper|kfunc|attach):[a-z0-9_@]+)[\"']")


@pytest.fixture
def machine(monkeypatch):
    """A function that makes this a machine of the test bed with some release, whose kernel lacks everything."""
    from pyebpf.features import Features, Support

    def become(release: tuple[int, int], architecture: str = "x86_64") -> None:
        monkeypatch.setenv("PYEBPF_VM", "x")
        monkeypatch.setattr(releases, "kernel_release", lambda: release)
        monkeypatch.setattr(releases.platform, "machine", lambda: architecture)
        monkeypatch.setattr(Features, "ask", lambda *_: Support.NO)

    return become


@pytest.mark.parametrize(
    ("name", "release"),
    [("isa:may_goto", (6, 9)), ("attach:fentry", (5, 10)), ("map:arena", (6, 9)), ("attach:kprobe_multi", (6, 12))],
)
def test_a_no_of_a_newer_kernel_fails(machine, name, release):
    """From its release on; before, the test is skipped."""
    machine(release)
    with pytest.raises(pytest.fail.Exception, match=rf"probe {name}: no, but Linux \S+ has it since "):
        needs(name)
    machine((release[0], release[1] - 1))
    with pytest.raises(pytest.skip.Exception, match=rf"^probe {name}: no$"):
        needs(name)


def test_other_machines_may_lack_what_they_like(machine, monkeypatch):
    """A developer's kernel is built as somebody wanted it."""
    machine((7, 3))
    monkeypatch.delenv("PYEBPF_VM")
    with pytest.raises(pytest.skip.Exception):
        needs("isa:may_goto")


def test_arm64_has_some_later(machine):
    """Trampolines and kprobe.multi."""
    machine((6, 1), "aarch64")
    assert overdue("attach:fentry") is None
    machine((6, 12), "aarch64")
    assert overdue("attach:fentry")
    assert overdue("attach:kprobe_multi") is None


def test_each_feature_that_tests_ask_for_has_a_release():
    """Or a reason why none promises it."""
    asked = {
        name
        for path in KERNEL_TESTS.glob("*.py")
        for call in _CALL.findall(path.read_text())
        for name in _NAME.findall(call)
    }
    assert len(asked) > 30
    assert sorted(name for name in asked if brought_by(name) is None and name not in UNPOLICED) == []
