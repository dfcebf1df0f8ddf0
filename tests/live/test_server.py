"""The server: many viewers, none of which can hold up the others or the tracer; everything is bounded."""

from __future__ import annotations

import json
import socket
import threading
import time
from contextlib import contextmanager
from pathlib import Path

import pytest

from pyebpf.errors import InvalidValue
from pyebpf.live.hub import Hub
from pyebpf.live.server import Limits, Page, Server

CONTENT = b"<p>page</p>" * 1000


@contextmanager
def serving(hub=None, **limits):
    hub = Hub({"tool": "made up"}) if hub is None else hub

    def page(request):
        return Page("text/html", CONTENT, "default-src 'none'") if request.name == "" else None

    with Server(hub, page, limits=Limits(**limits)) as server:
        yield hub, server


@contextmanager
def connection(server):
    with socket.create_connection(("127.0.0.1", server.port), timeout=10) as connected:
        yield connected


def request(server, name="", method="GET", host=None, token=None, more=""):
    host = f"127.0.0.1:{server.port}" if host is None else host
    token = server.token if token is None else token
    return f"{method} /{token}/{name} HTTP/1.1\r\nHost: {host}\r\n{more}\r\n".encode()


def answer(server, data):
    """All that the server says to some bytes: the head's lines, and the content."""
    with connection(server) as connected:
        connected.sendall(data)
        found = b""
        while piece := connected.recv(1 << 16):
            found += piece
    head, _, content = found.partition(b"\r\n\r\n")
    return head.decode().split("\r\n"), content


def send_for_ever(connected):
    while True:
        connected.sendall(b"G")
        time.sleep(0.05)


def until(condition):
    deadline = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def viewer(server, stack, more=""):
    """A connection that has the events, and has read the first of them."""
    connected = stack.enter_context(connection(server))
    connected.sendall(request(server, "events", more=more))
    file = stack.enter_context(connected.makefile("rb"))
    while file.readline() != b"\r\n":
        pass
    return file


def messages(file):
    """Kinds and data of messages, as they come."""
    kind = ""
    for line in file:
        name, _, value = line.rstrip(b"\n").partition(b": ")
        if name == b"event":
            kind = value.decode()
        elif name == b"data":
            yield kind, json.loads(value)


@pytest.fixture
def stack():
    from contextlib import ExitStack

    with ExitStack() as made:
        yield made


def test_the_page_with_fields_that_keep_it_to_itself():
    """Nothing is stored, framed or referred to; HEAD has the same without the content."""
    with serving() as (_, server):
        head, content = answer(server, request(server))
        assert content == CONTENT
        assert head[0] == "HTTP/1.1 200 OK"
        assert {
            "Cache-Control: no-store", "Referrer-Policy: no-referrer", "X-Content-Type-Options: nosniff",
            "Content-Security-Policy: default-src 'none'", f"Content-Length: {len(CONTENT)}",
            "Cross-Origin-Resource-Policy: same-origin",
        } <= set(head)  # fmt: skip
        assert answer(server, request(server, method="HEAD")) == (head, b"")
        assert answer(server, request(server, "events", method="HEAD"))[1] == b""


@pytest.mark.parametrize(
    ("change", "status"),
    [
        ({"token": "0" * 32}, 404), ({"name": "x"}, 404), ({"host": "evil.example"}, 403), ({"method": "POST"}, 405),
        ({"more": "Origin: http://evil.example\r\n"}, 403), ({"more": "Content-Length: 3\r\n"}, 413),
        ({"name": "events", "token": ""}, 404), ({"name": "events", "host": "evil.example"}, 403),
    ],
)  # fmt: skip
def test_refusals_are_short_and_say_nothing(change, status):
    """Neither the token nor the page; a wrong token is answered as a wrong name is."""
    with serving() as (_, server):
        head, content = answer(server, request(server, **change))
        assert head[0].startswith(f"HTTP/1.1 {status} ")
        assert server.token not in "\n".join(head) + content.decode()
        assert len(content) < 40
        assert ("Allow: GET, HEAD" in head) == (status == 405)


