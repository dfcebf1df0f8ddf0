"""--heatmap, --scatter, --bars: which tools have them, what they write, and errors before anything is traced."""

from __future__ import annotations

from types import SimpleNamespace
from xml.etree import ElementTree as ET

import pytest

from pyebpf import tool
from pyebpf.cli.catalogue import find
from pyebpf.cli.parser import build_parser, parse
from pyebpf.cli.report import UsageError
from pyebpf.cli.run import run_tool
from pyebpf.errors import InvalidValue
from pyebpf.output.histogram import log2
from pyebpf.tool import Column, EventTool, SummaryTool, dataclass, flag

SVG = "{http://www.w3.org/2000/svg}"
MS = 10**6


class Tracer(tool.Tracer):
    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass


@dataclass(frozen=True)
class Options:
    nothing: bool = flag("--nothing", help="see nothing")
    counts: bool = flag("-c", "--counts", help="histograms")
    plain: bool = flag("--plain", help="no times")


def requests(_tracer, options, _stop):
    if not options.nothing:
        yield SimpleNamespace(at=5 * MS, ns=100_000, kind="Read")
        yield SimpleNamespace(at=6 * MS, ns=300_000, kind="Write")
        yield SimpleNamespace(at=9 * MS, ns=None, kind="Read")
        yield SimpleNamespace(at=9 * MS, ns=110_000, kind="Read")


def columns(options):
    return (
        Column("KIND", 8, classes=("Read", "Write")),
        Column("LAT(ms)", key="ns", scale=MS, field="latency_ns", drawn=not options.plain),
    )


def latencies(_tracer, options):
    if not options.nothing:
        yield log2([0, 1, 5], unit="usecs")


COUNTS = SummaryTool(
    name="reqs",
    doc="Requests.",
    tracing="requests",
    options=Options,
    build=lambda _: Tracer(),
    snapshot=latencies,
    footer=lambda _tracer, _options: ["the end"],
)


def event_tool(columns, **modes):
    return EventTool(
        name="reqs",
        doc="Requests.",
        tracing="requests",
        options=Options,
        build=lambda _: Tracer(),
        records=requests,
        time="at",
        columns=columns,
        modes=modes,
    )


EVENTS = event_tool(columns, counts=COUNTS)
START = "Tracing requests... Hit Ctrl-C to end.\n"


def run(capsys, *arguments, of=EVENTS):
    assert run_tool(of, list(arguments)) == 0
    return capsys.readouterr()


def texts(source):
    return [each.text for each in ET.fromstring(source).iter(f"{SVG}text")]


def counts(source):
    return [int(cell.get("data-count")) for cell in ET.fromstring(source).iter(f"{SVG}rect") if cell.get("data-count")]


def test_a_heat_map_of_events(capsys, tmp_path):
    """In place of lines; an event without a time has no place in it. A note says what it shows, as of flame graphs."""
    path = tmp_path / "map.svg"
    path.write_text("old")
    assert run(capsys, "--heatmap", str(path)) == ("", f"{START}{path}: 3 events in 5 columns\n")
    assert counts(path.read_text()) == [1, 1, 1]
    found = texts(path.read_text())
    assert found[0] == "pyebpf reqs: requests"
    assert found[1].startswith("3 events, columns of 1 ms, from 20")
    assert "latency" in found
    assert counts(run(capsys, "--heatmap", "-", "--scale", "linear").out) == [1, 1, 1]


def test_a_heat_map_of_intervals(capsys, tmp_path):
    """An interval a column; a second, if none is given. The footer is for text."""
    path = tmp_path / "map.svg"
    out, err = run(capsys, "--heatmap", str(path), "0.02", "3", of=COUNTS)
    assert out == ""
    assert f"{START}{path}: 18 values in " in err
    assert sum(counts(path.read_text())) == 18
    assert parse(COUNTS, ["--heatmap", "-"])[1].interval == 1.0
    assert parse(COUNTS, [])[1].interval is None
    assert counts(run(capsys, "-c", "--heatmap", "-", "0.2", "1").out) == [1, 5]


