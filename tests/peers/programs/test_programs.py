"""The random programs that run beside bpftrace: pyebpf takes all of them; and their output in a known order."""

from __future__ import annotations

import pytest

from pyebpf.script import Script
from tests.peers.programs.outputs import ordered
from tests.peers.programs.scripts import Scripts
from tests.support.scripts import printed_by


@pytest.mark.parametrize("seed", range(5))
def test_a_program_prints_its_maps(seed: int) -> None:
    """Those that its first probe fills, at least."""
    assert "\n@" in printed_by(Script(Scripts(seed).script(10)), lambda _: None)


def test_programs_of_one_seed_are_the_same() -> None:
    """And those of two are not."""
    assert Scripts(1).script(5) == Scripts(1).script(5) != Scripts(2).script(5)


def test_entries_of_a_map_are_sorted() -> None:
    """With the rows of their histograms; values and `@t…`, whose order is known, are not."""
    text = "2\n1\n@a[2]: 1\n@a[1]: 1\n@t1[2]: 1\n@t1[1]: 3\n@h[2]:\n[0]  1 |@@|\n\n@h[1]:\n[1]  1 |@@|\n~b\n~a\n"
    lines = ["2", "1", "@a[1]: 1", "@a[2]: 1", "@t1[2]: 1", "@t1[1]: 3"]
    assert ordered(text, as_json=False) == [*lines, "@h[1]:\n[1]  1 |@@|", "@h[2]:\n[0]  1 |@@|", "~a", "~b"]


def test_names_in_json_are_sorted() -> None:
    """A line that is no JSON stays as it is, and what only bpftrace prints is left out."""
    text = '{"type": "map", "data": {"@a": {"2": 1, "1": 1}}}\n{"type": "stats", "data": {"@s": {}}}\n{"count": c}\n'
    assert ordered(text, as_json=True) == ['{"data": {"@a": {"1": 1, "2": 1}}, "type": "map"}', '{"count": c}']
