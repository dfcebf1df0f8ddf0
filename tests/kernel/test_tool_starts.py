"""A summary tool that can't print what it counts is refused before its probes are attached."""

from __future__ import annotations

import os

import pytest

from pyebpf import BPF, Struct, char, comm, field, pid, u32, u64
from pyebpf.errors import InvalidValue, NotLoaded
from pyebpf.tool import Column, SummaryTool, dataclass


@dataclass(frozen=True)
class Options:
    pass


class Call(Struct):
    number: u64
    comm: str = field(char[16])


class Numbers(Struct):
    number: u64
    calls: u64


def tool(snapshot, columns=()):
    """A tool of three maps, and its programs as they are built."""
    built: list[BPF] = []

    def build(_options: Options) -> BPF:
        bpf = BPF()
        built.append(bpf)
        single = bpf.log2_hist(name="single")
        keyed = bpf.log2_hist(key=u32, name="keyed")
        calls = bpf.hash(key=u32, value=Call, name="calls")
        numbers = bpf.hash(key=u32, value=Numbers, name="numbers")

        @bpf.raw_tracepoint("sys_enter")
        def on_call(id: int) -> None:  # noqa: A002 - the tracepoint's word
            single.add(id)
            keyed[pid()].add(id)
            calls[pid()] = Call(number=id, comm=comm())
            numbers.add(pid(), Numbers(number=id, calls=0))
            entry = numbers.get(pid())
            if entry is not None:
                entry.calls += 1

        return bpf

    made = SummaryTool(
        name="mine", doc="Mine.", tracing="all", options=Options, build=build, snapshot=snapshot, columns=columns
    )
    return made, built


@pytest.mark.parametrize(
    ("name", "columns", "message"),
    [
        ("single", (), "gives one histogram, and must give a list"),
        ("single", (Column("A"),), "its columns are for records"),
        ("keyed", (), r"gives a mapping.*: give its values\(\)"),
        ("numbers", (Column("A"),), r"records made of its items\(\)"),
        ("calls", (Column("A"),), "Call.comm is not an integer but char"),
    ],
)
def test_what_cannot_be_printed_is_refused_at_the_start(name, columns, message):
    """By an interval of nothing, which the loaded maps give; nothing stays loaded, and nothing was attached."""
    made, built = tool(lambda bpf, _options: bpf[name].interval(), columns)
    with pytest.raises(InvalidValue, match=message), made.open():
        pass
    with pytest.raises(NotLoaded):
        _ = built[0].attachments


def test_what_is_counted_first_is_not_lost_by_the_look():
    """What came since `open` is in the first interval."""
    made, _ = tool(lambda bpf, _options: bpf["numbers"].interval().values(), (Column("CALLS"),))
    with made.open() as snapshot:
        os.getppid()
        assert snapshot()
