"""Stacks as folded lines, as flame graph and for speedscope: each holds exactly what went in."""

from __future__ import annotations

import io
import json
import subprocess
from typing import NamedTuple
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given, strategies as st

from pyebpf.errors import MalformedData
from pyebpf.output.flamegraph import flame_graph
from pyebpf.output.schema import stack_schema
from pyebpf.output.sink import Sink
from pyebpf.output.speedscope import speedscope
from pyebpf.output.stacks import Stack, StackPart, fold, folded_lines, merged, write_stacks
from pyebpf.symbols.frame import Frame as Named
from tests.support.folded import parse_folded, unescaped
from tests.support.json_schema import faults
from tests.support.needs import needs

SVG = "{http://www.w3.org/2000/svg}"
STACKS = {
    ("python3", "main", "work"): 41,
    ("python3", "main"): 7,
    ("python3", "main", "work", "sys_read_[k]"): 11,
    ("sh",): 3,
}
names = st.text(st.characters(codec="utf-8"), min_size=1, max_size=8)
stacks = st.dictionaries(st.lists(names, min_size=1, max_size=6).map(tuple), st.integers(1, 1000), max_size=12)
plain = st.dictionaries(
    st.lists(st.text("abc_:[]<>&\"' ", min_size=1, max_size=5).filter(str.strip), min_size=1, max_size=5).map(tuple),
    st.integers(1, 1000),
    max_size=12,
)


def read_back(document):
    """The stacks of a flame graph, from its boxes: a box's samples that no box above has end there."""
    root = ET.fromstring(document)
    boxes = [
        (int(g.get("data-depth")), int(g.get("data-x")), int(g.get("data-w")), g.get("data-name"))
        for g in root.iter(f"{SVG}g")
    ]
    found = {}
    for depth, x, width, _ in boxes:
        own = width - sum(b[2] for b in boxes if b[0] == depth + 1 and x <= b[1] < x + width)
        path = tuple(
            name
            for at, start, size, name in sorted(boxes)
            if 0 < at <= depth and start <= x and x + width <= start + size
        )
        assert len(path) == depth
        if own:
            found[path] = own
    return found, boxes


def test_folded_lines():
    """The most frequent first, outermost frame first, semicolons replaced; parsed, they are the same stacks."""
    assert list(folded_lines({**STACKS, ("a;b", "c\n"): 2})) == [
        "python3;main;work 41",
        "python3;main;work;sys_read_[k] 11",
        "python3;main 7",
        "sh 3",
        "a:b;c\\x0a 2",
    ]
    assert parse_folded(folded_lines(STACKS)) == STACKS
    assert parse_folded(["a;b c 1\n", "a;b c 2"]) == {("a", "b c"): 3}
    for wrong in ("", "a", "a b", "a -1", " 1", "a \N{SUPERSCRIPT TWO}", "a \N{ARABIC-INDIC DIGIT TWO}"):
        with pytest.raises(MalformedData, match="line 1 is not a folded stack"):
            parse_folded([wrong])


@given(plain)
def test_a_flame_graph_has_the_counts_of_its_stacks(stacks):
    """Boxes of the picture, parsed as XML, add up to exactly the folded input."""
    found, boxes = read_back(flame_graph(stacks))
    assert found == stacks
    assert sum(width for depth, _, width, _ in boxes if depth == 0) == sum(stacks.values())


@given(stacks)
def test_any_name_makes_well_formed_xml(stacks):
    """Control characters, surrogates and markup in names never break the document."""
    document = flame_graph(stacks, title="<&\x00>")
    assert sum(1 for _ in ET.fromstring(document).iter(f"{SVG}g")) >= bool(stacks)
    document.encode()


