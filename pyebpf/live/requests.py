"""Requests of HTTP as a page makes them, checked: GET and HEAD, of this host by name, with the token; no others."""

from __future__ import annotations

import re
from hmac import compare_digest
from typing import NamedTuple

#: What a path has after the token, and a query: nothing that needs decoding.
_TARGET = re.compile(r"/([!-~]*?)/([a-z.]*)(?:\?last=(\d{1,9}))?")
_FIELD = re.compile(r"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*(.*?)[ \t]*")
METHODS = ("GET", "HEAD")


class Refused(Exception):
    """A request that is not answered: the status, and its reason."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(f"{status} {reason}")
        self.status, self.reason = status, reason


class Request(NamedTuple):
    """A request that may be answered: the name after the token, seconds that it asks for, the last message it had."""

    method: str
    name: str
    last: int | None
    last_event: int | None


def parse(head: bytes, port: int, token: str) -> Request:
    """The request of a head, which ends in an empty line. Raises Refused."""
    try:
        lines = head.decode("ascii").split("\r\n")
    except UnicodeDecodeError:
        raise Refused(400, "Bad Request") from None
    parts = lines[0].split(" ")
    if len(parts) != 3 or parts[2] not in ("HTTP/1.0", "HTTP/1.1"):
        raise Refused(400, "Bad Request")
    method, target, _ = parts
    fields: dict[str, str] = {}
    for line in lines[1:]:
        if not line:
            break
        field = _FIELD.fullmatch(line)
        if field is None:
            raise Refused(400, "Bad Request")
        name = field[1].lower()
        if name in fields and name in ("host", "origin", "content-length"):
            raise Refused(400, "Bad Request")
        fields[name] = field[2]
    # A name that somebody else's server gave this address (DNS rebinding) is not answered, whatever the path.
    hosts = (f"127.0.0.1:{port}", f"localhost:{port}")
    host = fields.get("host", "").lower()
    if host not in hosts:
        raise Refused(403, "Forbidden")
    if fields.get("origin", f"http://{host}").lower() != f"http://{host}":
        raise Refused(403, "Forbidden")
    if method not in METHODS:
        raise Refused(405, "Method Not Allowed")
    if fields.get("content-length", "0") != "0" or "transfer-encoding" in fields:
        raise Refused(413, "Content Too Large")
    path = _TARGET.fullmatch(target)
    if not compare_digest((path[1] if path else "").encode(), token.encode()) or path is None:
        raise Refused(404, "Not Found")
    last_event = fields.get("last-event-id", "")
    return Request(
        method,
        path[2],
        int(path[3]) if path[3] else None,
        int(last_event) if last_event.isdecimal() and len(last_event) < 16 else None,
    )
