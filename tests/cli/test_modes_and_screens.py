"""Tools of several modes, and screens: which options there are, what is printed where."""

from __future__ import annotations

import io
import json
from typing import NamedTuple

import pytest

from pyebpf import BPF, u32
from pyebpf.cli.parser import parse
from pyebpf.cli.report import UsageError
from pyebpf.cli.run import run_tool
from pyebpf.cli.schema import schema_of
from pyebpf.dataclass import replace
from pyebpf.errors import InvalidValue
from pyebpf.output.columns import Row
from pyebpf.output.histogram import Bucket, Histogram, log2
from pyebpf.output.schema import histogram_schema
from pyebpf.output.sink import Sink
from pyebpf.output.writers import histogram_writer
from pyebpf.tool import (
    KERNEL_STACK,
    USER_STACK,
    Column,
    EventTool,
    SummaryTool,
    counts_of,
    dataclass,
    flag,
    histograms_of,
    load_average,
)
from pyebpf.tool.snapshots import Counted
from tests.cli.fakes import Count, EventOptions, Open, Tracer, opens
from tests.support.json_schema import faults


@dataclass(frozen=True)
class Options(EventOptions):
    counts: bool = flag("-c", "--counts", help="count, by process")


def test_an_option_prints_a_column():
    """The field that `printed` names; JSON and CSV have it in any case."""
    tool = SummaryTool(
        name="named",
        doc="Named.",
        tracing="opens",
        options=Options,
        build=Tracer,
        snapshot=rows,
        columns=(Column("NAME", 8), Column("COUNT", 6, printed="counts")),
        record=Count,
    )
    for counts in (False, True):
        columns = tool.columns_for(Options(counts=counts))
        assert [column.printed for column in columns] == [True, counts]
        assert [column.field_name() for column in columns] == ["name", "count"]


def rows(_tracer, _options):
    return [Count(f"row{number}", number) for number in range(30)]


COUNTS = SummaryTool(
    name="both",
    doc="Both.",
    tracing="opens",
    options=Options,
    build=Tracer,
    snapshot=rows,
    columns=(Column("NAME", 8), Column("COUNT", 6, ">")),
    record=Count,
)
BOTH = EventTool(
    name="both",
    doc="Both.",
    tracing="opens",
    options=Options,
    build=Tracer,
    records=opens,
    columns=(Column("PID", 7), Column("PATH")),
    record=Open,
    modes={"counts": COUNTS},
)
TOP = SummaryTool(
    name="top",
    doc="Top.",
    tracing="opens",
    options=EventOptions,
    build=Tracer,
    snapshot=rows,
    columns=(Column("NAME", 8), Column("COUNT", 6, ">")),
    record=Count,
    screen=True,
    heading=load_average,
    footer=lambda _tracer, _options: ["the end"],
)


def printed(capsys, tool, *arguments):
    assert run_tool(tool, list(arguments)) == 0
    return capsys.readouterr().out


def test_an_option_chooses_the_mode(capsys):
    """Lines without it, a table with it; the fields of JSON and the schema follow."""
    out = printed(capsys, BOTH, "-c", "--json", "0.01", "1")
    first = json.loads(out.splitlines()[0])
    assert (
        list(first)
        == ["time", "name", "count"]
        == list(schema_of(BOTH, Options(counts=True))["oneOf"][0]["properties"])
    )
    assert list(schema_of(BOTH, Options())["oneOf"][0]["properties"]) == ["time", "pid", "path"]
    with BOTH.open(counts=True) as snapshot:
        assert len(snapshot()) == 30


def test_an_interval_is_for_the_mode_that_has_summaries():
    """The option that asks for it is named."""
    with pytest.raises(UsageError, match="an interval is for summaries, which -c asks for"):
        parse(BOTH, ["1"])
    assert parse(BOTH, ["-c", "1"])[1].interval == 1.0


