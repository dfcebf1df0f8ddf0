"""Scatter plots: a mark an event, in the colour and shape of its class, and of very many those that show the rest."""

from __future__ import annotations

import json
import subprocess
from collections import Counter
from xml.etree import ElementTree as ET

import pytest

from pyebpf.output.scatter import HEAD, HEIGHT, LEFT, MARKS, MOST_POINTS, PLOT_WIDTH, Points, scatter_plot, thinned
from tests.support.needs import needs

SVG = "{http://www.w3.org/2000/svg}"
MS = 10**6
SECOND = 10**9


def points(*events, classes=()):
    found = Points(classes)
    for event in events:
        found.add(*event)
    return found


def drawn(found, scale="log", **more):
    return ET.fromstring(scatter_plot(found, title="A title", scale=scale, **more))


def texts(root):
    return [each.text or "" for each in root.iter(f"{SVG}text")]


def data(root):
    return json.loads(root.find(f"{SVG}metadata").text)


def marks(root):
    return {
        each.get("class"): each.get("d").count("M") for each in root.iter(f"{SVG}path") if "points" in each.get("class")
    }


READS = [(SECOND, 100_000, "Read"), (2 * SECOND, 10 * MS, "Read"), (3 * SECOND, MS, "Write")]


def test_classes_have_colours_and_shapes():
    """Those named beforehand the first ones, whichever comes first; the legend has numbers, and none without any."""
    root = drawn(points(READS[2], *READS[:2], classes=("Read", "Write", "Flush")), began="2026-11-26 08:00:00")
    assert marks(root) == {"points mark0": 2, "points mark1": 1}
    shapes = {each.get("class"): each.get("d") for each in root.iter(f"{SVG}path")}
    assert shapes["key mark0"].endswith(MARKS[0])
    assert shapes["key mark1"].endswith(MARKS[1])
    assert {"Read: 2, 100 us to 10 ms", "Write: 1, 1 ms to 1 ms"} <= set(texts(root))
    assert "3 events, from 2026-11-26 08:00:00" in texts(root)
    assert not any(each.startswith("Flush") for each in texts(root))


@pytest.mark.parametrize(
    ("scale", "heights", "labels"),
    [
        ("log", [0.02, 0.98, 0.5], ["100 us", "200 us", "500 us", "1 ms"]),
        ("linear", [0.01, 0.98, 0.098], ["0", "1 ms"]),
    ],
)
def test_places(scale, heights, labels):
    """Time from left to right, durations upwards; ticks are round and have their units."""
    root = drawn(points(*READS), scale)
    found = data(root)["points"]
    assert [point[0] for point in found] == [LEFT, LEFT + PLOT_WIDTH / 2, LEFT + PLOT_WIDTH]
    bottom = HEAD + 12 + HEIGHT
    assert [(bottom - point[1]) / HEIGHT for point in found] == pytest.approx(heights, abs=0.01)
    assert [point[2:] for point in found] == [[0, 100_000, 0], [SECOND, 10 * MS, 0], [2 * SECOND, MS, 1]]
    start = texts(root).index(labels[0])
    assert texts(root)[start : start + len(labels)] == labels
    assert "time since the first event (s)" in texts(root)


def test_very_many_keep_their_extremes():
    """Not more than MOST_POINTS are drawn, in constant memory; a line says how many are not."""
    found = Points()
    for number in range(100_003):
        found.add(number * MS, 1000 + number * 7919 % 1009)
        assert len(found._points) < 4 * MOST_POINTS
    found.add(50_000 * MS, 7)
    found.add(50_001 * MS, 7 * SECOND)
    root = drawn(found)
    assert MOST_POINTS // 2 < sum(marks(root).values()) <= MOST_POINTS
    durations = [point[3] for point in data(root)["points"]]
    assert (min(durations), max(durations)) == (7, 7 * SECOND)
    hidden = 100_005 - len(durations)
    assert any(f"; {hidden:,} not drawn" in each for each in texts(root))
    assert "events: 100,005, 7 ns to 7 s" in texts(root)


def test_thinning_keeps_rare_classes_and_times():
    """A class of few events keeps all of them, and a busy second leaves those of quiet ones alone."""
    busy = [(number, number * 7919 % 10_007, 0) for number in range(2 * MOST_POINTS)]
    rare = [(number * SECOND, number, 1) for number in range(101)]
    kept = thinned([*busy, *rare])
    assert Counter(kind for _, _, kind in kept)[1] == 101
    assert len(kept) <= MOST_POINTS
    assert {min(point[1] for point in busy), max(point[1] for point in busy)} <= {p[1] for p in kept if p[2] == 0}


