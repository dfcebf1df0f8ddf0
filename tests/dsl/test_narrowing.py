"""What tests teach of a value that may be None, behind loops and the ways out of them."""

from __future__ import annotations

import textwrap

import pytest

from pyebpf.errors import CompileError
from tests.dsl.harness import build

TAUGHT = {
    "while that returns": """
        x = counts.get(3)
        while x is None:
            return
        signed[1] = x
    """,
    "while that returns on both ways": """
        x = records.get(3)
        while x is None:
            if pid() == 3:
                signed[1] = 1
                return
            else:
                return
        signed[1] = x.limit
    """,
    "while true around the test": """
        x = records.get(3)
        while True:
            if x is None:
                return
            break
        signed[1] = x.limit
    """,
    "continue": """
        for i in range(8):
            x = counts.get(i)
            if x is None:
                continue
            signed[i] = x
    """,
    "break": """
        for i in range(8):
            x = records.get(i)
            if x is None:
                break
            signed[i] = x.limit
    """,
    "continue of a loop that is written out": """
        for i in (1, 2):
            x = records.get(i)
            if x is None:
                continue
            signed[i] = x.limit
    """,
    "continue and break of a loop over a map": """
        for key in counts:
            x, y = records.get(key), signed.get(key)
            if x is None:
                continue
            if None is y:
                break
            signed[y & 7] = x.limit
    """,
    "a reference tested around a loop over a map": """
        x = records.get(3)
        if x is None:
            return
        for key in counts:
            x.limit += key
        signed[1] = x.limit
    """,
    "or": """
        x, y = counts.get(1), counts.get(2)
        if x is None or y is None or x > 5:
            return
        signed[1] = x + y
    """,
    "match": """
        x = counts.get(1)
        match x:
            case None:
                return
            case 5:
                signed[1] = x
            case _:
                signed[2] = x
    """,
}

UNKNOWN = {
    "while that breaks": """
        x = records.get(3)
        while x is None:
            break
        signed[1] = x.limit
    """,
    "for that returns, of which there may be no round": """
        x = records.get(3)
        for key in counts:
            if x is None:
                return
        signed[1] = x.limit
    """,
    "a reference found in a loop over a map": """
        x = records.get(3)
        if x is None:
            return
        for key in counts:
            x = records.get(key)
            if x is None:
                break
        signed[1] = x.limit
    """,
}


@pytest.mark.parametrize("body", TAUGHT.values(), ids=TAUGHT)
def test_taught(body: str) -> None:
    """Behind these the value is used without another test."""
    build(textwrap.dedent(body))


@pytest.mark.parametrize("body", UNKNOWN.values(), ids=UNKNOWN)
def test_unknown(body: str) -> None:
    """Behind these it may be None."""
    with pytest.raises(CompileError, match="may be None: test it with `is None` first"):
        build(textwrap.dedent(body))
