"""What the language refuses: each case of refused.txt with its message and the text that its carets stand under."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.language.harness import Case, message_of
from tests.support.texts import refusals

CASES = refusals(Path(__file__).with_name("refused.txt"))


@pytest.mark.parametrize("text", CASES, ids=[f"{text.title}-{number}" for number, text in enumerate(CASES)])
def test_refused(text):
    """The message, the carets, and the file are the probe's."""
    case = Case(text.body, text.parameters, text.outside, target="oldest")
    error = case.refused()
    found, under = message_of(error)
    assert text.relative(found) == text.message
    assert error.location.file == case.file
    assert not text.carets or under == text.carets
    assert str(error).splitlines()[1].strip() == error.location.text.strip()
    assert set(str(error).splitlines()[2]) <= set(" ^")