def test_a_screen_off_a_terminal_is_blocks(capsys):
    """Time and load above the table, 20 rows or what --rows says, a footer at the end; no escape sequences."""
    out = printed(capsys, TOP, "0.01", "2")
    blocks = out.split("loadavg: ")[1:]
    assert len(blocks) == 2
    assert [block.count("row") for block in blocks] == [20, 20]
    assert out.endswith("the end\n")
    assert "\x1b" not in out
    assert printed(capsys, TOP, "0.01", "1", "-r", "3").count("row") == 3


def test_names_in_headings_and_footers_are_escaped(capsys):
    """A terminal obeys no name that a tool puts there; tabs between a footer's columns stay."""
    tool = replace(TOP, heading=lambda *_: "of \x1b[2J", footer=lambda *_: ["a\tb \x1b]0;x\x07"])
    out = printed(capsys, tool, "0.01", "1")
    assert " of \\x1b[2J\n" in out
    assert out.endswith("a\tb \\x1b]0;x\\x07\n")


def test_a_program_gets_all_rows_and_no_frame(capsys):
    """JSON and CSV have neither heading nor footer, and every row."""
    lines = printed(capsys, TOP, "--json", "0.01", "1").splitlines()
    assert [json.loads(line)["name"] for line in lines] == [f"row{number}" for number in range(30)]
    assert len(printed(capsys, TOP, "--csv", "0.01", "1").splitlines()) == 31


def test_a_screen_on_a_terminal_is_cleared_first(monkeypatch):
    """Once an interval; not with --noclear."""

    class Terminal(io.StringIO):
        def isatty(self):
            return True

    for arguments, cleared in ((["0.01", "2"], 2), (["-C", "0.01", "2"], 0)):
        terminal = Terminal()
        monkeypatch.setattr("sys.stdout", terminal)
        assert run_tool(TOP, arguments) == 0
        assert terminal.getvalue().count("\x1b[H\x1b[2J") == cleared


def test_a_screen_is_drawn_every_second_by_default():
    """As top(1) is."""
    assert parse(TOP, [])[1].interval == 1.0


class Interval:
    def __init__(self, found):
        self.found = found

    def interval(self):
        return self.found


def test_counts_are_sorted_and_have_the_keys_attributes():
    """The most last; a key's fields are the row's."""
    key, other = Count("a", 1), Count("b", 2)
    found = counts_of("calls")({"calls": Interval({key: 5, other: 3})}, None)
    assert [(row.name, row.count) for row in found] == [("b", 3), ("a", 5)]
    assert Counted(key, 5, {}).key is key
    with pytest.raises(AttributeError):
        _ = found[0].nothing


def test_histograms_are_sorted_and_their_labels_made_readable():
    """The largest total last; a part without a function is shown as it is, a single histogram without key, too."""
    found = {
        1: log2([0, 0, 7], labels={"disk": 1, "flags": 3}),
        2: log2([0, 2], labels={"disk": 2, "flags": 4}),
    }
    shown = list(
        histograms_of("latency", disk=lambda number: f"vd{number}", stack=str)({"latency": Interval(found)}, None)
    )
    assert [each.heading() for each in shown] == ["disk = 'vd2', flags = 4", "disk = 'vd1', flags = 3"]
    assert [each.total for each in histograms_of("latency")({"latency": Interval(log2([4]))}, None)] == [4]


class Traced(dict):
    """Aggregations by name, and stacks whose numbers are their frames."""

    def __init__(self, found):
        super().__init__(calls=Interval(found))
        self.stacks, self.released = self, 0

    def user(self, number, pid):
        return (Frame(f"f{number}"), Frame(f"main of {pid}"))

    def kernel(self, number):
        return (Frame(f"k{number}"),)

    def release(self):
        self.released += 1


class Frame(NamedTuple):
    label: str


class Key(NamedTuple):
    pid: int
    stack: int
    reason: int