def test_more_classes_than_marks():
    """The last mark is for all the others."""
    found = points(*((number, 5, f"<c{number}>") for number in range(11)))
    root = drawn(found)
    assert sum(marks(root).values()) == 11
    assert len(marks(root)) == len(MARKS)
    assert "others: 6, 5 ns to 5 ns" in texts(root)


@pytest.mark.parametrize("scale", ["log", "linear"])
@pytest.mark.parametrize("events", [[(5, 0)], [(5, 1)], [(5, 10**18)], [(5, 3), (5, 3)], [(0, 0), (10**15, 10**15)]])
def test_odd_events(scale, events):
    """One alone, none at all of time, equal ones: each has a place in the picture."""
    for x, y, *_ in data(drawn(points(*events), scale))["points"]:
        assert LEFT <= x <= LEFT + PLOT_WIDTH
        assert HEAD + 12 <= y <= HEAD + 12 + HEIGHT


def test_nothing_is_said():
    """A picture without marks, that says so."""
    root = drawn(Points(("Read",)))
    assert "nothing was seen" in texts(root)
    assert marks(root) == {}


BROWSER = """
const page = JSON.parse(require("fs").readFileSync(0));
const make = () => ({
  style: {}, attributes: {}, listeners: {}, textContent: "",
  setAttribute(name, value) { this.attributes[name] = value; },
  addEventListener(name, call) { this.listeners[name] = call; },
});
const info = make(), parts = {".cursor": make(), ".hit": make()};
const plot = {...make(), querySelector: name => parts[name]};
globalThis.DOMPoint = class { constructor(x, y) { this.x = x; this.y = y; } matrixTransform() { return this; } };
globalThis.document = {
  querySelector: name => name === "metadata" ? {textContent: page.metadata} : plot,
  getElementById: () => info,
  documentElement: {getScreenCTM: () => ({inverse: () => null})},
};
(0, eval)(page.script);
const told = [];
for (const key of page.keys) {
  if (Array.isArray(key)) parts[".hit"].listeners.mousemove({clientX: key[0], clientY: key[1]});
  else plot.listeners.keydown({key, preventDefault() {}});
  told.push(info.textContent);
}
console.log(JSON.stringify(told));
"""


def test_keys_and_pointer():
    """Run by node: right and left go by time, up and down to longer and shorter ones, the pointer to the nearest."""
    needs("command:node")
    root = drawn(points(*READS, classes=("Read", "Write")))
    x, y, *_ = data(root)["points"][1]
    keys = [
        "ArrowRight",
        "ArrowRight",
        "ArrowLeft",
        "ArrowUp",
        "ArrowDown",
        "ArrowDown",
        "Home",
        "End",
        "Escape",
        "Tab",
    ]
    page = {
        "metadata": root.find(f"{SVG}metadata").text,
        "script": next(root.iter(f"{SVG}script")).text,
        "keys": [*keys, [x + 3, y - 2], [x + 100, y]],
    }
    run = subprocess.run(
        ["node", "-e", BROWSER], input=json.dumps(page), text=True, capture_output=True, check=True, timeout=60
    )
    first, second, third = (
        "Read, 100 us, at 0.000000 s", "Read, 10 ms, at 1.000000 s", "Write, 1 ms, at 2.000000 s",
    )  # fmt: skip
    assert json.loads(run.stdout) == [
        first, second, first, second, third, third, first, third, "", "", second, "",
    ]  # fmt: skip


def test_in_a_browser(tmp_path):
    """Chromium runs it: after a key the line below says what the event is."""
    needs("browser:chromium")
    press = 'plot.dispatchEvent(new KeyboardEvent("keydown", {key: "End"}));'
    path = tmp_path / "plot.svg"
    document = scatter_plot(points(*READS), title="A title", scale="log")
    path.write_text(document.replace("]]></script>", f"{press}\n]]></script>"))
    command = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path}/profile"]
    run = subprocess.run(
        [*command, "--dump-dom", path.as_uri()], capture_output=True, text=True, timeout=60, check=True
    )
    assert "Write, 1 ms, at 2.000000 s</text>" in run.stdout
