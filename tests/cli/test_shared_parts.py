"""Parts that tools share: modes, times, orders, columns, records and options."""

from __future__ import annotations

import errno
from typing import NamedTuple

import pytest

from pyebpf.aggregations import Stats
from pyebpf.errors import InvalidValue
from pyebpf.output.columns import Row
from pyebpf.output.histogram import log2
from pyebpf.tasks import Call, Lifespan
from pyebpf.tool import (
    Column,
    ConnectionOptions,
    EventLines,
    EventMode,
    EventTool,
    NoOptions,
    SummaryMode,
    SummaryTool,
    TaskOptions,
    VersionOptions,
    counts_of,
    dataclass,
    elapsed_column,
    ends_columns,
    events_of,
    flag,
    histograms_of,
    lifespan_column,
    result_column,
)
from tests.cli.fakes import Tracer


@dataclass(frozen=True)
class Options:
    counts: bool = flag("-c", "--counts", help="counts")
    others: bool = flag("-o", "--others", help="others")


def tool(**changes):
    declared = {
        "name": "shared",
        "doc": "Shared.",
        "tracing": "parts",
        "options": Options,
        "build": lambda _: Tracer(),
        "drop_labels": {"events": "parts"},
        "records": events_of("events", "began", "ended"),
        "columns": (Column("PID"),),
    }
    return EventTool(**{**declared, **changes})


def test_modes_have_the_rest_from_their_tool():
    """Name, help, options, probes and drop labels; what a mode declares is its own."""
    columns = (Column("COUNT"),)
    made = tool(
        modes={
            "counts": SummaryMode(snapshot=counts_of("events"), columns=columns, screen=True),
            "others": EventMode(records=events_of("others", "time"), sentence=str),
        }
    )
    counts, others = made.mode(Options(counts=True)), made.mode(Options(others=True))
    assert isinstance(counts, SummaryTool)
    assert isinstance(others, EventTool)
    assert made.mode(Options()) is made
    for mode in (counts, others):
        assert (mode.name, mode.doc, mode.tracing) == ("shared", "Shared.", "parts")
        assert (mode.options, mode.build, mode.drop_labels) == (Options, made.build, made.drop_labels)
    assert (counts.columns, counts.screen) == (columns, True)
    assert (others.time, others.sentence) == ("time", str)


def test_the_time_of_events_is_the_last_that_they_name():
    """Unless the tool names another, or neither names one; of lines between summaries, too."""
    assert tool().time == "ended"
    assert tool(time="began").time == "began"
    assert tool(records=events_of("events")).time == ""
    assert tool(records=lambda *_: iter(())).time == ""
    assert EventLines(records=events_of("events", "time"), columns=()).time == "time"


class Interval:
    def __init__(self, found):
        self._found = found

    def interval(self):
        return self._found


class Key(NamedTuple):
    port: int
    way: int


def test_rows_in_the_order_of_their_keys():
    """`by_key`, of records and of numbers, whose one label is made of them; without it the most is last."""
    maps = {"calls": Interval({Key(9, 0): 5, Key(2, 1): 7, Key(2, 0): 6}), "events": Interval({3: 1, 1: 2})}
    rows = counts_of("calls", by_key=True, way=("in", "out").__getitem__)(maps, None)
    assert [(row.port, row.way, row.count) for row in rows] == [(2, "in", 6), (2, "out", 7), (9, "in", 5)]
    assert [row.count for row in counts_of("calls")(maps, None)] == [5, 6, 7]
    rows = counts_of("events", by_key=True, event="abcd".__getitem__)(maps, None)
    assert [(row.event, row.count) for row in rows] == [("b", 2), ("d", 1)]


def test_a_screen_has_the_most_first():
    """It has room for the first rows alone; in the order of their keys rows stay."""
    calls = {"events": Interval({3: 1, 1: 5, 2: 7})}
    columns = (Column("KEY"), Column("COUNT"))
    for by_key, expected in ((False, [7, 5, 1]), (True, [5, 7, 1])):
        mode = SummaryMode(snapshot=counts_of("events", by_key=by_key), columns=columns, screen=True)
        made = tool(modes={"counts": mode}).mode(Options(counts=True))
        assert [row.count for row in made.counted(calls, Options())] == expected