def test_the_picture():
    """Boxes stand over those that called them, as wide as their share; equal input gives equal text."""
    document = flame_graph(STACKS, title="A title")
    assert document == flame_graph(dict(reversed(STACKS.items())), title="A title")
    root = ET.fromstring(document)
    boxes = {g.get("data-name"): g for g in root.iter(f"{SVG}g")}
    assert set(boxes) == {"all", "python3", "main", "work", "sys_read_[k]", "sh"}
    assert boxes["work"].find(f"{SVG}title").text == "work (52 samples, 83.87%)"
    rects = {name: g.find(f"{SVG}rect").attrib for name, g in boxes.items()}
    assert float(rects["work"]["y"]) + 16 == float(rects["main"]["y"])
    assert float(rects["all"]["width"]) == pytest.approx(1180, abs=0.5)
    assert float(rects["main"]["width"]) == pytest.approx(1180 * 59 / 62, abs=0.5)
    assert len({rects["sys_read_[k]"]["fill"], rects["work"]["fill"]}) == 2
    assert "A title" in document
    # Nothing is fetched, and nothing but the namespaces' names looks as if it were.
    assert document.replace("http://www.w3.org/2000/svg", "").count("http") == 0


def test_no_samples_at_all():
    """No stack, or none that counted: a picture without boxes."""
    for nothing in ({}, {("a",): 0}):
        root = ET.fromstring(flame_graph(nothing))
        assert list(root.iter(f"{SVG}g")) == []


# As much of a browser's document as the script asks of one; then a zoom and a search, and what has become of it.
BROWSER = """
const element = (dataset = {}, title = "") => ({
  dataset, style: {}, textContent: "", attributes: {}, classes: new Set(), listeners: {}, parts: {},
  setAttribute(name, value) { this.attributes[name] = value; },
  addEventListener(name, call) { this.listeners[name] = call; },
  querySelector(name) { return this.parts[name] ??= Object.assign(element(), {textContent: title}); },
  classList: null,
});
const make = (dataset, title) => {
  const made = element(dataset, title);
  made.classList = {
    toggle: (name, on) => on ? made.classes.add(name) : made.classes.delete(name),
    contains: name => made.classes.has(name),
  };
  return made;
};
const input = JSON.parse(require("fs").readFileSync(0));
const frames = input.frames.map(dataset => make(dataset, dataset.name + " title"));
const byId = {};
globalThis.document = {
  documentElement: Object.assign(make(input.svg), {querySelectorAll: () => frames}),
  getElementById: name => byId[name] ??= make({}),
};
globalThis.addEventListener = (name, call) => { byId[name] = call; };
globalThis.prompt = () => input.search;
(0, eval)(input.script);
const state = () => Object.fromEntries(frames.filter(f => f.style.display !== "none").map(f => [
  f.dataset.name, [f.parts.rect.attributes.x, f.parts.rect.attributes.width, f.parts.text.textContent],
]));
const of = name => frames.find(f => f.dataset.name === name);
of("work").listeners.click();
const zoomed = state();
byId.search.listeners.click();
const matched = byId.matched.textContent, found = frames.filter(f => f.classes.has("found")).map(f => f.dataset.name);
byId.keydown({key: "Escape"});
console.log(JSON.stringify({zoomed, matched, found, whole: state(), after: byId.matched.textContent}));
"""


