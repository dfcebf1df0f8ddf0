"""Parameters and settings that are given to a script from outside; and small functions and builtins."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from pyebpf.errors import CompileError
from pyebpf.script import Script
from tests.dsl.fake_target import FakeTarget
from tests.support.scripts import printed, printed_by

if TYPE_CHECKING:
    from pathlib import Path


def test_parameters_stand_in_attach_points() -> None:
    """The kind of a probe, and its parts."""
    (program,) = Script("$1:s:$2 { }", ["interval", "5"]).compile(FakeTarget()).programs
    assert "5" in str(program.attach)
    (program,) = Script("$1 { }", ["interval:s:5"]).compile(FakeTarget()).programs
    assert "5" in str(program.attach)


@pytest.mark.parametrize(("text", "number"), [("0775", 509), ("0x1f", 31), ("-4", -4), ("1e3", 1000)])
def test_a_parameter_is_a_number_as_a_script_writes_it(text: str, number: int) -> None:
    """Octal, hexadecimal, with an exponent."""
    assert printed("BEGIN { print($1); }", arguments=[text]) == f"{number}\n"


def test_settings_from_outside_go_first() -> None:
    """Before those of the config block, which are as they were."""
    text = 'config = { max_strlen = 8; print_maps_on_exit = 0 } BEGIN { @ = 1; printf("%s|", str("abcdefghij")); }'
    assert Script(text, settings={"max_strlen": "16"})._script.script.settings.max_strlen == 16
    assert Script(text, settings={"no_such": "1"})._script.script.settings.max_strlen == 8


def test_cat_ends_at_its_limit(tmp_path) -> None:
    """`max_cat_bytes`."""
    (tmp_path / "file").write_text("abcdef")
    script = Script(f'config = {{ max_cat_bytes = 3 }} BEGIN {{ cat("{tmp_path}/file"); }}')
    assert printed_by(script, lambda _: None) == "abc"


def test_a_file_that_cannot_be_read_is_told_on_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    """In bpftrace's words; nothing is printed."""
    assert printed('BEGIN { cat("/nowhere"); print(1); }') == "1\n"
    assert capsys.readouterr().err == "ERROR: failed to open file '/nowhere' (No such file or directory)\n"


def test_a_header_stands_beside_the_script(tmp_path: Path) -> None:
    """Its constants, structs and enums are the script's."""
    (tmp_path / "own.h").write_text("#define LIMIT 5\nstruct pair { int a; int b; };\nenum color { RED = 3 };\n")
    text = '#include "own.h"\nBEGIN { printf("%d %d %d", LIMIT, RED, sizeof(struct pair)); }'
    script = Script(text, file=str(tmp_path / "script.bt"))
    assert printed_by(script, lambda _: None) == "5 3 8"
    assert script.kernel_changes(FakeTarget()) == []


def test_a_header_that_is_not_there_is_told(tmp_path: Path) -> None:
    """The script goes on without it."""
    script = Script('#include "none.h"\nBEGIN { print(1); }', file=str(tmp_path / "script.bt"))
    (line,) = script.kernel_changes(FakeTarget())
    assert "script.bt:1: none.h is left out: there is no such file beside this one" in line
    assert printed_by(script, lambda _: None) == "1\n"


def test_the_process_of_a_command_has_a_name() -> None:
    """`cpid`, where there is one."""
    assert printed_by(Script("BEGIN { print(cpid); }", child=42), lambda _: None) == "42\n"
    with pytest.raises(CompileError, match="give one by -c"):
        Script("BEGIN { print(cpid); }").compile(FakeTarget())


def test_messages_begin_with_their_place(capsys: pytest.CaptureFixture[str]) -> None:
    """The file, the line, and columns from 1, the end behind the last; warnings may be unwanted."""
    text = 'BEGIN { errorf("bad %d", 7); warnf("so so\\n"); print(1); }'
    assert printed(text) == "1\n"
    error, warning = "<script>:1:9-28: ERROR: bad 7\n", "<script>:1:30-46: WARNING: so so\n"
    assert capsys.readouterr().err == error + warning
    script = Script(text)
    script.warns = False
    assert printed_by(script, lambda _: None) == "1\n"
    assert capsys.readouterr().err == error


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        ("strerror(2)", os.strerror(2)),
        ("signal_name(2)", "Interrupt"),
        ("signal_name(0)", "Unknown signal 0"),
        ("comm() == comm", "true"),
        ("pid() == pid", "true"),
        ("nsecs(monotonic) <= nsecs(boot)", "true"),
        ("bswap(bswap(0x1234))", str(0x1234)),
        ("bswap(0x1122334455667788)", str(0x8877665544332211)),
        ("bswap(0x12340000 + (uint64)0x5678)", str(0x7856341200000000)),
    ],
)
def test_small_functions(expression: str, text: str) -> None:
    """Descriptions of numbers, builtins as calls, clocks, and the size of a literal."""
    assert printed(f"BEGIN {{ print({expression}); return 3; }}") == f"{text}\n"


def test_a_declared_variable_begins_as_nothing() -> None:
    """Whatever a block before has put into one of that name."""
    text = 'BEGIN { if (1) { $x = 1; $y = "a"; } let $x; let $y; if ($x) { $x = 5; } print(($x, $y)); $y = "b"; }'
    assert printed(text) == "(0, )\n"


def test_a_range_may_end_where_nobody_knows_before() -> None:
    """Its border is read once; continue goes on with the next number."""
    body = "for ($i : $a..$b) { if ($i == 1) { continue; } if ($i == 4) { break; } print($i); $b = 1; }"
    assert printed(f"BEGIN {{ $a = -1; $b = 9; {body} }}") == "-1\n0\n2\n3\n"
    assert printed("BEGIN { @n = 2; for ($i : 0..@n) { @n += 1; } }") == "@n: 4\n"


def test_an_empty_map_without_a_key_prints_a_zero() -> None:
    """As bpftrace 0.27; one with keys prints nothing, nor a histogram."""
    begin = "print(@n); print(@s); print(@t); print(@k); print(@h);"
    end = '@n = 1; @s = stats(1); @t = "x"; @k[1] = 2; @h = hist(1); delete(@n); clear(@s); clear(@h);'
    found = printed(f"BEGIN {{ {begin} }} END {{ {end} }}").splitlines()
    assert found == ["@n: 0", "@s: { .count = 0, .average = 0, .total = 0 }", "@t: ", "@k[1]: 2", "@t: x"]
