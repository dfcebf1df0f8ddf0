"""A tool whose columns do not fit what it gives is refused as early as can be, with the remedy."""

from __future__ import annotations

from collections.abc import Iterator  # noqa: TC003 - in annotations that are looked at

import pytest

from pyebpf.errors import InvalidValue
from pyebpf.output.columns import Row
from pyebpf.output.histogram import log2
from pyebpf.tool import Column, EventTool, Histogram, SummaryTool, dataclass
from tests.cli.fakes import Count, SummaryOptions, Tracer

COLUMNS = (Column("SYSCALL", 20, key="name"), Column("COUNT", 8, ">"))
ONE = log2([0, 1, 5])


def tool(snapshot, columns=(), build=Tracer):
    return SummaryTool(
        name="mine", doc="Mine.", tracing="all", options=SummaryOptions, build=build, snapshot=snapshot, columns=columns
    )


def histograms(_tracer, _options) -> Iterator[Histogram]:
    yield ONE


def one(_tracer, _options) -> Histogram:
    return ONE


def mapping(_tracer, _options) -> dict[str, Histogram]:
    return {"read": ONE}


def test_histograms_beside_columns_are_refused_where_the_tool_is_declared():
    """By the annotation: also of one that is not text."""
    with pytest.raises(InvalidValue, match="tool mine: its snapshot gives histograms, and its columns are for records"):
        tool(histograms, COLUMNS)

    def real(_tracer, _options):
        return [ONE]

    real.__annotations__["return"] = list[Histogram]
    with pytest.raises(InvalidValue, match="leave columns out, or give records"):
        tool(real, COLUMNS)
    assert tool(histograms).columns == ()


def test_what_is_no_list_is_refused_where_the_tool_is_declared():
    """A single histogram and a mapping, each with what to write."""
    with pytest.raises(InvalidValue, match=r"gives one histogram, and must give a list: return \[bpf"):
        tool(one)
    with pytest.raises(InvalidValue, match=r"as interval\(\) does of a map with keys: give its values\(\)"):
        tool(mapping)
    with pytest.raises(InvalidValue, match=r"a list of records made of its items\(\)"):
        tool(mapping, COLUMNS)


def test_a_record_that_somebody_else_called_a_histogram_is_none():
    """The name alone does not make it ours; nor is a choice by options looked at before there are options."""
    snapshot = lambda _tracer, _options: [Count("read", 1)]  # noqa: E731 - with globals of its own below
    other = type(snapshot)(snapshot.__code__, {"Histogram": Count, "Count": Count})
    other.__annotations__["return"] = "list[Histogram]"
    with tool(other, COLUMNS).open() as counted:
        assert counted() == [Count("read", 1)]
    assert tool(histograms, lambda _options: ()).name == "mine"


class Watched(Tracer):
    """A tracer that has loaded before it attaches, as BPF."""

    before_attaching = None
    attached = False

    def __enter__(self):
        if self.before_attaching is not None:
            self.before_attaching()
        type(self).attached = True
        return super().__enter__()


@pytest.mark.parametrize(
    ("given", "columns", "message"),
    [
        ([ONE], COLUMNS, "its snapshot gives histograms, and its columns are for records"),
        (ONE, (), "gives one histogram, and must give a list"),
        ({}, COLUMNS, "gives a mapping"),
        ([Count("read", 1)], (), "gives records \\(Count\\), and it has no columns: say which"),
        (7, (), "its snapshot gives 7, and must give a list of histograms, or of records for columns"),
    ],
)
def test_without_an_annotation_it_is_refused_before_anything_is_attached(given, columns, message):
    """The snapshot of what is loaded, and counts nothing yet, tells."""
    Watched.attached = False
    declared = tool(lambda _tracer, _options: given, columns, Watched)
    with pytest.raises(InvalidValue, match=message), declared.open():
        pass
    assert not Watched.attached


def test_other_errors_wait_for_the_first_summary():
    """A snapshot that needs something to be attached, or counted."""
    declared = tool(lambda _tracer, _options: [1 / 0], COLUMNS, Watched)
    with declared.open() as counted, pytest.raises(ZeroDivisionError):
        counted()


def test_nothing_counted_is_nothing_printed():
    """Neither histograms nor records: empty is either."""
    for columns in ((), COLUMNS):
        with tool(lambda _tracer, _options: (), columns, Watched).open() as counted:
            assert counted() == []


def test_a_column_of_what_records_do_not_have():
    """The attribute is named, in every form; a function's own AttributeError stays what it is."""
    row = Row((Column("PID", 7), Column("COUNT", key="count")))
    for write in (row.line, row.values, row.object):
        with pytest.raises(InvalidValue, match=r"column PID: a record \(Count\) has no attribute 'pid': Column"):
            write(Count("read", 1))
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        Row((Column("PID", key=lambda record: record.nothing),)).line(Count("read", 1))


def test_the_command_says_it_in_one_line(capfd):
    """Of events, too."""
    from pyebpf.cli.report import guarded
    from pyebpf.cli.run import run_tool

    @dataclass(frozen=True)
    class Options:
        pass

    declared = EventTool(
        name="mine",
        doc="Mine.",
        tracing="all",
        options=Options,
        build=lambda _options: Tracer(SummaryOptions()),
        records=lambda _tracer, _options, _stop: iter([Count("read", 1)]),
        columns=(Column("PID", 7),),
    )

    assert guarded(lambda arguments: run_tool(declared, arguments), []) == 1

    assert "has no attribute 'pid'" in capfd.readouterr().err
