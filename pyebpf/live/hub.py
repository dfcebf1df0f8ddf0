"""The messages of a run, one list for all viewers: the newest are kept, and each viewer reads on from where it is.

So a viewer that stalls costs no memory and nobody's time: what it missed by then is gone, and it is told how much.
"""

from __future__ import annotations

import json
from collections import deque
from threading import Lock
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

#: Messages that are kept, and their bytes.
MAX_MESSAGES, MAX_BYTES = 4096, 8 << 20
#: Rows of one message, and their bytes.
MAX_ROWS, MAX_ROW_BYTES = 2000, 1 << 20
#: Characters of one text.
MAX_TEXT = 4096
#: Bytes that a viewer is given at a time.
CHUNK = 1 << 16


def frame(kind: str, data: str, number: int | None = None) -> bytes:
    """A message as Server-Sent Events have it; `data` is JSON in one line of ASCII."""
    identity = "" if number is None else f"id: {number}\n"
    return f"{identity}event: {kind}\ndata: {data}\n\n".encode("ascii")


def cut(value: object) -> object:
    """A plain value whose texts are not longer than MAX_TEXT, and whose lists have no more items than that."""
    if isinstance(value, str):
        return value if len(value) <= MAX_TEXT else f"{value[:MAX_TEXT]}…"
    if isinstance(value, list):
        return [cut(item) for item in value[:MAX_TEXT]]
    if isinstance(value, dict):
        return {name: cut(item) for name, item in value.items()}
    return value


def encoded_rows(rows: Iterable[Sequence[object]]) -> tuple[str, int]:
    """Rows as JSON, as many as one message has room for, and how many are left out."""
    found: list[str] = []
    size = left_out = 0
    for row in rows:
        if left_out or len(found) >= MAX_ROWS:
            left_out += 1
            continue
        text = json.dumps([cut(value) for value in row])
        size += len(text)
        if size > MAX_ROW_BYTES:
            left_out += 1
        else:
            found.append(text)
    return f"[{','.join(found)}]", left_out


class Hub:
    """The messages, numbered from 0 on. `publish` is for the tracer's thread, and never waits for a viewer.

    `wake` is called after each message. `state` is what a viewer is told first, whenever it comes.
    """

    def __init__(self, state: Mapping[str, Any], *, messages: int = MAX_MESSAGES, size: int = MAX_BYTES) -> None:
        self.wake: Callable[[], None] = lambda: None
        self._lock = Lock()
        self._state = dict(state)
        self._kept: deque[bytes] = deque()
        self._first = self._size = 0
        self._messages, self._max_size = messages, size

    @property
    def size(self) -> int:
        """Bytes of the messages that are kept."""
        return self._size

    @property
    def first(self) -> int:
        """The number of the oldest message that is kept."""
        return self._first

    @property
    def end(self) -> int:
        """The number of the next message."""
        return self._first + len(self._kept)

    def publish(self, kind: str, data: str) -> None:
        """Add a message; `data` is JSON in one line of ASCII."""
        with self._lock:
            message = frame(kind, data, self.end)
            self._kept.append(message)
            self._size += len(message)
            while len(self._kept) > self._messages or (self._size > self._max_size and len(self._kept) > 1):
                self._size -= len(self._kept.popleft())
                self._first += 1
        self.wake()

    def tell(self, kind: str, **data: object) -> None:
        """Add a message that is part of the state from now on: whoever comes later is told, too."""
        with self._lock:
            self._state[kind] = data
        self.publish(kind, json.dumps(data))

    def greeting(self) -> bytes:
        """The state as a message without a number."""
        with self._lock:
            return frame("state", json.dumps(self._state))

    def read(self, number: int) -> tuple[bytes, int, int]:
        """Messages from a number on, the number after them, and how many before them are gone; empty if none is there.

        They are one message, or as many as CHUNK has room for.
        """
        with self._lock:
            gone = max(self._first - number, 0)
            number = min(max(number, self._first), self.end)
            chunk: list[bytes] = []
            size = 0
            for index in range(number - self._first, len(self._kept)):
                message = self._kept[index]
                if chunk and size + len(message) > CHUNK:
                    break
                chunk.append(message)
                size += len(message)
        return b"".join(chunk), number + len(chunk), gone
