"""Names of maps longer than the kernel's, with any characters: found by them everywhere."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pyebpf import BPF, Struct, pid, u32, u64
from pyebpf.asm import kernel_text, parse
from pyebpf.cli.drops import in_words
from pyebpf.errors import NotFound
from pyebpf.in_flight import InFlight
from pyebpf.tool import Column, EventTool, SummaryTool, counts_of, dataclass, events_of, histograms_of
from tests.support.needs import needs

ME = os.getpid()
RECORDS = "calls: by process, newest"
COUNTS = "counts of calls/process"
SIZES = "größen_der_aufrufe_nach_prozess"


class Call(Struct):
    pid: u32


@dataclass(frozen=True)
class Options:
    """None."""


def build(_: Options | None = None) -> BPF:
    bpf = BPF()
    records = bpf.ringbuf(Call, name=RECORDS, size=4096)
    counts = bpf.counter(key=Call, name=COUNTS)
    sizes = bpf.log2_hist(key=Call, name=SIZES)

    @bpf.tracepoint("syscalls:sys_enter_getppid")
    def probe() -> None:
        if pid() == ME:
            records.emit(Call(pid=pid()))
            counts[Call(pid=pid())].add()
            sizes[Call(pid=pid())].add(7)

    return bpf


TOOL = {"name": "calls", "doc": "Calls.", "tracing": "calls", "options": Options, "build": build}


def test_what_reads_by_name_takes_the_declared_one():
    """`bpf[name]`, `loaded_map`, `events_of`, `counts_of`, `histograms_of` and drop labels."""
    with build() as bpf:
        for _ in range(1009):
            os.getppid()
        assert bpf[COUNTS].snapshot() == {Call(pid=ME): 1009}
        assert bpf[SIZES].snapshot()[Call(pid=ME)].total == 1009
        assert bpf.loaded_map(COUNTS).info().name == "counts_of_calls"
        assert bpf.loaded_map(SIZES).info().name == "gr__en_der_aufr"
        lost = in_words(bpf.dropped, {RECORDS: "calls"})
        assert len(bpf[RECORDS].poll(0)) + lost["calls: ring buffer full"] == 1009
        with pytest.raises(NotFound, match=f"no map is called 'counts_of_calls' .did you mean {COUNTS}"):
            bpf["counts_of_calls"]
    with EventTool(**TOOL, records=events_of(RECORDS), record=Call, columns=(Column("PID"),)).open() as calls:
        os.getppid()
        assert next(calls).pid == ME
    counts = SummaryTool(**TOOL, snapshot=counts_of(COUNTS), columns=(Column("PID"), Column("COUNT")))
    with counts.open() as snapshot:
        os.getppid()
        assert [(row.pid, row.count) for row in snapshot()] == [(ME, 1)]
    with SummaryTool(**TOOL, snapshot=histograms_of(SIZES)).open() as snapshot:
        os.getppid()
        assert [each.total for each in snapshot()] == [1]


def test_a_module_with_such_names_is_pinned_and_reopened(unmounted_bpffs: Path):
    """Files of pins have the kernel's names."""
    needs("attach:perf")
    path = f"{unmounted_bpffs}/names"
    with build() as bpf:
        bpf.pin(path)
    try:
        assert {"map_1_counts_of_calls", "map_0_calls__by_proce"} <= {each.name for each in Path(path).iterdir()}
        os.getppid()
        with build().reopen(path) as bpf:
            assert bpf[COUNTS].snapshot() == {Call(pid=ME): 1}
    finally:
        bpf = build().reopen(path)
        bpf.unpin()
        bpf.close()


def test_a_listing_with_such_names_reads_back():
    """Names with blanks are quoted."""
    (spec,) = build().specs().programs
    loads = [each for each in spec.code.instructions if each.op.name == "lddw_map" and not each.symbol.startswith(".")]
    assert {each.symbol for each in loads} == {RECORDS, COUNTS, SIZES}
    assert [each.symbol for each in parse("".join(f"{kernel_text(each)}\n" for each in loads))] == [
        each.symbol for each in loads
    ]


def test_two_followers_in_one_module():
    """Each InFlight has a map of its own; a name that is given is kept."""
    bpf = BPF()
    found = [InFlight(bpf), InFlight(bpf), InFlight(bpf, name="requests of the second disk"), InFlight(bpf)]
    assert [each.began.name for each in found] == [
        "in_flight", "in_flight_2", "requests of the second disk", "in_flight_3",
    ]  # fmt: skip


def test_an_arena_has_any_name():
    """Also one that hidden maps have with a dot."""
    needs("isa:addr_space_cast")
    bpf = BPF()
    memory = bpf.arena(pages=1, name="drops")
    counts = bpf.hash(key=u32, value=u64, name="counts", size=1)

    @bpf.tracepoint("syscalls:sys_enter_getppid")
    def probe() -> None:
        memory.at(0, Call).pid += 1
        counts[pid()] += 1

    assert {".drops", "drops"} <= {each.name for each in bpf.specs().maps}