def test_each_server_has_a_token_of_its_own():
    """32 digits, of the system's random numbers."""
    with serving() as (_, one), serving() as (_, other):
        assert one.token != other.token
        assert len(one.token) == 32
        assert one.address == f"http://127.0.0.1:{one.port}/{one.token}/"


def test_it_listens_on_loopback_alone():
    """At 127.0.0.1, and at no other address of this machine."""
    with serving() as (_, server), pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.2", server.port), timeout=5).close()


def test_a_port_in_use_is_an_error_of_one_line():
    """Which says what to do."""
    with serving() as (hub, server), pytest.raises(InvalidValue) as error:
        Server(hub, lambda _: None, port=server.port)
    assert str(error.value) == f"--port: {server.port} is in use; leave it out for any that is free"


def test_a_port_is_free_again_at_once():
    """Though connections were there when it was closed."""
    with serving() as (hub, server):
        answer(server, request(server))
    with Server(hub, lambda _: None, port=server.port) as again:
        assert answer(again, request(again))[0][0] == "HTTP/1.1 404 Not Found"


def test_viewers_have_the_state_then_what_was_there_and_what_comes(stack):
    """And one that comes back has what it missed."""
    with serving() as (hub, server):
        hub.publish("events", "1")
        found = messages(viewer(server, stack))
        assert [next(found) for _ in range(2)] == [("state", {"tool": "made up"}), ("events", 1)]
        hub.publish("events", "2")
        assert next(found) == ("events", 2)
        again = messages(viewer(server, stack, more="Last-Event-ID: 0\r\n"))
        assert [next(again) for _ in range(2)] == [("state", {"tool": "made up"}), ("events", 2)]


def test_fifty_viewers_have_the_same(stack):
    """Each of them all, in order."""
    with serving() as (hub, server):
        files = [viewer(server, stack) for _ in range(50)]
        until(lambda: server.viewers == 50)
        for number in range(23):
            hub.publish("events", str(number))
        hub.tell("end", reason="signal")
        for file in files:
            seen = messages(file)
            assert next(seen)[0] == "state"
            assert [next(seen) for _ in range(24)] == [
                *(("events", number) for number in range(23)), ("end", {"reason": "signal"}),
            ]  # fmt: skip


def test_a_viewer_that_stalls_costs_the_tracer_no_time_and_the_others_nothing(stack):
    """It misses what it does not take, and is told so when it goes on."""
    hub = Hub({}, size=1 << 20)
    with serving(hub) as (_, server):
        slow, quick = viewer(server, stack), messages(viewer(server, stack))
        until(lambda: server.viewers == 2)
        text = json.dumps("x" * 100_000)
        took = 0.0
        next(quick)
        for number in range(101):
            began = time.monotonic()
            hub.publish("events", text)
            took = max(took, time.monotonic() - began)
            hub.publish("number", str(number))
            assert [next(quick) for _ in range(2)] == [("events", "x" * 100_000), ("number", number)]
        assert took < 1
        assert hub.size <= 1 << 20
        stalled = messages(slow)
        missed, last = 0, None
        while last != 100:
            kind, data = next(stalled)
            missed += data["messages"] if kind == "missed" else 0
            last = data if kind == "number" else last
        assert missed > 50


def test_one_that_takes_nothing_at_all_is_let_go(stack):
    """After a time."""
    with serving(stalled_time=0.1) as (hub, server):
        file = viewer(server, stack)
        until(lambda: server.viewers == 1)
        for _ in range(80):
            hub.publish("events", json.dumps("x" * 100_000))
        until(lambda: server.viewers == 0)
        assert not file.closed


