"""`pyebpf -l`: kinds of probes that every machine has, by patterns and of scripts, with bpftrace's names."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pyebpf.cli.bpftrace_list import run_list
from pyebpf.cli.report import UsageError

if TYPE_CHECKING:
    from pathlib import Path


def listed(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[str]:
    """The lines of a list."""
    assert run_list(list(arguments)) == 0
    return capsys.readouterr().out.splitlines()


@pytest.mark.parametrize(
    ("pattern", "lines"),
    [
        ("interval:*", ["interval:hz:", "interval:ms:", "interval:s:", "interval:us:"]),
        ("p:*", ["profile:hz:", "profile:ms:", "profile:s:", "profile:us:"]),
        ("software:cpu*", ["software:cpu-clock:", "software:cpu-migrations:", "software:cpu:"]),
        ("h:*-misses", ["hardware:branch-misses:", "hardware:cache-misses:"]),
        ("self:*", ["self:signal:SIGUSR1"]),
        ("s:faults,h:cycles", ["software:faults:", "hardware:cycles:"]),
        ("*ware:cpu-c*", ["hardware:cpu-cycles:", "software:cpu-clock:"]),
        ("nothing:*", []),
    ],
)  # fmt: skip
def test_patterns(capsys: pytest.CaptureFixture[str], pattern: str, lines: list[str]) -> None:
    """Kinds by their names and letters, several with a comma, of several kinds by a wildcard; none matches nothing."""
    assert listed(capsys, pattern) == lines


def test_probes_of_a_script(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Those of an argument, or of a file; BEGIN, END and signals are none."""
    text = "BEGIN { } software:cpu:10, i:s:1 { } self:signal:SIGUSR1 { } i:s:2 { }"
    (tmp_path / "a.bt").write_text(text)
    assert listed(capsys, "-e", text) == ["software:cpu:", "interval:s:"]
    assert listed(capsys, "-v", str(tmp_path / "a.bt")) == ["software:cpu:", "interval:s:"]


def test_a_file_that_is_not_there_is_a_pattern(capsys: pytest.CaptureFixture[str]) -> None:
    """With a warning in bpftrace's words."""
    assert run_list(["s:missing.bt"]) == 0
    assert capsys.readouterr().err == (
        "WARNING: It appears that 's:missing.bt' is a filename but the file does not exist. "
        "Treating 's:missing.bt' as a search pattern.\n"
        "pyebpf -l: nothing of the kind software matches 's:missing.bt'\n"
    )


@pytest.mark.parametrize(
    ("pattern", "told"),
    [
        ("sofware:cpu", "'sofware:cpu': there is no kind of probe 'sofware' (did you mean software?)"),
        ("tp_btf:x", "'tp_btf:x': there is no kind of probe 'tp_btf': write rawtracepoint:x"),
        ("s:cpu-clok", "nothing of the kind software matches 's:cpu-clok' (did you mean cpu-clock?)"),
        (
            "watchpoint:*",
            (
                "'watchpoint:*': there is nothing to list: watchpoint:ADDRESS:LENGTH:MODE { … } is at any address, "
                "with 1, 2, 4 or 8 bytes, and w, rw or x"
            ),
        ),
        (
            "bench:*",
            (
                "'bench:*': there is nothing to list: bench:NAME { … } is a probe by any name, which --mode bench runs "
                "and times"
            ),
        ),
        ("BEGIN", "'BEGIN': there is nothing to list: BEGIN { … } is what a script runs at its start"),
        ("end", "'end': there is nothing to list: END { … } is what a script runs at its end"),
        ("uprobe:nosuch:*", "there is no library or program nosuch; a path such as ./nosuch names any file"),
        ("uprobe:/no/such:*", "there is no file /no/such"),
    ],
)
def test_a_pattern_that_nothing_matches_is_told(capsys: pytest.CaptureFixture[str], pattern: str, told: str) -> None:
    """On standard error, with what is like it; the status is bpftrace's, and nothing is told of others."""
    assert run_list([f"s:faults,{pattern}"]) == 0
    assert capsys.readouterr() == ("software:faults:\n", f"pyebpf -l: {told}\n")


def test_a_probe_of_a_script_that_is_not_there_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    """The others are listed."""
    assert run_list(["-e", "uprobe:/no/such:f, uprobe:/no/such:g { } s:faults:1 { }"]) == 0
    assert capsys.readouterr() == ("software:faults:\n", "pyebpf -l: there is no file /no/such\n")


@pytest.mark.parametrize(
    ("arguments", "message"), [(["-x"], "unknown option -x"), (["uprobe:*"], "probes of programs are those of files")]
)
def test_wrong_usage(arguments: list[str], message: str) -> None:
    """An option that there is not, and a probe of no file."""
    with pytest.raises(UsageError, match=message):
        run_list(arguments)


def test_a_script_has_its_arguments(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Behind it, as when it runs: they are no patterns."""
    text = "software:faults:$1 { } interval:s:$2 { }"
    (tmp_path / "a.bt").write_text(text)
    for script in (["-e", text], [str(tmp_path / "a.bt")]):
        assert run_list([*script, "4", "5"]) == 0
        assert capsys.readouterr() == ("software:faults:\ninterval:s:\n", "")
