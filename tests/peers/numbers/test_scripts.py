"""The random scripts that run beside bpftrace: pyebpf takes all of them."""

from __future__ import annotations

import pytest

from pyebpf.script import Script
from tests.peers.numbers.scripts import Scripts
from tests.support.scripts import printed_by


@pytest.mark.parametrize("seed", range(5))
def test_a_script_prints_a_line_for_each_statement(seed: int) -> None:
    """Or more."""
    printed = printed_by(Script(Scripts(seed).script(10)), lambda _: None)
    assert len([line for line in printed.splitlines() if line]) >= 10


def test_scripts_of_one_seed_are_the_same() -> None:
    """And those of two are not."""
    assert Scripts(1).script(5) == Scripts(1).script(5) != Scripts(2).script(5)
