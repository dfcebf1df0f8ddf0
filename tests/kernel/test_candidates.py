"""Several candidates for a request: the kernel's refusal of one is remembered, and the next one is taken."""

from __future__ import annotations

import mmap

import pytest

from pyebpf import BPF, u64
from pyebpf.attach.decorators import Decorators, attachments
from pyebpf.attach.perf_events import PerfEvent
from pyebpf.attach.tracepoints import Tracepoint
from pyebpf.errors import NotFound, NotSupported
from pyebpf.module.probe import Candidate
from tests.support.needs import lacks

HARDWARE, CPU_CYCLES = 0, 0
SOFTWARE, PAGE_FAULTS = 1, 2
PERIOD = 1_000_000_007
FAULTS = 23

cycles = Candidate("hardware", attachments([PerfEvent(HARDWARE, CPU_CYCLES, period=PERIOD)]))
faults = Candidate("software", attachments([PerfEvent(SOFTWARE, PAGE_FAULTS, period=1)]))


@pytest.fixture(autouse=True)
def _without_counters():
    """These tests need an event that this host refuses: hardware counters, which it may have."""
    lacks("attach:perf_hardware")


def counting(*candidates: Candidate) -> tuple[BPF, object]:
    """A module whose probe counts what one of `candidates` gives it."""
    bpf = BPF()
    count = bpf.array(value=u64)

    @Decorators(bpf)._decorator("either", ("this", "that"), candidates)
    def probe() -> None:
        count[0] += 1

    return bpf, count


def test_a_refused_candidate_gives_place_to_the_next():
    """The event that the host lacks is tried and noted; the other counts."""
    bpf, count = counting(cycles, faults)
    with bpf:
        before = count[0]
        memory = mmap.mmap(-1, FAULTS * mmap.PAGESIZE)
        for page in range(FAULTS):
            memory[page * mmap.PAGESIZE] = 1
        memory.close()
        assert count[0] - before >= FAULTS
        (choice,) = bpf.choices
    assert choice.candidate == "software"
    ((name, reason),) = choice.rejected
    assert name == "hardware"
    assert "no hardware counters" in reason


def test_candidates_whose_feature_is_missing_are_not_tried():
    """What features know to be missing is excluded out before anything is compiled."""
    bpf, _ = counting(Candidate("never", cycles.attachments, needs=("isa:v1", "helper:loop@lirc_mode2")), faults)
    with bpf:
        (choice,) = bpf.choices
    assert choice.rejected == (("never", "this kernel lacks helper:loop@lirc_mode2"),)


def test_no_candidate_left_is_one_line_with_every_reason():
    """The error names the request, each candidate and why it is out."""
    bpf, _ = counting(cycles, Candidate("again", cycles.attachments))
    with pytest.raises(NotSupported) as error, bpf:
        pass
    assert str(error.value).startswith("@either('this', 'that') on probe: no candidate works here: hardware: ")
    assert "; again: " in str(error.value)
    assert "\n" not in str(error.value)
    told = error.value.of_tool
    assert told.startswith("this, that cannot be traced: ")
    assert told.count(told.removeprefix("this, that cannot be traced: ")) == 1


def test_a_target_that_does_not_exist_is_an_error_at_once():
    """Only what the kernel does not support or permit moves on."""
    bpf, _ = counting(Candidate("trace", attachments([Tracepoint("sched", "no_such_event")])), faults)
    with pytest.raises(NotFound, match="no_such_event"), bpf:
        pass


def test_a_single_candidate_keeps_its_own_error():
    """Where there is no choice, nothing is said of candidates."""
    bpf, _ = counting(cycles)
    with (
        pytest.raises(NotSupported, match=r"^perf event cpu-cycles every 1000000007: this host has no hardware"),
        bpf,
    ):
        pass


def test_loading_and_attaching_apart_take_no_other_candidate():
    """A map may have been filled between, so attaching reports what it meets."""
    bpf, _ = counting(cycles, faults)
    bpf.load()
    try:
        with pytest.raises(NotSupported):
            bpf.attach()
    finally:
        bpf.close()
