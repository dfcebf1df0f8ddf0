"""`strerror`, `signal_name`, `syscall_name`: strings, as bpftrace has them, wherever a string may stand."""

from __future__ import annotations

import os

import pytest

from pyebpf.script import Script
from pyebpf.testing import Simulation
from tests.dsl.fake_target import FakeTarget
from tests.support.scripts import printed

ABSENT = "No such file or directory"


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        ("str(signal_name(9))", "Killed"),
        ("str(strerror(2), 5)", "No s"),
        ('str_concat(str(signal_name(9)), "x")', "Killedx"),
        ("str_concat(strerror(2), signal_name(9))", f"{ABSENT}Killed"),
        ('str(signal_name(9)) == "Killed"', "true"),
        ('signal_name(9) == "Kill"', "false"),
        (f'strerror(2) == "{ABSENT}"', "true"),
        ("strerror(2) == strerror(-2)", "true"),
        ("strerror(2) != syscall_name(2)", "true"),
        (f'(strerror(2), 1) == ("{ABSENT}", 1)', "true"),
        ("(strlen(strerror(2)), strlen(signal_name(9)), len(syscall_name(0)))", "(25, 6, 4)"),
        ('(strcontains(strerror(2), "such"), strcontains("Killed by", signal_name(9)))', "(true, true)"),
        ('(strncmp(strerror(2), "No", 2), strncmp(strerror(2), strerror(3), 7), strncmp(strerror(2), "no", 2))',
         "(0, 0, 1)"),
        ('(strstr(strerror(2), "such"), memcmp(strerror(2), "No x", 4), strerror(2)[1])', "(3, -5, 111)"),
        ("(buf(strerror(2), 4), is_str(strerror(2)), sizeof(signal_name(2)))", "(No s, true, 32)"),
        ('!nsecs ? "a" : signal_name(9)', "a"),
        ('!nsecs ? signal_name(9) : "a"', "Killed"),
        ("!nsecs ? strerror(2) : signal_name(9)", ABSENT),
        ('{ if (!nsecs) { strerror(2) } else { "none" } }', ABSENT),
        (f'{{ $e = strerror(2); $e == "{ABSENT}" }}', "true"),
        ('{ $e = "none"; $e = strerror(2); $e = signal_name(9); $e }', "Killed"),
        ("{ let $e : string = strerror(2); $e }", ABSENT),
        ("(strerror((uint32)-2), strerror(4294967298), signal_name(4294967305))", f"({ABSENT}, {ABSENT}, Killed)"),
        ("(strerror(512), strerror(524), strerror((uint64)1 << 32))", "(Unknown error, Unknown error, Success)"),
        ("(strerror(133), strerror(134), strerror(41))", f"({os.strerror(133)}, Unknown error, Unknown error)"),
        ("(signal_name(32), signal_name(64), signal_name(65), signal_name(-9))",
         "(Unknown signal 32, Real-time signal 30, N/A, N/A)"),
        ("(syscall_name(1), syscall_name(-1), syscall_name(400))", "(write, Unknown syscall, Unknown syscall)"),
    ],
)  # fmt: skip
def test_a_name_of_a_number_is_a_string(expression: str, text: str) -> None:
    """Compared, joined, searched, cut, and chosen among other strings; of a number the low 32 bits count."""
    assert printed(f"BEGIN {{ print({expression}); }}") == f"{text}\n"


def test_names_of_numbers_are_keys_as_other_strings() -> None:
    """Numbers of one name have one entry, which a loop compares; an entry that is missing is an empty string."""
    body = (
        '@n[strerror(-2)] = count(); @n[strerror(2)] = count(); @n[strerror(600)] = count(); @n["ok"] = count();'
        f' @e[1] = signal_name(9); @e[2] = "none"; print((@e[1], @e[3])); @k[strerror(2)] = 5; print(@k["{ABSENT}"]);'
        f' for ($kv : @k) {{ if ($kv.0 == "{ABSENT}") {{ print($kv); }} }} clear(@e); clear(@k);'
    )
    begun, _, maps = printed(f"BEGIN {{ {body} }}").partition("\n@")
    assert begun == f"(Killed, )\n5\n({ABSENT}, 5)"
    assert sorted(f"@{maps}".split("\n")) == ["", f"@n[{ABSENT}]: 2", "@n[Unknown error]: 1", "@n[ok]: 1"]


def test_names_of_numbers_are_known_at_run_time() -> None:
    """All of a table, by the fields of events; Python reads them as text."""
    script = Script("tracepoint:syscalls:sys_enter_openat { @[args.dfd] = strerror(args.dfd); }")
    with Simulation(script, FakeTarget()) as kernel:
        for number in range(140):
            kernel.tracepoint("syscalls:sys_enter_openat", filename="/a", dfd=-number)
        known = set(range(1, 134)) - {41, 58}
        names = {number: os.strerror(number) if number in known else "Unknown error" for number in range(140)}
        assert {-key: value for key, value in script["@"].snapshot().items()} == names | {0: "Success"}
