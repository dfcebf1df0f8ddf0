"""Histograms side by side: bars with the counts of the histograms, common axes, and a script that a browser runs."""

from __future__ import annotations

import subprocess
from xml.etree import ElementTree as ET

from hypothesis import given, settings, strategies as st

from pyebpf.output.bars import MOST, bar_charts
from pyebpf.output.heat_counts import IntervalCounts
from pyebpf.output.histogram import linear, log2
from tests.support.needs import needs

SVG = "{http://www.w3.org/2000/svg}"
SECOND = 10**9


def grids(**histograms):
    """The grids of histograms of these counts, by the name of a disk."""
    counts = IntervalCounts(SECOND)
    counts.add(SECOND, [log2(each, unit="usecs", labels={"disk": name}) for name, each in histograms.items()])
    return counts.grids()


def drawn(found, **more):
    return ET.fromstring(bar_charts(found, title="A title", **more))


def of_class(root, name):
    return [each for each in root.iter() if name in (each.get("class") or "").split()]


def bars(panel):
    """The counts of a histogram by their ranges, with the heights of the bars."""
    return {
        each.get("data-label"): (int(each.get("data-count")), float(of_class(each, "bar")[0].get("height")))
        for each in of_class(panel, "bucket")
    }


some = st.lists(st.integers(0, 10**6), min_size=1, max_size=20).filter(any)


@settings(max_examples=20)
@given(st.lists(some, min_size=1, max_size=7))
def test_bars_have_the_counts(histograms):
    """Each histogram's add up to it; the heights of all are to one scale, and the ranges are the same."""
    named = {f"d{number}": each for number, each in enumerate(histograms)}
    panels = of_class(drawn(grids(**named)), "bars")
    assert len(panels) == len(named)
    ranges, scales = set(), set()
    for panel in panels:
        counts = named[panel.get("data-name").split("'")[1]]
        found = bars(panel)
        assert sum(count for count, _ in found.values()) == int(panel.get("data-total")) == sum(counts)
        assert [count for count, _ in found.values() if count] == [count for count in counts if count]
        ranges.add(tuple(found))
        scales.update(round(height / count, 1) for count, height in found.values() if height > 20)
        assert all((height >= 1) == bool(count) for count, height in found.values())
    assert len(ranges) == 1
    assert len({each.get("data-group") for each in panels}) == 1
    most = max(max(each) for each in histograms)
    for panel in panels:
        for count, height in bars(panel).values():
            assert height <= 120
            assert height == 1.0 or abs(height / 120 - count / most) <= height / 120


def test_units_have_axes_of_their_own():
    """Sizes are not compared with times, nor linear ranges with powers of two."""
    counts = IntervalCounts(SECOND)
    counts.add(SECOND, [log2([0, 7], unit="usecs", labels={"a": 1}), log2([0, 900], unit="bytes", labels={"a": 2})])
    counts.add(SECOND, [linear([3, 5], step=10, unit="usecs", labels={"a": 3})])
    panels = of_class(drawn(counts.grids()), "bars")
    assert len({each.get("data-group") for each in panels}) == 3
    assert {each.get("data-total"): [*bars(each)] for each in panels} == {
        "900": ["1 bytes"],
        "8": ["0 to 9 usecs", "10 to 19 usecs"],
        "7": ["1 usecs"],
    }


def test_gaps_are_ranges_without_counts():
    """Between two values of a histogram, and where only others counted."""
    (low, high) = of_class(drawn(grids(a=[0, 9], b=[0, 0, 0, 0, 5])), "bars")
    assert [count for count, _ in bars(low).values()] == [9, 0, 0, 0]
    assert [count for count, _ in bars(high).values()] == [0, 0, 0, 5]
    assert [*bars(low)] == ["1 usecs", "2 to 3 usecs", "4 to 7 usecs", "8 to 15 usecs"]
    counts = IntervalCounts(SECOND)
    for number, place in enumerate((0, 3)):
        counts.add(SECOND, [linear([0] * place + [5], step=10, unit="usecs", labels={"a": number})])
    for panel in of_class(drawn(counts.grids()), "bars"):
        assert [*bars(panel)] == ["0 to 9 usecs", "10 to 19 usecs", "20 to 29 usecs", "30 to 39 usecs"]


def test_what_is_left_out():
    """Of many histograms those with the most values are drawn, and a line counts the others."""
    root = drawn(grids(**{f"d{number:02}": [0, number + 1] for number in range(MOST + 3)}))
    assert len(of_class(root, "bars")) == MOST
    assert "not drawn: 3 more with 6 values" in [each.text for each in root.iter(f"{SVG}text")]
    assert "nothing was seen" in [each.text for each in drawn([]).iter(f"{SVG}text")]


def test_in_a_browser(tmp_path):
    """Chromium runs it: a key marks the range in every histogram, and the line below says what it is."""
    needs("browser:chromium")
    press = """for (const key of ["End", "ArrowLeft", "ArrowDown"])
      document.querySelector("g.bars").dispatchEvent(new KeyboardEvent("keydown", {key}));"""
    path = tmp_path / "bars.svg"
    names = {f"d{number}": [0, 70 - number, 11, 30] for number in range(4)}
    source = bar_charts(grids(**names), title="A title")
    path.write_text(source.replace("]]></script>", f"{press}\n]]></script>"))
    command = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path}/profile"]
    run = subprocess.run(
        [*command, "--dump-dom", path.as_uri()], capture_output=True, text=True, timeout=60, check=True
    )
    assert "disk = 'd3', 2 to 3 usecs: 11 of 108 values, 10.2%</text>" in run.stdout
    assert run.stdout.count('class="bucket at"') == 4