def test_requests_that_are_too_large_or_too_slow_end():
    """431 for the former; a slow one is closed, a byte now and then or none."""
    with serving(request_time=0.2) as (_, server):
        assert answer(server, b"GET / HTTP/1.1\r\nX: " + b"x" * 9000)[0][0].startswith("HTTP/1.1 431")
        assert answer(server, b"x" * 100_000)[0][0].startswith("HTTP/1.1 431")
        assert answer(server, request(server, more="X: " + "x" * 8200 + "\r\n"))[0][0].startswith("HTTP/1.1 431")
        with connection(server) as silent, connection(server) as slow:
            began = time.monotonic()
            with pytest.raises(OSError, match=r"Broken pipe|reset"):
                send_for_ever(slow)
            assert silent.recv(1) == b""
            assert 0.1 < time.monotonic() - began < 5


def test_no_more_connections_than_allowed():
    """Further ones are closed where all have the events; a place is free again when one goes."""
    with serving(connections=5) as (_, server):
        held = [socket.create_connection(("127.0.0.1", server.port), timeout=5) for _ in range(5)]
        for each in held:
            each.sendall(request(server, "events"))
        until(lambda: server.viewers == 5)
        with connection(server) as refused:
            assert refused.recv(1) == b""
        for each in held:
            each.close()
        until(lambda: not server._connections)
        assert answer(server, request(server))[1] == CONTENT


def test_who_asks_for_nothing_keeps_nobody_out():
    """Anybody on the machine can connect: the oldest connection without a request makes room."""
    with serving(connections=5, request_time=60.0) as (_, server):
        held = [socket.create_connection(("127.0.0.1", server.port), timeout=5) for _ in range(20)]
        until(lambda: len(server._connections) == 5)
        for _ in range(3):
            assert answer(server, request(server))[1] == CONTENT
        for each in held:
            each.close()


def test_leaving_it_leaves_nothing(stack):
    """No thread, no descriptor, no connection; viewers were told all before."""
    before = sorted(Path("/proc/self/fd").iterdir())
    with serving() as (hub, server):
        found = messages(viewer(server, stack))
        until(lambda: server.viewers == 1)
        hub.tell("end", reason="signal")
    assert list(found)[-1] == ("end", {"reason": "signal"})
    stack.close()
    assert sorted(Path("/proc/self/fd").iterdir()) == before
    assert not [each for each in threading.enumerate() if each.name == "pyebpf-live"]
    hub.publish("x", "1")


def test_the_end_does_not_wait_for_those_who_stall(stack):
    """A second, and no more."""
    with serving(last_events_time=0.2) as (hub, server):
        viewer(server, stack)
        until(lambda: server.viewers == 1)
        for _ in range(80):
            hub.publish("events", json.dumps("x" * 100_000))
        began = time.monotonic()
    assert time.monotonic() - began < 3


def test_bytes_of_any_kind_end_in_an_answer_or_a_close():
    """What is no request at all."""
    with serving() as (_, server):
        for data in (
            b"\r\n\r\n",
            b"\0\xff\r\n\r\n",
            b"GET\r\n\r\n",
            b"\x16\x03\x01\x02\0\r\n\r\n",
            b"A" * 20 + b"\r\n\r\n",
        ):
            assert answer(server, data)[0][0] == "HTTP/1.1 400 Bad Request"
        assert answer(server, request(server))[1] == CONTENT


def test_a_picture_that_cannot_be_drawn_is_500_and_no_more():
    """The next request is answered."""

    def page(request):
        return 1 // 0 if request.name else Page("text/html", CONTENT, "default-src 'none'")

    with Server(Hub({}), page) as server:
        assert answer(server, request(server, "x"))[0][0] == "HTTP/1.1 500 Internal Server Error: ZeroDivisionError"
        assert answer(server, request(server))[1] == CONTENT


def test_who_was_told_the_end_may_ask_for_the_last_picture(stack):
    """Though it has let the events go."""
    with serving(grace=5.0, last_answer_time=5.0) as (hub, server):
        file = viewer(server, stack)
        until(lambda: server.viewers == 1)
        hub.tell("end", reason="signal")
        closing = threading.Thread(target=server.close)
        closing.start()
        found = messages(file)
        assert [next(found)[0] for _ in range(2)] == ["state", "end"]
        file.close()
        assert answer(server, request(server))[1] == CONTENT
        server._grace = 0.0
        closing.join()