def test_rows_of_statistics_have_totals():
    """The largest total is last; a part that is shown as None stays in the row, and is None."""
    found = {Key(0, 0): Stats(count=3, total=10, minimum=1, maximum=9), Key(5, 1): Stats(1, 4, 4, 4)}
    rows = counts_of("calls", port=lambda port: port or None)({"calls": Interval(found)}, None)
    assert [(row.port, row.count, row.total) for row in rows] == [(5, 1, 4), (None, 3, 10)]
    assert rows[0].as_dict() == {"key": [5, 1], "port": 5, "count": 1, "total": 4}


def test_histograms_in_the_order_of_their_keys():
    """By the parts of the key; a part that is shown as None is left out."""
    found = {
        number: log2([0] * number + [1], labels={"device": device, "size": size})
        for number, (device, size) in enumerate([("", 1), ("eth0", 0), ("", 0)])
    }
    shown = histograms_of("sizes", by_key=True, device=lambda name: name or None, size="xy".__getitem__)(
        {"sizes": Interval(found)}, None
    )
    assert [each.labels for each in shown] == [{"size": "x"}, {"size": "y"}, {"device": "eth0", "size": "x"}]


def test_columns_of_results_and_times():
    """The error's name or a word for success; milliseconds; seconds since the first line of a run."""
    failed, succeeded = Call(-errno.ENOENT, time=1, pid=7, comm="a"), Call(3, time=2, pid=7, comm="a")
    row = Row([result_column()])
    assert [row.line(each) for each in (failed, succeeded)] == ["ENOENT", "Success"]
    assert [row.object(each)["error"] for each in (failed, succeeded)] == ["ENOENT", None]
    assert Row([lifespan_column()]).line(Lifespan(began=1, ended=12_340_001, pid=7, comm="a")) == "12.34"
    row = Row([elapsed_column("time")])
    assert [row.object(each)["elapsed_ns"] for each in (failed, succeeded)] == [0, 1]
    assert Row([elapsed_column("time")]).object(succeeded)["elapsed_ns"] == 0


def test_ends_begin_with_either():
    """The local end as a rule."""
    assert [column.name for column in ends_columns()] == ["LADDR", "LPORT", "RADDR", "RPORT"]
    assert [column.name for column in ends_columns(remote_first=True)] == ["RADDR", "RPORT", "LADDR", "LPORT"]


@pytest.mark.parametrize(
    ("given", "version", "versions"),
    [
        ({}, None, (4, 6)),
        ({"ipv4": True}, 4, (4,)),
        ({"ipv6": True}, 6, (6,)),
        ({"ipv4": True, "ipv6": True}, None, (4, 6)),
    ],
)
def test_versions(given, version, versions):
    """Both with both options, as with none."""
    for kind in (VersionOptions, ConnectionOptions):
        assert (kind(**given).version, kind(**given).versions) == (version, versions)
    assert NoOptions() == NoOptions()


def test_columns_that_cannot_be_printed_are_refused_when_they_are_made():
    """And tools whose columns and modes name options that there are not."""
    with pytest.raises(InvalidValue, match="column FD: scale=0, width=4: give a scale of 1 or more"):
        Column("FD", 4, scale=0)
    with pytest.raises(InvalidValue, match=r"column FD: align='\?': give '<' or '>'"):
        Column("FD", 4, align="?")
    tool = {"name": "t", "doc": "T.", "tracing": "t", "options": TaskOptions, "build": lambda _: None, "record": Call}
    with pytest.raises(InvalidValue, match=r"tool t: a column's printed names com, no field of its options"):
        EventTool(**tool, columns=(Column("PID", 7, printed="com"),))
    with pytest.raises(InvalidValue, match="tool t: modes names counts, no field of its options"):
        EventTool(**tool, columns=(Column("PID", 7),), modes={"counts": SummaryMode(snapshot=list)})
    with pytest.raises(InvalidValue, match="say where the events come from: record=CLASS"):
        EventTool(**{**tool, "record": None}, columns=(Column("PID", 7),))


def test_seconds_since_the_first_event_begin_anew():
    """With each run, though the column stands in the tool once; an option may print it."""
    tool = EventTool(
        name="t",
        doc="T.",
        tracing="t",
        options=TaskOptions,
        build=lambda _: None,
        record=Call,
        columns=(elapsed_column("time", printed="pid"), Column("PID", 7)),
    )
    for _ in range(2):
        row = Row(tool.columns_for(TaskOptions(pid=1)))
        times = (10, 25)
        assert [row.object(Call(0, time=at, pid=7, comm="a"))["elapsed_ns"] for at in times] == [0, 15]
    assert [column.printed for column in tool.columns_for(TaskOptions())] == [False, True]
