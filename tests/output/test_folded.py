"""Folded stacks read back: what `-f` prints, and what other programs do."""

from __future__ import annotations

import pytest
from hypothesis import given, settings, strategies as st

from pyebpf.errors import MalformedData
from pyebpf.output.folded import read_folded
from pyebpf.output.stacks import LONGEST_NAME, folded_lines

names = st.text(min_size=1, max_size=6).map(lambda name: name.replace(";", ":"))
stacks = st.dictionaries(st.lists(names, min_size=1, max_size=4).map(tuple), st.integers(1, 1 << 60), max_size=6)


@settings(max_examples=50)
@given(stacks)
def test_what_tools_print_is_read_back(stacks):
    """Any name, with blanks at its ends, control characters, backslashes and bytes that are no text."""
    assert read_folded(line + "\n" for line in folded_lines(stacks)) == stacks


def test_lines_of_other_programs():
    """Equal stacks are added up, empty lines skipped, blanks in names kept; a frame may have no name."""
    assert read_folded(["a;b c 1\n", "\n", "a;b c 2\r\n", "a;;d 4"]) == {("a", "b c"): 3, ("a", "", "d"): 4}
    assert read_folded([r"C:\program;\x4g;\Uffffffff 1"]) == {(r"C:\program", r"\x4g", r"\Uffffffff"): 1}
    assert read_folded([]) == {}


@pytest.mark.parametrize("line", ["a", "a b", "a -1", " 1", "1", "a 1.5", "a \N{SUPERSCRIPT TWO}", f"a {10**20}"])
def test_lines_that_are_none(line):
    """They are told with their number."""
    with pytest.raises(MalformedData, match=r"^x\.folded: line 2 is not a folded stack: "):
        read_folded(["a 1", line], "x.folded")


@pytest.mark.parametrize("name", ["f" * 1_000_003, r"\U0001f600" * 100_003])
def test_a_name_that_is_too_long(name):
    """It is cut, with its escapes as what they stand for: a picture writes a name several times."""
    [(_, found)] = read_folded([f"app;{name} 3"])
    assert (len(found), found[-1]) == (LONGEST_NAME, "…")
    assert found[:-1] == (LONGEST_NAME - 1) * ("f" if name[0] == "f" else "\U0001f600")
