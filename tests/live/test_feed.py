"""From records to messages."""

from __future__ import annotations

import json

from pyebpf.live import feed
from pyebpf.live.feed import Events, Intervals
from pyebpf.live.hub import MAX_ROWS, Hub
from pyebpf.live.pictures import EventHeat
from pyebpf.output.histogram import log2
from tests.live.made_up import COLUMNS, HOSTILE, Event


def told(hub):
    """The kinds and data of a hub's messages."""
    text = hub.read(0)[0].decode("ascii")
    parts = [each.split("\n") for each in text.split("\n\n") if each]
    return [(kind.partition(": ")[2], json.loads(data.partition(": ")[2])) for _, kind, data in parts]


def test_events_have_the_keys_and_values_of_json():
    """The time first; a name is whatever bytes it has, with lone surrogates escaped."""
    hub = Hub({})
    events = Events(hub, COLUMNS, lambda record: record.number, lambda time: f"at {time}")
    assert events.fields == ["time", "number", "comm", "latency_ns"]
    events.add(Event(1, HOSTILE, 2000))
    [(kind, data)] = told(hub)
    assert (kind, data["left_out"]) == ("events", 0)
    [[time, number, comm, latency]] = data["rows"]
    assert (time, number, latency) == ("at 1", 1, 2000)
    assert comm == HOSTILE.replace("\udcff", "\\xff")


def test_events_that_come_fast_are_told_together(monkeypatch):
    """The newest of them; the others are counted, and are in the picture all the same."""
    hub, picture = Hub({}), EventHeat("title", str)
    events = Events(hub, COLUMNS, lambda record: record.number, str, picture)
    monkeypatch.setattr(feed, "PERIOD", 3600.0)
    for number in range(MAX_ROWS + 24):
        events.add(Event(number, "cat", 1000))
    assert [kind for kind, _ in told(hub)] == ["events", "picture"]
    assert 3590 < events.tick() <= 3600
    events.flush()
    data = told(hub)[2][1]
    assert len(data["rows"]) == MAX_ROWS
    assert data["left_out"] == 23
    assert data["rows"][-1][1] == MAX_ROWS + 23
    assert f"{MAX_ROWS + 24:,} events" in picture.svg()
    assert events.tick() == 3600


def test_what_waits_is_told_when_it_is_due(monkeypatch):
    """By a tick, without another event."""
    hub = Hub({})
    events = Events(hub, COLUMNS, lambda record: record.number, str)
    monkeypatch.setattr(feed, "PERIOD", 0.0)
    events.add(Event(1, "cat", 1))
    events._due = float("inf")
    events.add(Event(2, "cat", 1))
    assert len(told(hub)) == 1
    events._due = 0.0
    events.tick()
    assert len(told(hub)) == 2


def test_intervals_of_rows_and_of_histograms():
    """Rows have values by column; histograms their text and their objects, those of the tool's own output."""
    hub = Hub({})
    rows = Intervals(hub, COLUMNS)
    rows.add("then", "heading", [Event(1, "cat", 2), Event(2, "dog", 3)])
    Intervals(hub, ()).add("then", None, [log2([0, 2, 5], unit="usecs", labels={"disk": "a b"})])
    (_, first), (_, second) = told(hub)
    assert rows.fields == ["number", "comm", "latency_ns"]
    assert first == {"time": "then", "heading": "heading", "rows": [[1, "cat", 2], [2, "dog", 3]], "left_out": 0}
    assert second["text"].startswith("disk = 'a b'\n     usecs")
    assert second["objects"] == [
        {
            "time": "then", "disk": "a b", "unit": "usecs",
            "buckets": [{"low": 1, "high": 1, "count": 2}, {"low": 2, "high": 3, "count": 5}],
        }
    ]  # fmt: skip