def test_zoom_and_search():
    """Run by node: a click shows a box over the whole width with those below it, a search sums up what matches."""
    needs("command:node")
    root = ET.fromstring(flame_graph(STACKS))

    def data(element):
        return {name.removeprefix("data-"): value for name, value in element.attrib.items() if name.startswith("data-")}

    (script,) = root.iter(f"{SVG}script")
    page = {
        "svg": data(root),
        "frames": [data(g) for g in root.iter(f"{SVG}g")],
        "script": script.text,
        "search": "^(work|sys_.*|sh)$",
    }
    run = subprocess.run(
        ["node", "-e", BROWSER], input=json.dumps(page), text=True, capture_output=True, check=True, timeout=60
    )
    result = json.loads(run.stdout)
    assert set(result["zoomed"]) == {"all", "python3", "main", "work", "sys_read_[k]"}
    assert result["zoomed"]["work"] == [10, 1180 - 0.4, "work"]
    assert result["zoomed"]["sys_read_[k]"] == [
        pytest.approx(10 + 1180 * 41 / 52),
        pytest.approx(1180 * 11 / 52 - 0.4),
        "sys_read_[k]",
    ]
    assert result["zoomed"]["main"] == [10, 1180 - 0.4, "main"]
    assert result["matched"] == f"matched: {100 * 55 / 62:.1f}%"
    assert set(result["found"]) == {"work", "sys_read_[k]", "sh"}
    assert set(result["whole"]) == {"all", "python3", "main", "work", "sys_read_[k]", "sh"}
    assert result["whole"]["sh"][1] == pytest.approx(1180 * 3 / 62 - 0.4)
    assert result["after"] == ""


@given(stacks)
def test_speedscope(stacks):
    """One sampled profile whose weighted stacks are the input, and the members that its schema requires."""
    document = json.loads(speedscope(stacks, name="profile"))
    assert document["$schema"] == "https://www.speedscope.app/file-format-schema.json"
    frames = [unescaped(frame["name"]) for frame in document["shared"]["frames"]]
    (profile,) = document["profiles"]
    assert (profile["type"], profile["unit"], profile["name"]) == ("sampled", "none", "profile")
    assert (profile["startValue"], profile["endValue"]) == (0, sum(stacks.values()))
    found = {
        tuple(frames[index] for index in sample): weight
        for sample, weight in zip(profile["samples"], profile["weights"], strict=True)
    }
    assert found == stacks
    assert len(set(frames)) == len(frames)


def test_a_flame_graph_of_lone_surrogates():
    """They are no bytes that a name was decoded from, but a name may have them."""
    assert ET.fromstring(flame_graph({("\ud800", "\udcff"): 1}, title="\ud800").encode()).tag.endswith("svg")


def test_speedscope_has_no_lone_surrogates():
    """Bytes of names that are no text are shown as numbers: strict parsers refuse the escapes of surrogates."""
    text = speedscope({("caf\udce9", "main"): 1}, name="tool \udcff")
    assert "\\ud" not in text
    document = json.loads(text)
    assert [frame["name"] for frame in document["shared"]["frames"]] == ["caf\\xe9", "main"]
    assert document["name"] == "tool \\xff"


class Frame(NamedTuple):
    """As symbols give it."""

    label: str
    module: str = "/bin/x"


STACK = Stack(
    5, "x;y", 42, (Frame("leaf"), Frame("[jit] f", "[jit]"), Frame("main")), (Frame("vfs", "kernel"), Frame("sys"))
)
SMALL = Stack(2, "x;y", 43, None, ())


WOKEN = Stack(
    3, "app", 1, (Frame("main"),), (Frame("schedule"), Frame("read")),
    (
        StackPart("waker", "disk", 2, (Frame("loop"), Frame("start")), (Frame("wake"),)),
        StackPart("waker", "timer", None, None, (Frame("tick"), Frame("irq"))),
    ),
)  # fmt: skip


def written(form, **options):
    stream = io.StringIO()
    write_stacks([STACK, SMALL], form, Sink(stream), **options)
    return stream.getvalue()


def test_stacks_as_text():
    """The kernel's frames above the process's, the innermost first, the most frequent stack last."""
    assert written("text", delimited=True) == (
        "    -                x;y (43)\n        2\n\n"
        "    vfs\n    sys\n    --\n    leaf\n    [jit] f\n    main\n    -                x;y (42)\n        5\n\n"
    )


