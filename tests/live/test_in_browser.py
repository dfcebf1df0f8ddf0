"""The page in Chromium: it grows, pauses, filters, saves and ends, without a word on the console."""

from __future__ import annotations

import json
import signal
import time

import pytest

from tests.live.made_up import HOSTILE
from tests.support.browser import Browser
from tests.support.needs import needs

ROWS = 'document.querySelectorAll("#events tbody tr").length'
FIRST = 'document.querySelector("#events tbody td:nth-child(2)").textContent'


@pytest.fixture
def browser(tmp_path):
    needs("browser:chromium")
    with Browser(tmp_path) as made:
        yield made


def saved(folder, name):
    """The text of the file that a button saved."""
    deadline = time.monotonic() + 20
    while not (found := list(folder.glob(f"*.{name}"))):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return found[0].read_text()


def test_a_table_grows_pauses_filters_saves_and_ends(browser, live, tmp_path):
    """With names that would be elements, and a heat map beside it."""
    process, address = live("events")
    browser.open(address)
    first = browser.until(f"{ROWS} > 2 && {FIRST}")
    browser.until(f"+{FIRST} > {first}")
    browser.until(
        'document.querySelector("iframe:not(.waiting)")?.contentDocument.querySelectorAll(".cell").length > 1'
    )
    browser.press("p")
    held = browser.until(f'document.getElementById("status").textContent.includes("paused") && {FIRST}')
    time.sleep(0.5)
    assert browser.run(FIRST) == held
    browser.run('document.getElementById("filter").value = "ONERROR"')
    browser.run('document.getElementById("filter").dispatchEvent(new Event("input"))')
    names = browser.run('[...document.querySelectorAll("#events tbody td:nth-child(3)")].map(each => each.textContent)')
    assert set(names) == {"<img src=x onerror=alert(1)>\\x1b]0;\\x202e\\xff</script>\"'&"}
    assert browser.run('document.querySelectorAll("img").length') == 0
    browser.run('document.getElementById("json").click()')
    objects = [json.loads(line) for line in saved(tmp_path, "json").splitlines()]
    assert [list(each) for each in objects] == [["time", "number", "comm", "latency_ns"]] * len(names)
    assert {each["comm"] for each in objects} == {HOSTILE.replace("\udcff", "\\xff")}
    browser.run('document.getElementById("csv").click()')
    heading, *lines = saved(tmp_path, "csv").splitlines()
    assert (heading, len(lines)) == ("time,number,comm,latency_ns", len(names))
    assert "\x1b" not in "".join(lines)
    browser.press("p")
    browser.run('document.getElementById("filter").value = ""')
    browser.until(f"+{FIRST} > {held}")
    process.send_signal(signal.SIGINT)
    browser.until('document.getElementById("status").textContent === "the tool has ended"')
    assert process.wait(timeout=20) == 0
    assert browser.run(ROWS) > 2
    browser.run('document.getElementById("svg").click()')
    assert saved(tmp_path, "svg").startswith("<svg")
    assert browser.errors == []


def test_stacks_are_a_flame_graph_that_keeps_its_search(browser, live):
    """A new picture has the fragment of the one before it."""
    _, address = live("stacks", "60")
    browser.open(address)
    frame = 'document.querySelector("iframe:not(.waiting)")'
    browser.until(f"{frame}?.contentDocument.querySelectorAll('g.frame').length > 3")
    browser.run(f'{frame}.contentWindow.location.hash = "s=main"')
    browser.run(f"{frame}.old = true")
    browser.until(f"{frame} && !{frame}.old")
    assert browser.run(f"{frame}.contentDocument.querySelectorAll('g.found').length") == 2
    assert browser.errors == []


def test_histograms(browser, live):
    """The interval's text, and a heat map over time."""
    _, address = live("histograms", "0.3")
    browser.open(address)
    browser.until('document.getElementById("histograms").textContent.includes("usecs")')
    browser.until(
        'document.querySelector("iframe:not(.waiting)")?.contentDocument.querySelectorAll(".column").length > 1'
    )
    slider = 'document.getElementById("at")'
    browser.until(f"+{slider}.max > 2")
    browser.run(f"{slider}.value = 0; {slider}.dispatchEvent(new Event('input'))")
    assert "interval 1 of" in browser.run('document.getElementById("interval").textContent')
    assert browser.errors == []
