"""What is outside the language: each case of refused.txt is refused at its place, with what to write instead."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyebpf.errors import CompileError
from tests.dsl.harness import build, message
from tests.support.texts import Refusal, refusals

CASES = refusals(Path(__file__).with_name("refused.txt"))


@pytest.mark.parametrize("case", CASES, ids=[f"{case.title}-{number}" for number, case in enumerate(CASES)])
def test_refused(case: Refusal) -> None:
    """The message, and the text that its carets stand under."""
    with pytest.raises(CompileError) as caught:
        build(case.body, case.parameters, case.outside)
    found, under = message(caught.value)
    assert (case.relative(found), under) == (case.message, case.carets)
