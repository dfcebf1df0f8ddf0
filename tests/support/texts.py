"""Cases of the language as text.

A case begins with a line `=== title (parameters)`. Then comes what stands outside the probe, up to a line of three
dashes, and the body. A case that is refused ends with a line `! message`, and perhaps a line `^ text` with what the
carets stand under. Lines in messages count from the body's first, as `+N`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

#: Lines between what stands outside and the body: the decorator and `def`.
HEAD = 2


class Text(NamedTuple):
    """One case."""

    title: str
    parameters: str
    outside: str
    body: str


class Refusal(NamedTuple):
    """One case that is refused; `carets` is "" where the case does not say."""

    title: str
    parameters: str
    outside: str
    body: str
    message: str
    carets: str

    def relative(self, message: str) -> str:
        """A message with its lines counted from the body's first."""
        first = self.outside.count("\n") + 2 + HEAD
        return re.sub(r"\bline (\d+)", lambda match: f"line +{int(match[1]) - first}", message)


def texts(path: Path) -> Iterator[Text]:
    """The cases of a file."""
    for section in re.split(r"^=== ", path.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]:
        heading, _, rest = section.partition("\n")
        title, _, parameters = heading.removesuffix(")").partition(" (")
        outside, _, body = rest.rpartition("\n---\n")
        yield Text(title, parameters, outside, body)


def refusals(path: Path) -> list[Refusal]:
    """The cases of a file, all of which are refused."""
    found = []
    for text in texts(path):
        body, _, expected = text.body.partition("\n! ")
        message, _, carets = expected.strip("\n").partition("\n^ ")
        found.append(Refusal(text.title, text.parameters, text.outside, body, message, carets))
    return found
