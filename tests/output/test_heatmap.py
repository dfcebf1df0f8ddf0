"""Heat maps: the counts of their grids in cells with titles, and a script that node and a browser run."""

from __future__ import annotations

import json
import re
import subprocess
from itertools import pairwise
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given, settings, strategies as st

from pyebpf.output.heat_counts import EventCounts, Grid, IntervalCounts
from pyebpf.output.heatmap import HEAT, MOST_MAPS, heat_map
from pyebpf.output.histogram import Bucket, linear, log2
from tests.support.needs import needs

SVG = "{http://www.w3.org/2000/svg}"
SECOND = 10**9


def intervals(*seconds, kind=log2, unit="usecs"):
    """The grids of histograms of these counts, one a second."""
    counts = IntervalCounts(SECOND)
    for number, found in enumerate(seconds):
        counts.add((number + 1) * SECOND, [kind(found, unit=unit)])
    return counts.grids()


def drawn(grids, **more):
    return ET.fromstring(heat_map(grids, title="A title", **more))


def of_class(root, name):
    return [each for each in root.iter() if name in (each.get("class") or "").split()]


def texts(root):
    return [each.text or "" for each in root.iter(f"{SVG}text")]


histograms = st.lists(st.lists(st.integers(0, 10**6), min_size=1, max_size=20), min_size=1, max_size=9)


@settings(max_examples=20)
@given(histograms.filter(lambda seconds: any(map(any, seconds))))
def test_cells_add_up_to_the_histograms(seconds):
    """Those of a column to its histogram, those of a row to its bar; each has a title, and lies where it should."""
    root = drawn(intervals(*seconds))
    (panel,) = of_class(root, "map")
    columns, bars = of_class(panel, "column"), of_class(panel, "row")
    data = panel.attrib
    assert len(columns) == len(seconds)
    sums = [0] * len(bars)
    for number, (column, counts) in enumerate(zip(columns, seconds, strict=True)):
        cells = of_class(column, "cell")
        assert [int(cell.get("data-count")) for cell in cells] == [count for count in counts if count]
        assert column.get("aria-label") == f"{number} to {number + 1} s: {sum(counts):,} values"
        for cell in cells:
            row, count = int(cell.get("data-row")), int(cell.get("data-count"))
            sums[row] += count
            label = bars[row].get("data-label")
            assert cell.find(f"{SVG}title").text == f"{number} to {number + 1} s, {label}: {count:,} values"
            assert float(cell.get("x")) == pytest.approx(84 + number * float(data["data-across"]), abs=0.01)
            assert float(cell.get("y")) == float(data["data-bottom"]) - (row + 1) * int(data["data-upwards"])
    assert [int(bar.get("data-count")) for bar in bars] == sums
    assert sum(sums) == sum(map(sum, seconds))


@pytest.mark.parametrize("most", [1, 2, 7, 9, 10, 100, 999, 1000, 29_999, 10**6, 10**12, 2**63])
def test_the_legend_has_the_numbers_of_each_colour(most):
    """From 1 to the highest without gaps, in no more colours than there are; a cell's colour is its count's."""
    root = drawn(intervals([0, 1, most]))
    labels = [label for label in texts(root) if re.fullmatch(r"[\d,]+( to [\d,]+)?", label)]
    swatches = [each.get("class").split()[0] for each in of_class(root, "frame") if "heat" in each.get("class")]
    ranges = [tuple(int(n.replace(",", "")) for n in label.split(" to ")) for label in labels[-len(swatches) :]]
    assert len(set(swatches)) == len(swatches) <= len(HEAT)
    assert (ranges[0][0], ranges[-1][-1]) == (1, most)
    assert all(a[-1] + 1 == b[0] for a, b in pairwise(ranges))
    for cell in of_class(root, "cell"):
        (place,) = (n for n, each in enumerate(ranges) if each[0] <= int(cell.get("data-count")) <= each[-1])
        assert swatches[place] in cell.get("class").split()


