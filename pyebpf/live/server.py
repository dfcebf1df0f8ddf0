"""A server of one page on loopback: one thread and a selector, whatever the number of viewers.

A connection has one request. It is answered and closed, except for that of the events, which stays: it is sent what the
hub has for it when it takes something, and nothing is kept for it but the piece that it is taking. Everything about a
connection is bounded: the size of its request, and the time in which it is there, and in which the answer is taken.
"""

from __future__ import annotations

import errno
import os
import selectors
import socket
from contextlib import suppress
from math import inf
from threading import Thread
from time import monotonic
from typing import TYPE_CHECKING

from pyebpf.dataclass import dataclass, field
from pyebpf.errors import InvalidValue
from pyebpf.live.hub import frame
from pyebpf.live.requests import Refused, parse

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Self

    from pyebpf.live.hub import Hub
    from pyebpf.live.requests import Request

#: The name of the events' address.
EVENTS = "events"
#: Fields of every answer: nothing is stored, no other page may have it, and no address leaves this machine.
_FIELDS = """\
Cache-Control: no-store
Connection: close
Cross-Origin-Opener-Policy: same-origin
Cross-Origin-Resource-Policy: same-origin
Referrer-Policy: no-referrer
X-Content-Type-Options: nosniff
"""
_NOTHING = "default-src 'none'; frame-ancestors 'none'"
#: Bytes that the kernel keeps for a connection that does not take them.
_SEND_BUFFER = 1 << 17
_READ = 1 << 14


@dataclass(frozen=True)
class Limits:
    """Bounds of connections; times in seconds."""

    connections: int = 128
    request_bytes: int = 8192
    request_time: float = 5.0
    answer_time: float = 10.0  # in which something of an answer is taken
    stalled_time: float = 60.0  # the same of the events
    lingering_time: float = 1.0  # in which the other side closes after the answer
    keep_alive: float = 15.0
    # At the end: in which viewers have taken all events, in which answers are there, and the next request begins.
    last_events_time: float = 1.0
    last_answer_time: float = 5.0
    grace: float = 0.4


@dataclass(frozen=True)
class Page:
    """An answer: its type, its bytes, and the Content-Security-Policy."""

    kind: str
    content: bytes
    policy: str


@dataclass(slots=True)
class _Connection:
    """A connection: `state` is "request", "answer", "events" or "lingering"."""

    socket: socket.socket
    since: float
    state: str = "request"
    request: bytearray = field(default_factory=bytearray)
    left: memoryview = memoryview(b"")
    message: int = 0