def test_stacks_folded():
    """The outermost first, with marks if asked for; stacks of equal names are one line."""
    assert written("folded", delimited=True, annotated=True) == "x:y;main;[jit] f_[j];leaf;-;sys_[k];vfs_[k] 5\nx:y 2\n"
    assert fold([STACK, STACK, SMALL]) == {("x;y", "main", "[jit] f", "leaf", "sys", "vfs"): 10, ("x;y",): 2}


def test_stacks_that_read_the_same_are_one():
    """Offsets are not shown: what differs in them alone is added up, in every form; processes and parts count."""
    seen = [
        Stack(
            2, "app", 1, (Named("work", 5, "app", 1),), (), (StackPart("waker", "cron", 3, (Named("f", 1, "", 8),)),)
        ),
        Stack(7, "app", 2, (Named("work", 9, "app", 2),), ()),
        Stack(
            3, "app", 1, (Named("work", 9, "app", 2),), (), (StackPart("waker", "cron", 3, (Named("f", 2, "", 9),)),)
        ),
        Stack(
            1, "app", 1, (Named("work", 9, "app", 2),), (), (StackPart("waker", "cron", 4, (Named("f", 2, "", 9),)),)
        ),
    ]
    assert [each.count for each in merged(seen)] == [5, 7, 1]
    assert merged(seen)[0].user == seen[0].user
    for form, counts in {"csv": ["7", "5", "1"], "json": [7, 5, 1], "text": ["1", "5", "7"]}.items():
        stream = io.StringIO()
        write_stacks(seen, form, Sink(stream))
        lines = stream.getvalue().splitlines()
        if form == "json":
            assert [json.loads(line)["count"] for line in lines] == counts
        elif form == "csv":
            assert [line.split(",")[3] for line in lines[1:]] == counts
        else:
            assert [line.strip() for line in lines if line.strip().isdigit()] == counts


def test_stacks_for_programs():
    """CSV has a folded stack, JSON lists, which are left out where nothing was asked for. The time is first."""
    assert written("csv", time="T") == "time,comm,pid,count,stack\nT,x;y,42,5,main;[jit] f;leaf;sys;vfs\nT,x;y,43,2,\n"
    assert [json.loads(line) for line in written("json", time="T").splitlines()] == [
        {
            "time": "T", "comm": "x;y", "pid": 42, "user": ["leaf", "[jit] f", "main"], "kernel": ["vfs", "sys"],
            "count": 5,
        },
        {"time": "T", "comm": "x;y", "pid": 43, "kernel": [], "count": 2},
    ]  # fmt: skip


def test_further_parts_meet_where_one_woke_the_other():
    """The waker's frames mirror the sleeper's: in text above it, in folded lines and flame graphs on top of it."""
    folded = ("app", "main", "read", "schedule", "--", "wake", "loop", "start", "disk", "--", "tick", "irq", "timer")
    assert fold([WOKEN]) == {folded: 3}
    stream = io.StringIO()
    write_stacks([WOKEN], "text", Sink(stream))
    assert [line.strip() for line in stream.getvalue().splitlines()] == [
        "waker            timer", "irq", "tick", "--",
        "waker            disk (2)", "start", "loop", "wake", "--",
        "schedule", "read", "main", "-                app (1)", "3", "",
    ]  # fmt: skip


def test_further_parts_for_programs():
    """JSON has a list of objects with their names, as the schema says; CSV's stack has all frames."""
    stream = io.StringIO()
    write_stacks([WOKEN], "json", Sink(stream), time="2026-01-02T03:04:05.000000006+00:00")
    found = json.loads(stream.getvalue())
    assert found["parts"] == [
        {"name": "waker", "comm": "disk", "pid": 2, "user": ["loop", "start"], "kernel": ["wake"]},
        {"name": "waker", "comm": "timer", "kernel": ["tick", "irq"]},
    ]
    assert faults(stack_schema(), found) == []
    write_stacks([WOKEN], "csv", Sink(stream))
    assert "main;read;schedule;--;wake;loop;start;disk;--;tick;irq;timer" in stream.getvalue()
