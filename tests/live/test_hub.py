"""The messages of a run: bounded, numbered, read by each viewer at its own pace."""

from __future__ import annotations

import json

from pyebpf.live.hub import MAX_ROW_BYTES, MAX_ROWS, MAX_TEXT, Hub, cut, encoded_rows


def test_messages_are_frames_of_server_sent_events():
    """A number, a kind, and JSON in one line."""
    hub = Hub({"tool": "a"})
    hub.publish("events", '{"rows": []}')
    hub.tell("end", message="a\nb\u2028")
    data, number, gone = hub.read(0)
    assert data == (
        b'id: 0\nevent: events\ndata: {"rows": []}\n\nid: 1\nevent: end\ndata: {"message": "a\\nb\\u2028"}\n\n'
    )
    assert (number, gone) == (2, 0)
    assert hub.read(2) == (b"", 2, 0)


def test_what_is_told_is_in_the_state_of_those_who_come_later():
    """The greeting has it, the newest of each kind."""
    hub = Hub({"tool": "a"})
    hub.tell("picture", version=1)
    hub.tell("picture", version=2)
    assert json.loads(hub.greeting().decode().partition("data: ")[2]) == {"tool": "a", "picture": {"version": 2}}


def test_memory_is_bounded_and_a_viewer_is_told_what_it_missed():
    """By messages and by bytes; the newest stay."""
    hub = Hub({}, messages=10, size=10_000)
    for number in range(101):
        hub.publish("x", str(number))
    assert hub.first == 91
    data, number, gone = hub.read(3)
    assert (number, gone) == (101, 88)
    assert data.startswith(b"id: 91\n")
    for _ in range(11):
        hub.publish("x", "0" * 3000)
        assert hub.size <= 10_000
    hub.publish("x", "0" * 20_000)
    assert (hub.first, hub.end) == (112, 113)


def test_a_number_that_never_was_reads_on_from_the_end():
    """A page of another run, or one that invents it."""
    hub = Hub({})
    hub.publish("x", "1")
    assert hub.read(1 << 40) == (b"", 1, 0)


def test_rows_have_bounds():
    """In their number, in their size, in the length of a text; the rest is counted."""
    text, left_out = encoded_rows([number] for number in range(MAX_ROWS + 3))
    assert (len(json.loads(text)), left_out) == (MAX_ROWS, 3)
    text, left_out = encoded_rows(["x" * MAX_TEXT * 2] * 10 for _ in range(101))
    assert len(text) <= MAX_ROW_BYTES + 200
    assert len(json.loads(text)) + left_out == 101
    assert cut({"a": ["x" * MAX_TEXT, "y" * (MAX_TEXT + 1)]}) == {"a": ["x" * MAX_TEXT, "y" * MAX_TEXT + "…"]}
