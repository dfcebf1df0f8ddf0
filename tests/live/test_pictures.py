"""Pictures that grow: of the whole run, of its last seconds, in bounded memory; and with hostile names."""

from __future__ import annotations

from xml.etree import ElementTree as ET

import pytest

from pyebpf.live import pictures
from pyebpf.live.page import page, picture_page
from pyebpf.live.pictures import EventHeat, Flames, IntervalHeat
from pyebpf.output.histogram import log2
from pyebpf.output.stacks import Stack
from tests.live.made_up import HOSTILE, Frame

SECOND = 10**9


def stack(*names, count=1):
    return Stack(count, "comm", 1, user=tuple(Frame(name) for name in reversed(names)))


def boxes(svg):
    root = ET.fromstring(svg)
    return {
        each.get("data-name"): int(each.get("data-w"))
        for each in root.iter("{http://www.w3.org/2000/svg}g")
        if each.get("class") == "frame"
    }


def test_a_flame_graph_of_all_or_of_the_last_seconds():
    """Its intervals are added up."""
    flames = Flames("title", str, "samples")
    for number in range(1, 6):
        flames.add(number * 2 * SECOND, [stack("main", f"f{number}", count=number)])
    assert boxes(flames.svg()) == {"all": 15, "comm": 15, "main": 15, **{f"f{n}": n for n in range(1, 6)}}
    assert boxes(flames.svg(2)) == {"all": 5, "comm": 5, "main": 5, "f5": 5}
    assert boxes(flames.svg(4)) == {"all": 9, "comm": 9, "main": 9, "f4": 4, "f5": 5}
    assert "the last 4 s" in flames.svg(4)


def test_a_picture_is_drawn_once_for_all_who_ask(monkeypatch):
    """And again when it has changed."""
    flames = Flames("title", str, "samples")
    flames.add(SECOND, [stack("main")])
    first = flames.svg()
    assert flames.svg() is first
    flames.add(2 * SECOND, [stack("main")])
    assert flames.svg() is not first


def test_different_stacks_are_bounded(monkeypatch):
    """Further ones are one box; nothing is lost of the sum."""
    monkeypatch.setattr(pictures, "MAX_STACKS", 10)
    monkeypatch.setattr(pictures, "MAX_THINGS", 20)
    flames = Flames("title", str, "samples")
    for number in range(23):
        flames.add(number * SECOND, [stack(f"f{number}"), stack(f"g{number}")])
    found = boxes(flames.svg())
    assert found["all"] == 46
    assert found["[other stacks]"] == 36
    assert len(flames._all) == 11
    assert len(flames._kept) == 6


def test_heat_maps_of_events():
    """Of all, and of those in the last seconds before the last."""
    heat = EventHeat("title", str, "latency")
    heat.add([(number * SECOND, 1000 * number) for number in range(1, 102)])
    assert "101 events" in heat.svg()
    assert "11 events" in heat.svg(10)
    assert "0 events" in EventHeat("title", str).svg()


def test_heat_maps_of_intervals():
    """Of all, and of the last."""
    heat = IntervalHeat("title", str, SECOND, 0)
    for number in range(1, 12):
        heat.add(number * SECOND, [log2([0, 3, 4], unit="usecs")])
    assert "77 values" in heat.svg()
    assert "21 values" in heat.svg(3)


@pytest.mark.parametrize(
    "picture",
    [
        lambda: Flames(HOSTILE, str, "samples"),
        lambda: IntervalHeat(HOSTILE, str, SECOND, 0),
    ],
)
def test_hostile_names_are_text(picture):
    """They close no element, and the only script is the one that the policy allows."""
    made = picture()
    if isinstance(made, Flames):
        made.add(SECOND, [stack(HOSTILE)])
    else:
        made.add(SECOND, [log2([0, 3], unit="usecs", labels={HOSTILE: HOSTILE})])
    svg = made.svg()
    root = ET.fromstring(svg)
    names = [each.tag.partition("}")[2] for each in root.iter()]
    assert names.count("script") == 1
    assert "img" not in names
    assert not any(name.startswith("on") for each in root.iter() for name in each.attrib)
    answer = picture_page(svg)
    assert "script-src 'sha256-" in answer.policy
    assert "unsafe" not in answer.policy.partition("script-src")[2].partition(";")[0]


def test_the_page_is_there_and_asks_for_nothing_else():
    """In the package; without a name of another host, and without anything that would make HTML of text."""
    answer = page()
    text = answer.content.decode()
    assert text.count("<script>") == text.count("<style>") == 1
    assert "unsafe" not in answer.policy
    assert answer.policy.count("'sha256-") == 2
    assert "://" not in text
    for word in ("innerHTML", "outerHTML", "insertAdjacent", "document.write", "eval(", "style=", "onclick="):
        assert word not in text
    assert len(text.splitlines()) < 500
