"""Every message of the language, with the place that it points to."""

from __future__ import annotations

import ast
import textwrap

import pytest

from pyebpf.dsl.translate import refusals
from pyebpf.errors import CompileError
from tests.dsl.harness import build, message

COMPREHENSION = "a comprehension over what only each event knows can't be built: write a `for` loop"

#: What is refused (statements of a probe with the parameters count, a u64, and delta, an s64), the message, what the
#: carets stand under.
SYNTAX = [
    (
        "def f(): pass",
        "a function can't be defined inside a probe: define it outside; a plain function is inlined where it is called",
        "def f(): pass",
    ),
    (
        "async def f(): pass",
        "a function can't be defined inside a probe: define it outside, without `async`",
        "async def f(): pass",
    ),
]


@pytest.mark.parametrize(("body", "expected", "under"), SYNTAX)
def test_syntax(body: str, expected: str, under: str) -> None:
    with pytest.raises(CompileError) as caught:
        build(body, "count, delta")
    assert message(caught.value) == (expected, under)