@pytest.mark.parametrize(
    ("grids", "title", "labels"),
    [
        (intervals([0] * 8 + [1] * 6), "duration", ["200 us", "500 us", "1 ms", "2 ms", "5 ms"]),
        (intervals([0, 3, 1], kind=linear, unit="runqlen"), "runqlen", ["1", "2"]),
        (intervals([0] * 10 + [5] * 3, unit="bytes"), "bytes", ["1 KiB", "4 KiB"]),
        (intervals([1] * 100, kind=linear, unit="msecs"), "duration", ["0", "10 ms", "20 ms", "30 ms"]),
    ],
)
def test_values_have_round_ticks(grids, title, labels):
    """Powers of ten of times, powers of two of bytes, whole numbers in the middle of their rows."""
    found = texts(drawn(grids))
    assert title in found
    start = found.index(labels[0])
    assert found[start : start + len(labels)] == labels


def test_few_large_cells_have_their_numbers():
    """In print nobody has a pointer."""
    found = texts(drawn(intervals([0, 1234, 7], [0, 0, 1_000_000])))
    assert {"1,234", "7", "1,000,000", "1,000,007"} <= set(found)
    assert "1,001,241 values, columns of 1 s" in found


def test_many_keys():
    """Those with the most values are drawn, and a line says what is not."""
    counts = IntervalCounts(SECOND)
    counts.add(SECOND, [log2([n + 1], labels={"disk": f"<d{n}>"}) for n in range(11)])
    root = drawn(counts.grids())
    assert len(of_class(root, "map")) == MOST_MAPS
    assert "disk = '<d10>': 11 values" in texts(root)
    assert "not drawn: 3 more with 6 values" in texts(root)


def test_nothing_is_said():
    """A picture without cells, that says so."""
    root = drawn([], began="2026-11-26 08:00:00")
    assert "nothing was seen" in texts(root)
    assert of_class(root, "map") == []
    assert "0 values, from 2026-11-26 08:00:00" in texts(root)


def test_the_file_needs_nothing_else():
    """Nothing is fetched. Dark screens have colours of their own, paper has those of light ones; any name is XML."""
    grid = Grid("\x00<&\ud800", "u\x01<", "log", (Bucket(None, -1, 3),), SECOND, ({0: 3},))
    document = heat_map([grid], title="<&\x00>")
    ET.fromstring(document)
    document.encode()
    assert document.replace("http://www.w3.org/2000/svg", "").count("http") == 0
    assert "@media screen and (prefers-color-scheme:dark)" in document


# As much of a browser's document as the script asks of one; then keys and clicks, and what they show.
BROWSER = """
const fs = require("fs");
const make = (dataset, children = {}) => ({
  dataset, children, style: {}, textContent: "", attributes: {}, listeners: {},
  setAttribute(name, value) { this.attributes[name] = value; },
  addEventListener(name, call) { this.listeners[name] = call; },
  querySelector(name) { return this.children[name] ??= make({}); },
  querySelectorAll(name) { return this.children[name] ?? []; },
});
const page = JSON.parse(fs.readFileSync(0));
const map = make(page.map, {
  "g.column": page.columns.map(each => make({label: each.label}, {"rect.cell": each.cells.map(cell => make(cell))})),
  "g.row": page.rows.map(each => make(each)),
});
const info = make({});
globalThis.document = {
  getElementById: () => info, documentElement: make({}, {"g.map": [map]}),
};
(0, eval)(page.script);
const key = name => map.listeners.keydown({key: name, preventDefault() {}});
const cursor = map.children[".cursor"] ??= make({});
const state = () => ({
  info: info.textContent, which: map.children[".which"].textContent, most: map.children[".most"].textContent,
  cursor: cursor.style.display === "none" ? null : [cursor.attributes.x, cursor.attributes.y],
  bars: map.children["g.row"].map(row => [row.children.rect.attributes.width, row.children.title.textContent]),
});
const states = {};
key("ArrowRight"); states.first = state();
key("ArrowRight"); states.second = state();
key("ArrowUp"); key("ArrowUp"); states.up = state();
key("End"); states.end = state();
key("Escape"); states.all = state();
const column = map.children["g.column"][0];
column.listeners.click({target: {dataset: {row: "1", count: "5"}}}); states.clicked = state();
column.listeners.mouseover({target: {dataset: {}}}); states.pointed = state();
column.listeners.mouseout(); states.left = state();
column.listeners.click({target: {dataset: {row: "1", count: "5"}}}); states.again = state();
console.log(JSON.stringify(states));
"""


