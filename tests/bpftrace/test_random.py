"""Scripts by chance: their parts in another order, left out, or put in, are read or refused, and nothing else."""

from __future__ import annotations

import re
from pathlib import Path

from hypothesis import given, strategies as st

from pyebpf.bpftrace.parser import parse
from pyebpf.errors import CompileError
from tests.bpftrace.unparse import unparse
from tests.support.texts import refusals

SCRIPTS = [case.body for case in refusals(Path(__file__).with_name("parsed.txt"))]
PIECES = sorted({piece for script in SCRIPTS for piece in re.findall(r"\w+|\s+|[^\w\s]+", script)})


def check(script: str | bytes) -> None:
    """A script has a tree whose other spelling has an equal one, or there is an error with a place in it."""
    try:
        tree = parse(script)
    except CompileError as error:
        tree, place, message = None, error.location, error.message
    if tree is None:
        assert place is not None
        assert place.line >= 1
        assert "\n" not in message
    else:
        assert parse(unparse(tree)) == tree


@given(st.data())
def test_pieces_of_a_script_in_another_order(data):
    """Pieces are shuffled, left out, and others put in."""
    pieces = re.findall(r"\w+|\s+|[^\w\s]", data.draw(st.sampled_from(SCRIPTS)))
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, max(len(pieces) - 1, 0)))
        match data.draw(st.sampled_from(["out", "in", "swap", "cut"])):
            case "out":
                del pieces[at : at + 1]
            case "in":
                pieces.insert(at, data.draw(st.sampled_from(PIECES)))
            case "swap" if pieces:
                other = data.draw(st.integers(0, len(pieces) - 1))
                pieces[at], pieces[other] = pieces[other], pieces[at]
            case _:
                del pieces[at:]
    check("".join(pieces))


@given(st.lists(st.sampled_from(PIECES), max_size=30))
def test_pieces_in_a_block(pieces):
    """Any pieces of scripts as a block."""
    check("BEGIN {" + "".join(pieces) + "}")


@given(st.binary(max_size=100))
def test_any_bytes(data):
    """Any bytes are a script or an error."""
    check(data)
