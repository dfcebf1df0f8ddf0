"""What the language refuses: each case of refused.txt with its message and the text that its carets stand under.

A case is a title with the probe's parameters, what stands outside (up to a line of three dashes), the body, a line
`! message`, and perhaps a line `^ text`. Lines in messages count from the body's first, as `+N`.
"""

from __future__ import annotations

import re

import pytest

from tests.language.harness import Case, message_of
from tests.language.test_control import texts

CASES = [(text, number) for number, text in enumerate(texts("refused.txt"))]


@pytest.mark.parametrize("text", [text for text, _ in CASES], ids=[f"{text.title}-{number}" for text, number in CASES])
def test_refused(text):
    """The message, the carets, and the file are the probe's."""
    body, _, expected = text.body.partition("\n! ")
    message, _, carets = expected.strip("\n").partition("\n^ ")
    case = Case(body, text.parameters, text.outside, target="oldest")
    error = case.refused()
    first = case.text[: case.text.index("):\n") + 3].count("\n") + 1
    found, under = message_of(error)
    assert re.sub(r"\bline (\d+)", lambda match: f"line +{int(match[1]) - first}", found) == message
    assert error.location.file == case.file
    assert not carets or under == carets
    assert str(error).splitlines()[1].strip() == error.location.text.strip()
    assert set(str(error).splitlines()[2]) <= set(" ^")
