"""Which requests are answered: GET and HEAD, of this host by name, with the token."""

from __future__ import annotations

import pytest

from pyebpf.live.requests import Refused, Request, parse

TOKEN = "0123456789abcdef"
HOST = "Host: 127.0.0.1:8000"


def head(line, *fields):
    return "\r\n".join([line, *fields, "", ""]).encode("latin-1")


def status(line, *fields):
    with pytest.raises(Refused) as refused:
        parse(head(line, *fields), 8000, TOKEN)
    return refused.value.status


def test_requests_of_the_page():
    """The page, the events from a message on, and a picture of the last seconds."""
    assert parse(head(f"GET /{TOKEN}/ HTTP/1.1", HOST), 8000, TOKEN) == Request("GET", "", None, None)
    found = parse(head(f"HEAD /{TOKEN}/events HTTP/1.1", "host:\tLocalhost:8000", "Last-Event-ID: 12"), 8000, TOKEN)
    assert found == Request("HEAD", "events", None, 12)
    found = parse(
        head(f"GET /{TOKEN}/picture.svg?last=60 HTTP/1.0", HOST, "Origin: http://127.0.0.1:8000"), 8000, TOKEN
    )
    assert found == Request("GET", "picture.svg", 60, None)


@pytest.mark.parametrize(
    "host",
    [
        (), ("Host:",), ("Host: 127.0.0.1",), ("Host: 127.0.0.1:8001",), ("Host: evil.example:8000",),
        ("Host: localhost.evil.example:8000",), ("Host: 127.0.0.1:8000.evil.example",), ("Host: [::1]:8000",),
    ],
)  # fmt: skip
def test_another_host_is_refused(host):
    """A name that leads to this address (DNS rebinding) is another host, right token or not."""
    assert status(f"GET /{TOKEN}/ HTTP/1.1", *host) == 403
    assert status("GET / HTTP/1.1", *host) == 403


@pytest.mark.parametrize(
    "origin",
    ["null", "", "http://evil.example", "https://127.0.0.1:8000", "http://127.0.0.1:8001", "http://localhost:8000"],
)
def test_another_origin_is_refused(origin):
    """Also that of a page without one."""
    assert status(f"GET /{TOKEN}/ HTTP/1.1", HOST, f"Origin: {origin}") == 403


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "CONNECT", "get", "TRACE", "PATCH"])
def test_other_methods_are_refused(method):
    """405, with any path."""
    assert status(f"{method} /{TOKEN}/ HTTP/1.1", HOST) == 405
    assert status(f"{method} /x/ HTTP/1.1", HOST) == 405


@pytest.mark.parametrize(
    "target",
    [
        "/", f"/{TOKEN}", f"/{TOKEN[:-1]}/", f"/{TOKEN}0/", f"/{TOKEN.upper()}/", f"//{TOKEN}/", "/favicon.ico",
        f"/{TOKEN}/../x", f"/{TOKEN}/%2e", f"/{TOKEN}/picture.svg?last=x", f"http://127.0.0.1:8000/{TOKEN}/", "*",
        f"/{TOKEN}/picture.svg?last=1234567890", f"/{TOKEN}/?token=1",
    ],
)  # fmt: skip
def test_what_is_not_there_says_nothing_else(target):
    """404, whether it is the token that is wrong or the name after it."""
    assert status(f"GET {target} HTTP/1.1", HOST) == 404


@pytest.mark.parametrize(
    ("line", "fields", "answer"),
    [
        ("GET /", (HOST,), 400),
        (f"GET /{TOKEN}/ HTTP/2.0", (HOST,), 400),
        (f"GET  /{TOKEN}/ HTTP/1.1", (HOST,), 400),
        (f"GET /{TOKEN}/ HTTP/1.1", (HOST, HOST), 400),
        (f"GET /{TOKEN}/ HTTP/1.1", (HOST, " folded: x"), 400),
        (f"GET /{TOKEN}/ HTTP/1.1", (HOST, "no colon"), 400),
        (f"GET /{TOKEN}/ HTTP/1.1", (HOST, "X: \xff"), 400),
        (f"GET /{TOKEN}/ HTTP/1.1", (HOST, "X: a\nb"), 400),
        (f"GET /{TOKEN}/ HTTP/1.1", (HOST, "Content-Length: 5"), 413),
        (f"GET /{TOKEN}/ HTTP/1.1", (HOST, "Transfer-Encoding: chunked"), 413),
        ("", (), 400),
    ],
)
def test_what_is_no_request_or_has_a_body_is_refused(line, fields, answer):
    """With the status that says why."""
    assert status(line, *fields) == answer
