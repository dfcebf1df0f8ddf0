"""Line charts: axes with round numbers, a legend, and few points where many would hide each other."""

from __future__ import annotations

import re
from xml.etree import ElementTree as ET

import pytest

from pyebpf.tool.line_charts import LEFT, PLOT_HEIGHT, PLOT_WIDTH, Panel, line_charts

SVG = "{http://www.w3.org/2000/svg}"


def drawn(*panels):
    return ET.fromstring(line_charts("A title", panels))


def texts(svg):
    return [each.text for each in svg.iter(f"{SVG}text")]


def corners(svg):
    """The points of the first line."""
    path = next(svg.iter(f"{SVG}path")).get("d")
    start, *rest = re.findall(r"[MH]([\d.]+)[ V]([\d.]+)", path)
    return [(float(x), float(y)) for x, y in (start, *rest)]


@pytest.mark.parametrize(
    ("seconds", "unit", "labels"),
    [
        (6.09, "s", ["0", "1", "2", "3", "4", "5", "6"]),
        (61, "s", ["0", "10", "20", "30", "40", "50", "60"]),
        (1.0, "s", [f"{n / 10:.1f}" for n in range(11)]),
        (0.023, "ms", ["0", "5", "10", "15", "20"]),
        (0.000_004, "us", [f"{n / 2:.1f}" for n in range(9)]),
        (0, "us", [f"{n / 10:.1f}" for n in range(11)]),
    ],
)
def test_time_has_round_ticks(seconds, unit, labels):
    """From the first event on, in the unit that the axis names."""
    svg = drawn(Panel("p", "segments", {"a": [(7.5, 1), (7.5 + seconds, 1)]}))
    assert [each.text for each in svg.iter(f"{SVG}text") if each.get("text-anchor") == "middle"][
        : len(labels)
    ] == labels
    assert f"time since the first event ({unit})" in texts(svg)


@pytest.mark.parametrize(
    ("most", "unit", "shown", "labels"),
    [
        (142, "segments", "segments", ["0", "50", "100", "150"]),
        (1, "segments", "segments", ["0", "1"]),
        (0, "segments", "segments", ["0", "1"]),
        (2047, "bytes", "bytes", ["0", "500", "1,000", "1,500", "2,000", "2,500"]),
        (979_960, "bytes", "KiB", ["0", "200", "400", "600", "800", "1,000"]),
        (5 << 20, "bytes", "MiB", ["0", "1", "2", "3", "4", "5"]),
        (5 << 19, "bytes", "MiB", ["0.0", "0.5", "1.0", "1.5", "2.0", "2.5"]),
    ],
)
def test_values_have_round_ticks(most, unit, shown, labels):
    """From 0 to at least the highest, bytes in a unit in which they are short."""
    svg = drawn(Panel("p", unit, {"a": [(0.0, 0), (1.0, most)]}))
    found = [each.text for each in svg.iter(f"{SVG}text") if each.get("text-anchor") == "end"]
    assert found == [*labels, "time since the first event (s)"]
    assert shown in texts(svg)
    assert all(62 <= y <= 62 + PLOT_HEIGHT for _, y in corners(svg))


def test_lines_marks_and_names():
    """A line for each name and a triangle for each moment, all of them in the legend; titles are escaped."""
    panel = Panel("a < b", "segments", {"one": [(0.0, 0), (10.0, 100)], "two": [(5.0, 50)]}, {"retrans": [2.5, 7.5]})
    svg = drawn(panel, panel)
    assert len(list(svg.iter(f"{SVG}path"))) == 4
    assert [texts(svg).count(name) for name in ("a < b", "one", "two", "retrans (2)", "A title")] == [2, 2, 2, 2, 1]
    tips = [float(each.get("transform")[10:].split()[0]) for each in svg.iter(f"{SVG}polygon")]
    assert tips[:2] == [LEFT + PLOT_WIDTH / 4, LEFT + PLOT_WIDTH * 3 / 4]
    assert len(tips) == 2 * 3
    assert corners(svg) == [(LEFT, 62 + PLOT_HEIGHT), (LEFT + PLOT_WIDTH, 62)]


def test_many_points_keep_their_extremes():
    """100,003 points are drawn by at most four for each pixel, the single highest and lowest among them."""
    points = [(n / 1000, 500) for n in range(100_003)]
    points[31_337] = (31.337, 1000)
    points[77_777] = (77.777, 0)
    found = corners(drawn(Panel("p", "segments", {"a": points})))
    assert PLOT_WIDTH <= len(found) <= 4 * (PLOT_WIDTH + 1)
    heights = [y for _, y in found]
    assert (min(heights), max(heights)) == (62, 62 + PLOT_HEIGHT)
    assert (heights.count(62), heights.count(62 + PLOT_HEIGHT)) == (1, 1)
    assert (found[0][0], found[-1][0]) == (LEFT, LEFT + PLOT_WIDTH)
