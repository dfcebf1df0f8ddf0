"""Entering and leaving `with bpf:`: once at a time, and again afterwards."""

from __future__ import annotations

import os

import pytest

from pyebpf import BPF, InvalidValue, NotLoaded, pid, u32, u64
from pyebpf.testing import Simulation
from tests.dsl.fake_target import FakeTarget

ME = os.getpid()


@pytest.fixture
def counting() -> BPF:
    """Counts this process's getppid(2)."""
    bpf = BPF()
    calls = bpf.hash(key=u32, value=u64, name="calls")

    @bpf.tracepoint("syscalls:sys_enter_getppid")
    def on_call() -> None:
        if pid() == ME:
            calls[0] += 1

    return bpf


def call(times: int) -> None:
    for _ in range(times):
        os.getppid()


def test_inside_itself_it_is_refused(counting):
    """With the fix; the outer one goes on as if nothing had been."""
    with counting as bpf:
        call(3)
        with pytest.raises(InvalidValue, match="inside a `with` that will close it: leave out the inner `with`"):
            bpf.__enter__()
        call(4)
        assert bpf["calls"][0] == 7
    with pytest.raises(NotLoaded):
        len(counting["calls"])


def test_it_is_entered_again_after_its_end(counting):
    """After `with`, after `close`, and after a failure: each time anew."""
    for number in (2, 3):
        with counting as bpf:
            call(number)
            assert bpf["calls"][0] == number
    with counting as bpf:
        bpf.close()
        with bpf:
            call(5)
            assert bpf["calls"][0] == 5
    with pytest.raises(ZeroDivisionError), counting:
        raise ZeroDivisionError
    counting.load()
    with counting as bpf:  # what was loaded by hand is attached, and closed at the end
        call(11)
        assert bpf["calls"][0] == 11
    with pytest.raises(NotLoaded):
        len(counting["calls"])


def test_what_is_loaded_is_not_simulated(counting):
    """The simulation would lose what the kernel holds."""
    with counting as bpf:
        with pytest.raises(InvalidValue, match="this is loaded, or simulated already"):
            Simulation(bpf, FakeTarget()).__enter__()
        call(3)
        assert bpf["calls"][0] == 3


def test_nothing_is_declared_once_it_is_loaded(counting):
    """Neither a map, nor an aggregation, nor a probe, until it is closed: they would not be loaded."""
    message = "declared after this BPF was loaded.*in a new BPF"
    counting.load()
    with pytest.raises(InvalidValue, match=f"the map late is {message}"):
        counting.hash(key=u32, value=u64, name="late")
    with pytest.raises(InvalidValue, match=f"this map is {message}"):
        counting.log2_hist()
    with pytest.raises(InvalidValue, match=f"@bpf.tracepoint is {message}"):

        @counting.tracepoint("syscalls:sys_enter_getppid")
        def late() -> None:
            pass

    with pytest.raises(InvalidValue, match=f"@bpf.syscall is {message}"):

        @counting.syscall()
        def later() -> int:
            return 0

    assert [len(counting.maps), len(counting.probes)] == [1, 1]
    counting.close()
    counting.log2_hist(name="late")
    with counting:
        assert counting["late"].snapshot().total == 0
