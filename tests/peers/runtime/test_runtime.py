"""bpftrace's run-time tests pass, but for those that are explained; and the parts of the program that runs them.

Where `BPFTRACE_TESTS` names the folder `tests` of bpftrace's sources, a few of them are run here; `python -m
tests.peers.runtime` runs all.
"""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import pytest

from tests.peers.runtime.__main__ import table
from tests.peers.runtime.bpftrace import arguments
from tests.peers.runtime.cases import parse, read
from tests.peers.runtime.driver import outcome
from tests.peers.runtime.explanations import explained
from tests.peers.runtime.possible import needs_program
from tests.support.descriptors import why_bpf_is_refused
from tests.support.needs import unless

#: Files of theirs that are run as a test of this project.
FILES = ("precedence", "bool")


@pytest.mark.parametrize("suite", FILES)
def test_theirs(suite: str) -> None:
    """All of a file pass here, or are explained."""
    folder = os.environ.get("BPFTRACE_TESTS", "")
    unless(folder, "setting:BPFTRACE_TESTS")
    unless(why_bpf_is_refused() is None, "user:root")
    cases = [each for each in read(Path(folder)) if each.suite == suite]
    assert cases
    found = {each.id: outcome(each, Path(folder)) for each in cases}
    assert {name: each.why for name, each in found.items() if each.kind == "failed"}.keys() <= explained().keys()


def test_a_file_is_read() -> None:
    """Blocks, comments, and lines that go on: of a program, and of an expectation."""
    text = """# about the first
NAME one
PROG begin
     { exit(); }
EXPECT a
       b
EXPECT_REGEX_NONE x+
TIMEOUT 2
ENV A=1 B=2

NAME two words
RUN {{BPFTRACE}} -l
RETURN_CODE 3
ARCH x86_64|!be
WILL_FAIL
"""
    one, two = parse(text, "file")
    assert (one.id, one.program, one.timeout) == ("file.one", "begin\n{ exit(); }", 2)
    assert one.expects == [("EXPECT", "a\nb"), ("EXPECT_REGEX_NONE", "x+")]
    assert one.environment == {"A": "1", "B": "2"}
    assert (two.id, two.run, two.status, two.will_fail) == ("file.two words", "{{BPFTRACE}} -l", 3, True)
    assert two.is_for("x86_64", "le")
    assert not two.is_for("aarch64", "le")
    assert not two.is_for("x86_64", "be")
    with pytest.raises(ValueError, match="file: there is no directive NAMES"):
        parse("NAMES x", "file")


@pytest.mark.parametrize(
    ("given", "ours"),
    [
        ("-q -f json -e SCRIPT 5", "-e SCRIPT -q -f json 5"),
        ("-e SCRIPT --cmd true --verify-llvm-ir", "-e SCRIPT -c true"),
        ("file.bt -- --a=1", "run file.bt -- --a=1"),
        ("-l kprobe:*", "-l kprobe:*"),
        ("-lv kprobe:*", "-l -v kprobe:*"),
        ("-e SCRIPT -5", "-e SCRIPT -5"),
    ],
)
def test_options_of_bpftrace_are_given_to_pyebpf(given: str, ours: str) -> None:
    """In the order in which pyebpf takes them."""
    assert arguments(given.split()) == ours.split()


def test_a_program_of_theirs_is_run_where_it_is_built(tmp_path: Path) -> None:
    """A test needs one that is not."""
    (case,) = parse("NAME one\nPROG begin { }\nAFTER ./testprogs/a-pie --x ./testprogs/b\nEXPECT x\n", "file")
    assert needs_program(case, tmp_path)
    (tmp_path / "testprogs").mkdir()
    for name in ("a-pie", "b"):
        assert needs_program(case, tmp_path)
        (tmp_path / "testprogs" / name).touch()
    assert not needs_program(case, tmp_path)


def test_the_table_has_the_share() -> None:
    """Of those that were tried: a refusal in other words passes, an explanation does not."""
    counts = {"a": Counter(passed=7, refused=1), "b": Counter(failed=1, explained=1, program=9)}
    assert table(counts).splitlines()[-1] == "8 of 10 that need no test program: 80.0 %"


def test_every_explanation_says_why() -> None:
    """After the file and name of a test."""
    assert all("." in name and len(why) > 10 for name, why in explained().items())