def test_keys_and_clicks():
    """Run by node: the arrow keys go from cell to cell, the histogram is the column's, Escape shows all."""
    needs("command:node")
    root = drawn(intervals([0, 1000, 5], [0, 0, 7, 1]))

    def data(element):
        found = {name[5:]: value for name, value in element.attrib.items() if name.startswith("data-")}
        return {re.sub("-(.)", lambda m: m[1].upper(), name): value for name, value in found.items()}

    (panel,), (script,) = of_class(root, "map"), root.iter(f"{SVG}script")
    columns = [
        {**data(column), "cells": [data(cell) for cell in of_class(column, "cell")]}
        for column in of_class(panel, "column")
    ]
    page = {"map": data(panel), "columns": columns, "rows": [data(each) for each in of_class(panel, "row")]}
    run = subprocess.run(
        ["node", "-e", BROWSER], input=json.dumps({**page, "script": script.text}), text=True, capture_output=True,
        check=True, timeout=60,
    )  # fmt: skip
    states = json.loads(run.stdout)
    bottom = float(panel.get("data-bottom"))
    assert states["first"]["info"] == "0 to 1 s, 1 usecs: 1,000 of 1,005 values"
    assert states["first"]["cursor"] == [84, bottom - 22]
    assert states["first"]["bars"] == [
        ["130.0", "1 usecs: 1,000 values"],
        [f"{130 * 5 / 1000:.1f}", "2 to 3 usecs: 5 values"],
        ["0.0", "4 to 7 usecs: 0 values"],
    ]
    assert (states["first"]["which"], states["first"]["most"]) == ("0 to 1 s", "1,000")
    assert states["second"]["info"] == "1 to 2 s, 1 usecs: 0 of 8 values"
    assert states["up"]["info"] == "1 to 2 s, 4 to 7 usecs: 1 of 8 values"
    assert states["end"] == states["up"]
    assert states["all"]["cursor"] is None
    assert (states["all"]["which"], states["all"]["most"], states["all"]["info"]) == ("all columns", "1,000", "")
    assert [title for _, title in states["all"]["bars"]] == [
        "1 usecs: 1,000 values", "2 to 3 usecs: 12 values", "4 to 7 usecs: 1 values",
    ]  # fmt: skip
    assert states["clicked"]["info"] == states["left"]["info"] == "0 to 1 s, 2 to 3 usecs: 5 of 1,005 values"
    assert states["pointed"]["info"] == "0 to 1 s: 1,005 values"
    assert states["again"]["cursor"] is None


def test_in_a_browser(tmp_path):
    """Chromium runs it: after a key the line below says what the cell is."""
    needs("browser:chromium")
    counts = EventCounts("log")
    for number in range(101):
        counts.add(number * SECOND // 10, 10**6)
    press = 'document.querySelector("g.map").dispatchEvent(new KeyboardEvent("keydown", {key: "ArrowRight"}));'
    path = tmp_path / "map.svg"
    document = heat_map(counts.grids(), title="A title", noun="events")
    path.write_text(document.replace("]]></script>", f"{press}\n]]></script>"))
    command = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path}/profile"]
    run = subprocess.run(
        [*command, "--dump-dom", path.as_uri()], capture_output=True, text=True, timeout=60, check=True
    )
    assert "0 to 0.1 s, 896 to 1,023 usecs: 1 of 1 events</text>" in run.stdout
