"""Flame graphs: boxes that add up to the stacks, the difference of two, and the script that zooms and searches."""

from __future__ import annotations

import json
import subprocess
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given, settings, strategies as st

from pyebpf.output.flamegraph import difference_graph, flame_graph
from tests.support.needs import needs

SVG = "{http://www.w3.org/2000/svg}"
STACKS = {
    ("python3", "main", "work"): 41,
    ("python3", "main"): 7,
    ("python3", "main", "work", "sys_read_[k]"): 11,
    ("sh",): 3,
}
LATER = {
    ("python3", "main", "work"): 82,
    ("python3", "main"): 28,
    ("python3", "main", "new"): 14,
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


@settings(max_examples=40)
@given(plain)
def test_a_flame_graph_has_the_counts_of_its_stacks(stacks):
    """Boxes of the picture, parsed as XML, add up to exactly the folded input."""
    found, boxes = read_back(flame_graph(stacks))
    assert found == stacks
    assert sum(width for depth, _, width, _ in boxes if depth == 0) == sum(stacks.values())


@settings(max_examples=40)
@given(stacks)
def test_any_name_makes_well_formed_xml(stacks):
    """Control characters, surrogates and markup in names never break the document."""
    document = flame_graph(stacks, title="<&\x00>")
    assert sum(1 for _ in ET.fromstring(document).iter(f"{SVG}g")) >= bool(stacks)
    document.encode()


WAKEUP = {
    ("client", "main", "sys_read_[k]", "--", "wake_[k]", "write", "server", "--", "wake_[k]", "irq_[k]", "swapper"): 41,
    ("client", "main", "wait_[k]", "--", "wake_[k]", "write", "server"): 7,
}


def hues(document):
    """Names of the boxes in the order of their depth, with the hues of their colours."""
    boxes = list(ET.fromstring(document).iter(f"{SVG}g"))
    found = {}
    for g in boxes:
        hue = int(g.find(f"{SVG}rect").get("fill").removeprefix("hsl(").partition(",")[0])
        found.setdefault(int(g.get("data-depth")), []).append((g.get("data-name"), hue))
    return found


def test_a_chain_graph():
    """The sleeper is blue, its waker violet, the waker's waker green, the kernel's functions of other hues."""
    document = flame_graph(WAKEUP, palette="off-cpu")
    assert read_back(document)[0] == WAKEUP
    found = hues(document)
    ranges = {"blue": (206, 222), "cyan": (184, 196), "violet": (260, 276), "pink": (304, 316), "green": (120, 136)}
    wanted = ["blue", "blue", "blue", "cyan", "", "pink", "violet", "violet", "", "", "", "green"]
    for depth, name in enumerate(wanted):
        for box, hue in found[depth]:
            assert not name or ranges[name][0] <= hue <= ranges[name][1], (box, hue)
    assert {name for name, _ in found[4]} == {"--"}
    assert all(72 <= hue <= 84 for _, hue in [*found[9], *found[10]])
    assert len({hue for depth in (4, 8) for _, hue in found[depth]}) == 1
    hint = "paler: in the kernel; above a --: the stack of who woke what is below, upside down"
    assert hint in document
    assert hint not in flame_graph(WAKEUP)
    assert "above a --" not in flame_graph(STACKS, palette="off-cpu")


def test_a_graph_of_wakers():
    """Violet, and the kernel's of another hue."""
    found = hues(flame_graph(STACKS, palette="wakeups"))
    assert all(260 <= hue <= 276 for _, hue in [*found[0], *found[1], *found[2]])
    assert all(304 <= hue <= 316 for name, hue in found[3] if name.endswith("_[k]"))


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


def test_a_flame_graph_of_lone_surrogates():
    """They are no bytes that a name was decoded from, but a name may have them."""
    assert ET.fromstring(flame_graph({("\ud800", "\udcff"): 1}, title="\ud800").encode()).tag.endswith("svg")


@settings(max_examples=40)
@given(plain, plain, st.integers(1, 1 << 60))
def test_a_difference_has_the_counts_of_both(before, after, factor):
    """Each box has what it was and what it is, and is as wide as the mean of its shares, however large the counts."""
    before = {stack: count * factor for stack, count in before.items()}
    root = ET.fromstring(difference_graph(before, after))
    all_before, all_after = sum(before.values()), sum(after.values())
    total, found = float(root.get("data-total")), {}
    for g in root.iter(f"{SVG}g"):
        was, now = int(g.get("data-before")), int(g.get("data-after"))
        shares = [part / whole for part, whole in ((was, all_before), (now, all_after)) if whole]
        assert float(g.get("data-w")) / total == pytest.approx(sum(shares) / len(shares), abs=1e-9)
        if g.get("data-depth") == "1":
            found[g.get("data-name")] = was, now
    assert found == {
        name: tuple(sum(n for stack, n in each.items() if stack[0] == name) for each in (before, after))
        for name in {stack[0] for stack in (*before, *after)}
    }


def colours(root):
    """Hue, saturation and lightness of each box's colour."""
    return {
        g.get("data-name"): tuple(int(n.strip("%")) for n in g.find(f"{SVG}rect").get("fill")[4:-1].split(","))
        for g in root.iter(f"{SVG}g")
    }


def test_the_colours_of_a_difference():
    """Red grew, blue shrank, also what is new or gone; equal shares of unequal totals have no colour."""
    root = ET.fromstring(difference_graph(STACKS, LATER, title="now and then"))
    found = colours(root)
    assert {name for name, (hue, saturation, _) in found.items() if hue < 20 and saturation} == {
        "python3",
        "main",
        "new",
    }
    assert {name for name, (hue, _, _) in found.items() if hue > 200} - {"all"} == {"work", "sys_read_[k]", "sh"}
    assert found["all"][1] == 0
    assert found["new"][2] == found["sh"][2] == 60 < found["work"][2] < found["all"][2] == 95
    titles = {g.get("data-name"): g.find(f"{SVG}title").text for g in root.iter(f"{SVG}g")}
    assert titles["work"] == "work (before: 52 samples, 83.87%; after: 82 samples, 66.13%; change: -17.74%)"
    assert titles["sh"] == "sh (before: 3 samples, 4.84%; after: 0 samples, 0.00%; change: -4.84%)"
    same = colours(ET.fromstring(difference_graph(STACKS, {stack: 3 * count for stack, count in STACKS.items()})))
    assert {saturation for _, saturation, _ in same.values()} == {0}
    assert list(ET.fromstring(difference_graph({}, {("a",): 0})).iter(f"{SVG}g")) == []


def test_an_inverted_graph():
    """The outermost is on top; the boxes are the same."""
    rows = {}
    for inverted in (False, True):
        root = ET.fromstring(flame_graph(STACKS, inverted=inverted))
        rows[inverted] = {g.get("data-name"): float(g.find(f"{SVG}rect").get("y")) for g in root.iter(f"{SVG}g")}
    assert min(rows[True], key=rows[True].__getitem__) == "all"
    assert rows[True]["work"] == rows[True]["main"] + 16
    assert rows[False]["work"] == rows[False]["main"] - 16
    assert rows[True].keys() == rows[False].keys()


def test_the_narrowest_of_many_boxes_are_left_out():
    """The widest stay, each on what it stands on, and the picture says how many are missing."""
    many = {("app", f"f{n}", "leaf"): n for n in range(1, 101)}
    root = ET.fromstring(flame_graph(many, max_boxes=42))
    found = {g.get("data-name") for g in root.iter(f"{SVG}g")}
    assert found == {"all", "app", "leaf", *(f"f{n}" for n in range(81, 101))}
    assert len(list(root.iter(f"{SVG}g"))) == 42
    (info,) = [text for text in root.iter(f"{SVG}text") if text.get("id") == "info"]
    assert info.text == "160 boxes of 1.6% or less are left out"
    assert int(root.get("data-total")) == sum(many.values())


# As much of a browser's document as the script asks of one, and what a reader does to it, step by step.
BROWSER = """
const fs = require("fs");
const input = JSON.parse(fs.readFileSync(0));
const make = (dataset, title) => {
  const made = {
    dataset, style: {}, textContent: "", attributes: {}, classes: new Set(), listeners: {}, parts: {},
    setAttribute(name, value) { this.attributes[name] = value; },
    addEventListener(name, call) { this.listeners[name] = call; },
    querySelector(name) { return this.parts[name] ??= Object.assign(make({}), {textContent: title}); },
  };
  made.classList = {
    toggle: (name, on) => on ? made.classes.add(name) : made.classes.delete(name),
    contains: name => made.classes.has(name),
  };
  return made;
};
const frames = input.frames.map(dataset => make(dataset, dataset.name + " title"));
const byId = {}, window = {};
globalThis.document = {
  documentElement: Object.assign(make(input.svg), {querySelectorAll: () => frames}),
  getElementById: name => byId[name] ??= make({}),
};
byId.info = Object.assign(make({}), {textContent: "a hint"});
globalThis.location = {hash: input.hash};
globalThis.addEventListener = (name, call) => { window[name] = call; };
globalThis.prompt = () => input.search;
(0, eval)(input.script);
const state = () => ({
  shown: Object.fromEntries(frames.filter(f => f.style.display !== "none").map(f => [
    f.dataset.name, [f.parts.rect.attributes.x, f.parts.rect.attributes.width, f.parts.text.textContent],
  ])),
  matched: byId.matched.textContent, info: byId.info.textContent, reset: byId.reset.style.display === "",
  found: frames.filter(f => f.classes.has("found")).map(f => f.dataset.name),
  at: frames.filter(f => f.classes.has("at")).map(f => f.dataset.name), hash: location.hash,
});
const states = [state()];
for (const [what, which] of input.steps) {
  if (what === "key") window.keydown({key: which, preventDefault() {}});
  else if (what === "go") { location.hash = which; window.hashchange(); }
  else (what === "frame" ? frames.find(f => f.dataset.name === which) : byId[which]).listeners.click();
  states.push(state());
}
console.log(JSON.stringify(states));
"""


def browsed(document, *steps, answer=None, fragment=""):
    """The states of a picture's script, run by node, from the first on: after each click, key or link."""
    needs("command:node")
    root = ET.fromstring(document)

    def data(element):
        return {name.removeprefix("data-"): value for name, value in element.attrib.items() if name.startswith("data-")}

    (script,) = root.iter(f"{SVG}script")
    page = {
        "svg": data(root),
        "frames": [data(g) for g in root.iter(f"{SVG}g")],
        "script": script.text,
        "search": answer,
        "hash": fragment,
        "steps": steps,
    }
    run = subprocess.run(
        ["node", "-e", BROWSER], input=json.dumps(page), text=True, capture_output=True, check=True, timeout=60
    )
    return json.loads(run.stdout)


def test_zoom_and_search():
    """A click shows a box over the whole width with those below it, a search sums up matches, Escape undoes both."""
    first, zoomed, searched, whole = browsed(
        flame_graph(STACKS), ("frame", "work"), ("id", "search"), ("key", "Escape"), answer="^(work|sys_.*|sh)$"
    )
    assert set(zoomed["shown"]) == {"all", "python3", "main", "work", "sys_read_[k]"}
    assert zoomed["shown"]["work"] == [10, 1180 - 0.4, "work"]
    assert zoomed["shown"]["sys_read_[k]"] == [
        pytest.approx(10 + 1180 * 41 / 52),
        pytest.approx(1180 * 11 / 52 - 0.4),
        "sys_read_[k]",
    ]
    assert zoomed["shown"]["main"] == [10, 1180 - 0.4, "main"]
    assert searched["matched"] == f"matched: {100 * 55 / 62:.1f}%"
    assert set(searched["found"]) == {"work", "sys_read_[k]", "sh"}
    assert set(whole["shown"]) == {"all", "python3", "main", "work", "sys_read_[k]", "sh"}
    assert whole["shown"]["sh"][1] == pytest.approx(1180 * 3 / 62 - 0.4)
    assert (whole["matched"], whole["found"]) == ("", [])
    assert [state["reset"] for state in (first, zoomed, searched, whole)] == [False, True, True, False]
    assert whole == first


def test_a_link_leads_to_a_view():
    """The fragment that a zoom and a search leave shows the same elsewhere; links and the reset button change it."""
    document = flame_graph(STACKS)
    *_, left = browsed(document, ("frame", "work"), ("id", "search"), answer="m+a|[k]&=#")
    assert left["hash"] == f"s=m%2Ba%7C%5Bk%5D%26%3D%23&z={key('all', 'python3', 'main', 'work')}"
    (there,) = browsed(document, fragment="#" + left["hash"])
    assert {**there, "hash": ""} == {**left, "hash": ""}
    first, other, back, reset = browsed(
        document, ("go", f"#z={key('all', 'sh')}"), ("go", ""), ("id", "reset"), fragment="#s=main&z=99"
    )
    assert (first["matched"], set(first["shown"])) == ("matched: 95.2%", set(back["shown"]))
    assert set(other["shown"]) == {"all", "sh"}
    assert (back["matched"], back["reset"], reset["hash"]) == ("", False, "")


def key(*names):
    """FNV-1a of the names of a box and of those below it."""
    found = 0x811C9DC5
    for character in "".join(f"{name};" for name in names):
        found = (found ^ ord(character)) * 0x1000193 & 0xFFFFFFFF
    return f"{found:x}"


def test_a_link_leads_to_the_same_function_in_a_later_picture():
    """Its box has another place there, and another width; one that is not there is not zoomed to."""
    grown = {stack: count * count for stack, count in STACKS.items()}
    link = f"#z={key('all', 'python3', 'main', 'work')}"
    early, late = (browsed(flame_graph(stacks), fragment=link)[0] for stacks in (STACKS, grown))
    assert early["shown"]["work"] == late["shown"]["work"] == [10, 1180 - 0.4, "work"]
    assert early["shown"]["sys_read_[k]"] != late["shown"]["sys_read_[k]"]
    assert browsed(flame_graph({("sh",): 1}), fragment=link)[0]["reset"] is False


def test_a_search_that_is_none():
    """No regular expression is told, a cancelled question leaves what was."""
    assert browsed(flame_graph(STACKS), ("key", "/"), answer="(")[-1]["matched"] == "no regular expression: ("
    before, after = browsed(flame_graph(STACKS), ("key", "/"), fragment="#s=work")
    assert before["matched"] == after["matched"] == "matched: 83.9%"


@pytest.mark.parametrize(("inverted", "inwards", "outwards"), [(False, "Up", "Down"), (True, "Down", "Up")])
def test_the_keyboard(inverted, inwards, outwards):
    """Arrows go to the widest box above, to the one below and to those beside; Enter zooms to one, Escape leaves it."""
    keys = [inwards, inwards, "Right", "Left", inwards, "Enter", inwards, inwards, outwards, "Left", "Escape"]
    steps = [("key", key if key in ("Enter", "Escape") else f"Arrow{key}") for key in keys]
    states = browsed(flame_graph(STACKS, inverted=inverted), *steps)
    assert [state["at"] for state in states] == [
        [], ["all"], ["python3"], ["sh"], ["python3"], ["main"], ["main"], ["work"], ["sys_read_[k]"], ["work"],
        ["work"], [],
    ]  # fmt: skip
    assert [state["reset"] for state in states] == [False] * 6 + [True] * 5 + [False]
    assert (states[0]["info"], states[1]["info"], states[-1]["info"]) == ("a hint", "all title", "a hint")
    assert set(states[6]["shown"]) == {"all", "python3", "main", "work", "sys_read_[k]"}


def test_a_search_in_a_difference():
    """It has a sum for each of the two."""
    (state,) = browsed(difference_graph(STACKS, LATER), fragment="#s=^work$")
    assert state["matched"] == "matched: 83.9% before, 66.1% after"