class Server:
    """Serves what `page` gives for a request, None for what is not there, and the hub's messages.

    The constructor binds the port, any free one for 0. Raises InvalidValue for one that is in use. As a context it
    serves; leaving it closes everything.
    """

    def __init__(
        self, hub: Hub, page: Callable[[Request], Page | None], *, port: int = 0, limits: Limits | None = None
    ) -> None:
        self._hub, self._page, self._limits = hub, page, limits or Limits()
        self.token = os.urandom(16).hex()
        self._listener = _listener(port)
        self.port: int = self._listener.getsockname()[1]
        self._connections: dict[int, _Connection] = {}
        self._selector = selectors.DefaultSelector()
        self._wake_read, self._wake_write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._ending = False
        self._ended_at = self._grace = 0.0
        self._paused_until = 0.0
        self._last_viewer = -inf
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._selector.register(self._wake_read, selectors.EVENT_READ)
        self._thread = Thread(target=self._run, name="pyebpf-live", daemon=True)

    @property
    def address(self) -> str:
        """The page's address."""
        return f"http://127.0.0.1:{self.port}/{self.token}/"

    def __enter__(self) -> Self:
        self._hub.wake = self._wake
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let viewers have what there is to have, within bounds, and close everything."""
        self._ended_at = monotonic()
        # A page that was told the end has let its events go.
        is_watched = self.viewers or self._ended_at - self._last_viewer < 1.0
        self._grace = self._limits.grace if is_watched else 0.0
        self._ending = True
        if self._thread.is_alive():
            self._wake()
            self._thread.join()
        self._hub.wake = lambda: None
        for each in list(self._connections.values()):
            self._close(each)
        self._selector.close()
        self._listener.close()
        for descriptor in (self._wake_read, self._wake_write):
            if descriptor >= 0:
                os.close(descriptor)
        self._wake_read = self._wake_write = -1

    @property
    def viewers(self) -> int:
        """Connections that have the events."""
        return sum(each.state == "events" for each in list(self._connections.values()))

    def _wake(self) -> None:
        with suppress(BlockingIOError):  # a full pipe is readable all the same
            os.write(self._wake_write, b"\0")

    def _run(self) -> None:
        limits, swept = self._limits, monotonic()
        period = min(limits.request_time, limits.lingering_time, limits.keep_alive, 1.0) / 2
        idle_since: float | None = None
        while True:
            for key, events in self._selector.select(0.05 if self._ending else period):
                if key.fileobj is self._listener:
                    self._accept()
                elif key.fd == self._wake_read:
                    os.read(self._wake_read, 4096)
                    self._tell()
                elif key.fd in self._connections:
                    self._serve(self._connections[key.fd], events)
            now = monotonic()
            if now - swept >= period or self._ending:
                swept = now
                self._sweep(now)
            if self._ending:
                idle_since = None if self._is_busy(now - self._ended_at) else idle_since or now
                # Whoever was told the end may ask for the last picture.
                if idle_since is not None and now - idle_since >= self._grace:
                    return

    def _is_busy(self, waited: float) -> bool:
        """Whether somebody takes something, and may so long after the end."""
        limits = self._limits
        return any(
            waited < limits.last_events_time if each.state == "events" else waited < limits.last_answer_time
            for each in self._connections.values()
            if each.left or each.request
        )

    def _accept(self) -> None:
        try:
            connected, _ = self._listener.accept()
        except OSError as error:
            if error.errno in (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM):
                self._selector.unregister(self._listener)  # it stays readable: `_sweep` tries again
                self._paused_until = monotonic() + 1.0
            return
        if len(self._connections) >= self._limits.connections:
            # Who has not asked for anything yet, or has been answered: anybody on this machine can hold such.
            idle = next((each for each in self._connections.values() if each.state in ("request", "lingering")), None)
            if idle is None:
                connected.close()
                return
            self._close(idle)
        connected.settimeout(0)
        connected.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BUFFER)
        connection = _Connection(connected, monotonic())
        self._connections[connected.fileno()] = connection
        self._selector.register(connected, selectors.EVENT_READ)

    def _sweep(self, now: float) -> None:
        """Close what is too slow, and see that those are alive that have nothing to take."""
        limits = self._limits
        if self._paused_until and now >= self._paused_until:
            self._paused_until = 0.0
            self._selector.register(self._listener, selectors.EVENT_READ)
        times = {"request": limits.request_time, "answer": limits.answer_time, "lingering": limits.lingering_time}
        for each in list(self._connections.values()):
            waited = now - each.since
            if each.state != "events":
                if waited > times[each.state]:
                    self._close(each)
            elif each.left:
                if waited > limits.stalled_time:
                    self._close(each)
            elif waited > limits.keep_alive:
                self._send(each, b": alive\n\n")

    def _tell(self) -> None:
        """Give the messages to all who wait for some."""
        for each in list(self._connections.values()):
            if each.state == "events" and not each.left:
                self._more(each)

    def _serve(self, connection: _Connection, events: int) -> None:
        if events & selectors.EVENT_READ:
            try:
                data = connection.socket.recv(_READ)
            except BlockingIOError:
                data = None
            except OSError:
                data = b""
            if data == b"":
                self._close(connection)
                return
            if data and connection.state == "request":
                connection.request += data
                self._read(connection)
        if events & selectors.EVENT_WRITE and connection.left:
            self._write(connection)

    def _read(self, connection: _Connection) -> None:
        request = connection.request
        end = request.find(b"\r\n\r\n")
        if end < 0 and len(request) <= self._limits.request_bytes:
            return
        connection.request = bytearray()
        try:
            asked = self._asked(request, end)
            if asked.name == EVENTS:
                self._begin_events(connection, asked)
                return
            page = self._found(asked)
            head = _head(200, "OK", page.kind, len(page.content), page.policy)
            self._answer(connection, head, page.content, asked.method)
        except Refused as refused:
            content = f"{refused.reason}\n".encode()
            head = _head(refused.status, refused.reason, "text/plain; charset=utf-8", len(content), _NOTHING)
            self._answer(connection, head, content, "HEAD" if request.startswith(b"HEAD ") else "GET")

    def _asked(self, request: bytearray, end: int) -> Request:
        if not 0 <= end <= self._limits.request_bytes:
            raise Refused(431, "Request Header Fields Too Large")
        return parse(bytes(request[: end + 4]), self.port, self.token)

    def _found(self, asked: Request) -> Page:
        try:
            page = self._page(asked)
        except Exception as error:  # a picture that cannot be drawn is no reason to leave all viewers
            raise Refused(500, f"Internal Server Error: {type(error).__name__}") from error
        if page is None:
            raise Refused(404, "Not Found")
        return page

    def _begin_events(self, connection: _Connection, asked: Request) -> None:
        head = _head(200, "OK", "text/event-stream", None, _NOTHING)
        if asked.method == "HEAD":
            self._answer(connection, head, b"", asked.method)
            return
        connection.state = "events"
        # What was gone when a page was opened is nothing that it missed.
        connection.message = self._hub.first if asked.last_event is None else asked.last_event + 1
        self._send(connection, head + b"retry: 1000\n\n" + self._hub.greeting())

    def _answer(self, connection: _Connection, head: bytes, content: bytes, method: str) -> None:
        connection.state = "answer"
        self._send(connection, head if method == "HEAD" else head + content)

    def _send(self, connection: _Connection, data: bytes) -> None:
        connection.left, connection.since = memoryview(data), monotonic()
        self._write(connection)

    def _write(self, connection: _Connection) -> None:
        """Send what the other side takes now."""
        try:
            sent = connection.socket.send(connection.left)
        except BlockingIOError:
            sent = 0
        except OSError:
            self._close(connection)
            return
        if sent:
            connection.left, connection.since = connection.left[sent:], monotonic()
        self._selector.modify(
            connection.socket, selectors.EVENT_READ | (selectors.EVENT_WRITE if connection.left else 0)
        )
        if connection.left:
            return
        if connection.state == "events":
            self._more(connection)
        elif connection.state == "answer":
            # What was sent may be lost if this side closes with something unread.
            connection.state = "lingering"
            try:
                connection.socket.shutdown(socket.SHUT_WR)
            except OSError:
                self._close(connection)

    def _more(self, connection: _Connection) -> None:
        """Send what the hub has for a viewer that took all before."""
        data, number, gone = self._hub.read(connection.message)
        connection.message = number
        if gone:
            data = frame("missed", f'{{"messages": {gone}}}') + data
        if data:
            connection.left, connection.since = memoryview(data), monotonic()
            self._selector.modify(connection.socket, selectors.EVENT_READ | selectors.EVENT_WRITE)

    def _close(self, connection: _Connection) -> None:
        if self._connections.pop(connection.socket.fileno(), None) is None:
            return
        connection.left = memoryview(b"")
        if connection.state == "events":
            self._last_viewer = monotonic()
        self._selector.unregister(connection.socket)
        connection.socket.close()


def _listener(port: int) -> socket.socket:
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
    try:
        # Connections that were closed lately do not keep the port.
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", port))
        listener.listen(64)
    except OSError as error:
        listener.close()
        if error.errno == errno.EADDRINUSE:
            raise InvalidValue(f"--port: {port} is in use; leave it out for any that is free") from None
        raise InvalidValue(f"--port: {port} cannot be opened: {error.strerror}") from None
    return listener


def _head(status: int, reason: str, kind: str, length: int | None, policy: str) -> bytes:
    allow = "Allow: GET, HEAD\n" if status == 405 else ""
    size = "" if length is None else f"Content-Length: {length}\n"
    text = (
        f"HTTP/1.1 {status} {reason}\nContent-Type: {kind}\n{size}{allow}Content-Security-Policy: {policy}\n{_FIELDS}\n"
    )
    return text.replace("\n", "\r\n").encode("ascii")
