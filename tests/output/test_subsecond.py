"""Sub-second offset heat maps: cells have the samples of their slots, and the page draws any range as a flame graph."""

from __future__ import annotations

import json
import re
from xml.etree import ElementTree as ET

from pyebpf.output.stacks import SLOT, Stack
from pyebpf.output.subsecond import MOST_COLUMNS, subsecond_heat_map, subsecond_page
from pyebpf.recording.entries import Frame
from tests.support.browser import Browser
from tests.support.needs import needs

SECOND = 10**9
START = 1_795_509_000 * SECOND + 7 * SLOT + 11
FIRST = START - 11


def stack(name, *slots):
    """A stack of a function that was seen in these slots since the start, so often in each."""
    times = tuple((FIRST + slot * SLOT, count) for slot, count in slots)
    return Stack(sum(count for _, count in slots), "prog", 7, (Frame(name, "/bin/a"),), (), times=times)


STACKS = [stack("early", (0, 3), (1, 2)), stack("late</script>", (1, 5), (50 + 49, 7), (101, 11))]


def cells(document):
    """Counts by column and row."""
    columns = [each for each in ET.fromstring(document).iter() if "column" in (each.get("class") or "").split()]
    return {
        (number, int(cell.get("data-row"))): int(cell.get("data-count"))
        for number, column in enumerate(columns)
        for cell in column
        if cell.get("data-count")
    }


def test_cells_have_the_samples_of_their_slots():
    """A column a second since the start, in 50 rows; a sample from just before the start is in the first."""
    assert cells(subsecond_heat_map(STACKS, START, title="A title")) == {(0, 0): 3, (0, 1): 7, (1, 49): 7, (2, 1): 11}
    assert cells(subsecond_heat_map([stack("before", (-1, 2))], START, title="A title")) == {(0, 0): 2}
    assert "nothing was seen" in subsecond_heat_map([], START, title="A title")


def test_long_recordings_have_wider_columns():
    """Of several seconds, whose samples are added up by their offset."""
    long = [stack("f", *((50 * second + 3, 1) for second in range(2 * MOST_COLUMNS - 1)))]
    found = cells(subsecond_heat_map(long, START, title="A title"))
    assert len(found) == MOST_COLUMNS
    assert {row for _, row in found} == {3}
    assert sum(found.values()) == 2 * MOST_COLUMNS - 1


def test_a_part_of_a_stack():
    """What was counted from one time to another, to the nearest slot."""
    part = STACKS[1].within(FIRST + SECOND, FIRST + 2 * SECOND + SLOT)
    assert (part.count, part.times) == (7, ((FIRST + 99 * SLOT, 7),))
    assert STACKS[1].within(FIRST + 2 * SLOT, FIRST + 3 * SLOT) is None
    assert STACKS[0].within(FIRST + SLOT + 300, FIRST + 3 * SLOT).count == 2


def test_the_page_has_the_data():
    """Names once, slots as differences; nothing of it ends the script."""
    page = subsecond_page(STACKS, START, title="<A title>", command="pyebpf show 'a b'")
    assert page.count("</script>") == 1
    assert "<h1>&lt;A title&gt;</h1>" in page
    data = json.loads(re.search(r"const data = (.*);\n", page)[1])
    assert data["names"] == ["prog", "late</script>", "early"]
    assert data["stacks"] == [[0, 1], [0, 2]]
    assert data["times"] == [[1, 5, 98, 7, 2, 11], [0, 3, 1, 2]]
    assert data["slots"] == [0, 3, 1, 7, 98, 7, 2, 11]
    assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", page)


def in_chromium(page, folder):
    """A page's elements after its script has run, without a word on the console."""
    needs("browser:chromium")
    path = folder / "map.html"
    path.write_text(page)
    with Browser(folder) as browser:
        browser.open(path.as_uri())
        assert browser.errors == []
        return browser.run("document.documentElement.outerHTML")


def test_in_a_browser(tmp_path):
    """Chromium draws a range that the keys choose: its functions with their samples, and the command."""
    keys = ["ArrowUp", "ArrowUp", "Enter", "ArrowRight", "ArrowRight", "ArrowLeft", *["ArrowUp"] * 48, "Enter"]
    press = f"""for (const key of {json.dumps(keys)}) map.dispatchEvent(new KeyboardEvent("keydown", {{key}}));"""
    page = subsecond_page(STACKS, START, title="A title", command="pyebpf show x --svg o")
    drawn = in_chromium(page.replace("</script>", f"{press}</script>"), tmp_path)
    assert "pyebpf show x --svg o --from 0.02 --to 2.00</code>" in drawn
    assert "0.02 to 2.00 s: 14 samples" in drawn
    assert re.findall(r'aria-label="([^"]*) \((\d+) samples, ([\d.]+)%\)"', drawn) == [
        ("all", "14", "100.00"),
        ("prog", "14", "100.00"),
        ("early", "2", "14.29"),
        ("late&lt;/script&gt;", "12", "85.71"),
    ]


def test_an_hour_in_a_browser(tmp_path):
    """With samples in each of its 180,000 slots: more than a function of JavaScript takes arguments."""
    slots = 3600 * 50
    drawn = in_chromium(subsecond_page([stack("f", *((slot, 1) for slot in range(slots)))], START, title="T"), tmp_path)
    assert "everything: 180,000 samples" in drawn
    assert 'aria-label="f (180,000 samples, 100.00%)"' in drawn
