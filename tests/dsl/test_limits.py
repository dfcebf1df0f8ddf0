"""What a probe can't hold or Python would count otherwise: refused at its place, with what to write instead."""

from __future__ import annotations

import pytest

from pyebpf.errors import CompileError
from tests.dsl.harness import build, message
from tests.dsl.test_meaning import results

TEXT = (
    "'é' is not ASCII, and the texts of a probe are bytes, not characters: write .encode() behind it for its bytes, or "
    "compute this above the probe"
)
SINGLETON = (
    "`case {0}` is for conditions and fields of type bool, and {1} is neither: write `case {0:d}` to compare the number"
)


@pytest.mark.parametrize(
    "body", ['results[0] = len("é")', 's = "é"\nresults[0] = len(s)', 'x = "é"[0]', 'x = "é"[0:1]']
)
def test_a_text_that_is_not_ascii_is_not_counted(body):
    with pytest.raises(CompileError) as caught:
        build(body)
    assert message(caught.value)[0] == TEXT


def test_texts_whose_bytes_are_characters_are_counted():
    """So are the bytes of others."""
    body = 'results[0] = len("ab")\nresults[1] = len("é".encode())\nresults[2] = "abc"[1:] == "bc"'
    assert results(body) == [2, 2, 1]


@pytest.mark.parametrize(
    ("body", "number", "what"),
    [
        ("match count:\n    case True: pass", True, "a u64"),
        ("match delta:\n    case False: pass", False, "an s64"),
        ("match delta:\n    case 3 | True: pass", True, "an s64"),
        ("match (count, delta):\n    case (1, True): pass", True, "an s64"),
    ],
)
def test_a_number_is_never_true_itself(body, number, what):
    """Python compares by `is`."""
    with pytest.raises(CompileError) as caught:
        build(body, "count, delta: s64")
    assert message(caught.value)[0] == SINGLETON.format(number, what)