def test_a_scatter_plot(capsys, tmp_path):
    """A mark an event, by its class."""
    path = tmp_path / "plot.svg"
    assert run(capsys, "--scatter", str(path)) == ("", f"{START}{path}: 3 events, 3 of them drawn\n")
    found = texts(path.read_text())
    assert {"Read: 2, 100 us to 110 us", "Write: 1, 300 us to 300 us", "latency"} <= set(found)
    other = event_tool((Column("NS", drawn=True, field="age_ns", key="ns"),))
    found = texts(run(capsys, "--scatter", "-", of=other).out)
    assert {"events: 3, 100 us to 300 us", "age"} <= set(found)


@pytest.mark.parametrize(("picture", "noun"), [("--heatmap", "0 events in 0 columns"), ("--scatter", "0 events, 0 of")])
def test_nothing_seen_is_a_picture_that_says_so(capsys, tmp_path, picture, noun):
    """As a flame graph of nothing is one."""
    path = tmp_path / "none.svg"
    out, err = run(capsys, picture, str(path), "--nothing")
    assert out == ""
    assert f"{path}: {noun}" in err
    assert "nothing was seen" in texts(path.read_text())


def test_what_cannot_be_drawn():
    """Told with the reason; one form of output at a time."""
    for arguments, reason in (
        (["-c", "--scatter", "x"], "--scatter is for single events, and with these options there are histograms"),
        (["--plain", "--scatter", "x"], "--scatter has nothing to draw with these options"),
        (["--plain", "--heatmap", "x"], "--heatmap has nothing to draw with these options"),
        (["--scale", "log"], "--scale is for --heatmap and --scatter of single events"),
        (["-c", "--heatmap", "x", "--scale", "log"], "--scale is for --heatmap and --scatter of single events"),
        (["--heatmap", "x", "--scatter", "x"], "not allowed with"),
        (["--json", "--heatmap", "x"], "not allowed with"),
    ):
        with pytest.raises(UsageError, match=reason):
            parse(EVENTS, arguments)


def test_bars(capsys, tmp_path):
    """The histograms of all intervals together, side by side; of single events there are none."""
    path = tmp_path / "bars.svg"
    assert run(capsys, "--bars", str(path), "0.01", "3", of=COUNTS) == (
        "",
        f"{START}{path}: 18 values, histograms: 1\n",
    )
    assert counts(run(capsys, "-c", "--bars", "-", "0.01", "1").out) == []
    bars = [each for each in ET.parse(path).iter(f"{SVG}g") if each.get("data-count")]
    assert [(each.get("data-label"), each.get("data-count")) for each in bars] == [
        ("1 usecs", "3"),
        ("2 to 3 usecs", "15"),
    ]
    with pytest.raises(UsageError, match="--bars is for histograms, and with these options there are single events"):
        parse(EVENTS, ["--bars", "x"])
    with pytest.raises(UsageError, match="not allowed with"):
        parse(COUNTS, ["--bars", "x", "--heatmap", "y"])
    assert "--bars FILE" not in build_parser(find("biosnoop")).format_help()


def test_files_that_cannot_be_written(tmp_path):
    """Told before anything is traced, as of flame graphs."""
    for picture in ("--heatmap", "--scatter"):
        with pytest.raises(InvalidValue, match="it is a directory"):
            run_tool(EVENTS, [picture, str(tmp_path)])
    with pytest.raises(InvalidValue, match="it is a directory"):
        run_tool(COUNTS, ["--bars", str(tmp_path)])


@pytest.mark.parametrize(
    ("name", "heat_map", "scatter"),
    [
        ("biolatency", True, False),
        ("runqlat", True, False),
        ("funclatency", True, False),
        ("hardirqs", True, False),
        ("biosnoop", True, True),
        ("gethostlatency", True, True),
        ("tcplife", True, True),
        ("opensnoop", False, False),
        ("biotop", False, False),
        ("profile", False, False),
    ],
)
def test_which_tools_have_them(name, heat_map, scatter):
    """Histograms and times have a heat map, single times a scatter plot; stacks and counts have neither."""
    text = build_parser(find(name)).format_help()
    assert ("--heatmap FILE" in text, "--scatter FILE" in text, "--scale" in text) == (heat_map, scatter, scatter)
