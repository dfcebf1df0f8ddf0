"""Statements, loops and functions in the kernel, against CPython running the same source."""

from __future__ import annotations

import pytest

from tests.language.harness import Case, Host, Oldest
from tests.language.model import run
from tests.language.test_control import CASES, samples
from tests.support.needs import needs


@pytest.mark.parametrize("target", [Host(), Oldest()], ids=["host", "oldest"])
@pytest.mark.parametrize("text", CASES, ids=[text.title for text in CASES])
def test_as_python_has_it(text, target):
    """The kernel finds what CPython finds."""
    if "b.low ^=" in text.body:
        needs("isa:atomic")  # in a map's value
    with Case(text.body, text.parameters, text.outside).loaded(target) as loaded:
        for given in samples(text.parameters, 11):
            loaded.reset()
            assert loaded.run(**given) == run(text.body, text.parameters, given, text.outside), given
