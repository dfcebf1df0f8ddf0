"""How a command line of scripts is read."""

from __future__ import annotations

import pytest

from pyebpf.cli.bpftrace_options import apart


@pytest.mark.parametrize(
    ("words", "read"),
    [
        (["-qe", "BEGIN { }", "-5"], ["-q", "-e", "BEGIN { }", "-5"]),
        (["-qeBEGIN", "-vk"], ["-q", "-e", "BEGIN", "-v", "-k"]),
        (["-e", "-qv"], ["-e", "-qv"]),
        (["-p12", "-o-q", "-o", "-qv", "-"], ["-p", "12", "-o", "-q", "-o", "-qv", "-"]),
        (["-lv", "a"], ["-l", "-v", "a"]),
        (["-xq", "--quiet", "-qxv", "-q", "--", "-qv"], ["-xq", "--quiet", "-q", "-xv", "-q", "--", "-qv"]),
        (["-e"], ["-e"]),
    ],
)
def test_letters_stand_together(words: list[str], read: list[str]) -> None:
    """As getopt(3) takes them: the last may have a value, in the same word or in the next one."""
    assert apart(words) == read