def test_stacks_of_keys_are_shown_by_their_functions():
    """In histograms and in rows, the process's and the kernel's; what was shown is released."""
    traced = Traced({1: log2([0, 3], labels={"pid": 7, "stack": 5})})
    (found,) = histograms_of("calls", stack=USER_STACK)(traced, None)
    assert found.labels == {"pid": 7, "stack": ("f5", "main of 7")}
    assert found.heading() == "pid = 7\n\tf5\n\tmain of 7"
    assert traced.released == 1
    traced = Traced({Key(7, 5, 2): 3})
    (row,) = counts_of("calls", stack=KERNEL_STACK, reason={2: "NO_SOCKET"}.get)(traced, None)
    assert (row.pid, row.stack, row.reason, row.count, row.key.reason) == (7, ("k5",), "NO_SOCKET", 3, 2)
    assert traced.released == 1
    shown = Row((Column("COUNT", 5), Column("STACK", below=True, type="tuple[str, ...]")))
    assert (shown.line(row), shown.values(row), shown.object(row)["stack"]) == ("3\n\tk5", [3, ("k5",)], ["k5"])
    assert counts_of("calls")(traced, None)[0].stack == 5
    assert traced.released == 1


def test_two_modes_at_once():
    """They are refused: which of them ran would depend on their order. The library names fields, the command flags."""

    @dataclass(frozen=True)
    class TwoOptions(Options):
        totals: bool = flag("-S", "--totals", help="totals")

    two = replace(BOTH, options=TwoOptions, modes={"counts": COUNTS, "totals": COUNTS})
    with pytest.raises(UsageError, match=r"^--counts and --totals: each of them takes the tool's place"):
        parse(two, ["-S", "-c"])
    with pytest.raises(InvalidValue, match=r"^counts and totals: each of them takes the tool's place: give one$"):
        two.prepare(counts=True, totals=True)
    assert two.mode(two.prepare(totals=True)[0]).columns == COUNTS.columns


def test_no_map_of_that_name():
    """It is refused as the tool's declaration would be, which is before anything is attached."""
    bpf = BPF()
    bpf.counter(key=u32, name="sizes")
    for made in (counts_of, histograms_of):
        with pytest.raises(
            InvalidValue, match=rf"^{made.__name__}\('size'\): no map is called 'size' \(did you mean sizes\?\)$"
        ):
            list(made("size")(bpf, None))


def test_histograms_keep_their_sum():
    """It is in JSON, as the schema says, and survives new labels."""
    whole = Histogram((Bucket(0, 9, 2),), "ms", "linear", {"disk": 1}, 11)
    (found,) = histograms_of("calls", disk=str)(Traced({1: whole}), None)
    assert (found.sum, found.average, found.labels) == (11, 5.5, {"disk": "1"})
    assert Histogram((Bucket(0, 9, 0),), sum=0).average is None
    stream = io.StringIO()
    histogram_writer("json", Sink(stream)).interval([found], "2026-01-02T03:04:05.000000006+00:00")
    value = json.loads(stream.getvalue())
    assert value["sum"] == 11
    assert faults(histogram_schema(), value) == []


def test_stacks_of_keys_that_read_the_same_are_one():
    """Two numbers of stacks whose functions are the same are one histogram and one row, with what both counted."""

    class Same(Traced):
        def user(self, number, pid):
            return (Frame("f" if number < 9 else "g"), Frame(f"main of {pid}"))

    found = {
        number: log2([0, count], labels={"pid": pid, "stack": number})
        for number, (pid, count) in {5: (7, 3), 6: (7, 4), 9: (7, 8), 7: (8, 1)}.items()
    }
    shown = list(histograms_of("calls", stack=USER_STACK)(Same(found), None))
    assert [(each.labels["pid"], each.labels["stack"][0], each.total) for each in shown] == [
        (8, "f", 1),
        (7, "f", 7),
        (7, "g", 8),
    ]
    keys = {Key(7, 5, 2): 3, Key(7, 6, 2): 4, Key(7, 6, 1): 5, Key(7, 9, 2): 1}
    rows = counts_of("calls", stack=USER_STACK)(Same(keys), None)
    assert [(row.stack[0], row.reason, row.count) for row in rows] == [("g", 2, 1), ("f", 1, 5), ("f", 2, 7)]
