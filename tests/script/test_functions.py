"""Functions of scripts: what they print, and what they refuse."""

from __future__ import annotations

import re
from datetime import datetime

import pytest

from pyebpf.bpftrace.times import time_text
from pyebpf.errors import CompileError
from pyebpf.script import Script
from tests.dsl.fake_target import FakeTarget
from tests.support.scripts import printed


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        ("strerror(2)", "No such file or directory"),
        ("strerror(-13)", "Permission denied"),
        ("strerror(100000)", "Unknown error"),
        ("strerror(0)", "Success"),
        ("syscall_name(9999)", "Unknown syscall"),
        ('ntop(pton("::ffff:127.0.0.1"))', "::ffff:127.0.0.1"),
        ("signal_name(9)", "Killed"),
        ("signal_name(1000)", "N/A"),
        ('pton("1.2.3.4")', "[1,2,3,4]"),
        ('buf(pton("1.2.3.4"))', r"\x01\x02\x03\x04"),
        ('(buf(pton("1.2.3.4"), 2), buf(pton("6162:63::")))', r"(\x01\x02, ab\x00c" + r"\x00" * 12 + ")"),
        ('(uint32)pton("127.0.0.1")', "16777343"),
        ('ntop(pton("2001:db8::1"))', "2001:db8::1"),
        ('macaddr((uint8[6])"abcde")', "61:62:63:64:65:00"),
        ("(is_err(-5), is_err(-4095), is_err(-4096), is_err(0))", "(true, true, false, false)"),
        ('(is_str("a"), is_str(comm), is_str(5), is_ptr(curtask))', "(true, true, false, true)"),
        ('(is_array(pton("::1")), is_integer(pid), is_unsigned_integer((uint8)1))', "(true, true, true)"),
        ("(is_literal(5), is_literal(pid))", "(true, false)"),
        ("(str(5), str(1 << 3), str(-5), str(123, 2), strlen(str(18446744073709551615)))", "(5, 8, -5, 12, 20)"),
        ('str(5) == "5"', "true"),
        ("(str((uint64)5), kstr(5))", "(, )"),
        ('(strlen((uint8[6])"abcde"), strcontains((uint8[6])"abcde", "cd"))', "(5, true)"),
        ("(probetype, probetype())", "(special, special)"),
        ("nsecs(boot) - nsecs", "0"),
        ("(pid(init) == pid, tid(curr_ns) == tid())", "(true, true)"),
        ('getopt("count", 10)', "12"),
        ('getopt("name", "none")', "worker"),
        ('(getopt("flag"), getopt("off", true), getopt("absent"))', "(true, false, false)"),
        ('(getopt("absent", 7), getopt("absent", "x", "what it is"), $1, $#)', "(7, x, 3, 1)"),
        ("comptime (2 * 3)", "6"),
        (
            "(sizeof(1), sizeof(127), sizeof(128), sizeof(40000), sizeof(-129), sizeof(3000000000))",
            "(1, 1, 2, 4, 2, 8)",
        ),
        ("{ $x = 1; $y = 1; $y = 300; (sizeof($x), sizeof($y), sizeof(1 + 1), sizeof($x + 1)) }", "(1, 2, 1, 8)"),
        ('{ $a = ((int8)-100, "abcdef", 3, (int32)1, (int64)-10, (int16)-555); sizeof($a) }', "32"),
        ('{ $x = 3; if ($x > 2) { "more" } else { "less" } }', "more"),
    ],
)
def test_functions_have_values(expression: str, text: str) -> None:
    """What `print` makes of them."""
    options = {"count": "=12", "name": "=worker", "flag": "", "off": "=false"}
    given = [f"--{name}{value}" for name, value in options.items() if f'"{name}"' in expression]
    assert printed(f"BEGIN {{ print({expression}); }}", arguments=["3", *given]) == f"{text}\n"


def test_registers_are_read_by_their_names() -> None:
    """The one of the second argument is what arg1 reads."""

    def program(value: str) -> object:
        (found,) = Script(f"kprobe:f {{ @x = {value}; }}").compile(FakeTarget()).programs
        return found.code

    assert program('reg("si")') == program("arg1")


def test_an_entry_is_found_with_its_value() -> None:
    """The variable stays as it was where there is none."""
    text = printed(
        'BEGIN { @x[1] = "one"; let $v; if (find(@x, 1, $v)) { print($v); } if (!find(@x, 2, $v)) { print($v); } '
        "@c[3] = count(); if (find(@c, 3, $n)) { print($n); } clear(@x); clear(@c); }"
    )
    assert text == "one\none\n1\n"


def test_what_is_known_is_decided_when_the_script_is_compiled() -> None:
    """The other block may hold what would be wrong here."""
    text = printed(
        "macro shown(v) { if comptime is_str(v) { v } else if comptime (sizeof(v) == 1 && is_integer(v)) { v + 1 } "
        'else { fail("no %s", "way"); 0 } } BEGIN { print((shown("x"), shown(4))); if (0) { fail("never"); } '
        'static_assert(1 < 2, "never"); }'
    )
    assert text == "(x, 5)\n"


def test_complaints_go_to_standard_error_with_their_places(capsys: pytest.CaptureFixture[str]) -> None:
    """`assert` ends the script with the status 1."""
    script = Script(
        'BEGIN { warnf("low %d", 5);\nerrorf("bad %s", "x");\nassert(1 == 1, "fine");\n$x = 2;'
        ' assert($x == 3, "odd");\nprint(1); }',
        file="a.bt",
    )
    from tests.support.scripts import printed_by

    assert printed_by(script, lambda _: None) == ""
    assert capsys.readouterr().err == (
        "a.bt:1:9-27: WARNING: low 5\na.bt:2:1-22: ERROR: bad x\na.bt:4:9-31: ERROR: assert failed: odd\n"
    )


@pytest.mark.parametrize(
    ("text", "marked", "message"),
    [
        ("BEGIN { print(nsecs(noon)); }", "noon", "nsecs() takes one of boot, monotonic, tai"),
        ("BEGIN { print(pid(5)); }", "5", "pid() takes one of curr_ns, init"),
        ('BEGIN { print(reg("ip")); }', 'reg("ip")', "reg() is for kprobes and uprobes"),
        ('kprobe:f { print(reg("zz")); }', '"zz"', "has no register zz"),
        ("kprobe:f { override(1); }", "override(1)", "override() changes what it looks at: allow it by --unsafe"),
        ("BEGIN { signal_thread(9); }", "signal_thread(9)", "signal_thread() changes what it looks at"),
        ('BEGIN { print(pton("1.2.3")); }', '"1.2.3"', "1.2.3 is no address of IPv4 or IPv6"),
        ('BEGIN { print(buf(pton("1.2.3.4"), 8)); }', None, "buf() of 8 bytes: give 1 to 4, as the array has"),
        ('BEGIN { print(macaddr(pton("1.2.3.4"))); }', None, "macaddr() takes 6 bytes, and this has 4"),
        (
            'BEGIN { print(cgroupid("/proc")); }',
            '"/proc"',
            "/proc is not the directory of a control group of cgroup2, which",
        ),
        ('BEGIN { print(cgroupid("/nowhere")); }', '"/nowhere"', "/nowhere: No such file or directory"),
        ('BEGIN { print(getopt("count", 1)); }', None, "--count=x: this is not a number: decimal, octal"),
        (
            'BEGIN { print(getopt("size", 1)); }',
            None,
            "--size=18446744073709551616: this number is greater than 18446744073709551615",
        ),
        ("BEGIN { $x = $1 + 1; }", "$1", "$1 is 99999999999999999999, which 64 bits do not hold"),
        ("BEGIN { print(comptime nsecs); }", "comptime nsecs", "this is not known when the script is compiled"),
        ('BEGIN { fail("bad %d", 7); }', 'fail("bad %d", 7)', "bad 7"),
        ('BEGIN { fail("no %s", "way"); }', 'fail("no %s", "way")', "no way"),
        ('BEGIN { static_assert(1 > 2, "no"); }', 'static_assert(1 > 2, "no")', "no"),
        ('BEGIN { static_assert(nsecs > 2, "no"); }', "nsecs > 2", "write assert()"),
        ("BEGIN { print(str(0, -1)); }", "-1", "str() takes a length of 0 or more"),
        ("BEGIN { find(@x, 1, 2); @x[1] = 1; }", "find(@x, 1, 2)", "find() takes a map, a key and a variable"),
    ],
)
def test_wrong_calls_are_refused_at_their_places(text: str, marked: str | None, message: str) -> None:
    """The message, and the characters that it is about."""
    with pytest.raises(CompileError) as caught:
        Script(text, ["--count=x", "--size=18446744073709551616", "9" * 20]).compile(FakeTarget())
    assert message in caught.value.message
    where = caught.value.location
    assert where is not None
    if marked is not None:
        assert where.text[where.column : where.end_column] == marked


@pytest.mark.parametrize(
    ("value", "instead"),
    [
        ("username", "a user name, which becomes text when it is printed: compare uid"),
        ("ksym(1)", 'a kernel symbol, which becomes text when it is printed: compare the address with kaddr("name")'),
        ("usym(1)", 'a user symbol, which becomes text when it is printed: compare the address with uaddr("name")'),
        ("kstack", "a kernel stack, which becomes text when it is printed: print it, or make it a key of a map"),
        ("ustack", "a user stack, which becomes text when it is printed: print it, or make it a key of a map"),
        ("ntop(1)", 'an Internet address, which becomes text when it is printed: compare the address with pton("127'),
        ('macaddr((uint8[6])"abcde")', "a MAC address, which becomes text when it is printed: compare the bytes that"),
        ('strftime("%H", nsecs)', "a time, which becomes text when it is printed: compare nsecs"),
        (
            "cgroup_path(1)",
            "a path of a cgroup, which becomes text when it is printed: compare the number with cgroupid",
        ),
        ('buf("abc", 2)', 'a buffer, which becomes text when it is printed: compare it with buf("text", n)'),
        ("RED", "an enum's number, which becomes text when it is printed: compare it with the constant"),
        ("(nsecs == 5)", 'a boolean, which becomes text when it is printed: write b ? "yes" : "no"'),
    ],
)
def test_what_becomes_text_when_it_is_printed_is_no_string(value: str, instead: str) -> None:
    """Nor an address: `str()` of it was empty. The message says what to write."""
    uses = (
        "str(X)",
        "str(X, $n)",
        'X == "a"',
        'str_concat(X, "a")',
        "strlen(X)",
        'strstr("a", X)',
        'strncmp("a", X, 1)',
    )
    for use in (*uses, 'strcontains(X, "a")', "buf(X, 4)"):
        with pytest.raises(CompileError) as caught:
            Script(f"enum e {{ RED = 1 }} BEGIN {{ $n = 5; $x = {use.replace('X', value)}; }}").compile(FakeTarget())
        assert instead in caught.value.message, use


@pytest.mark.parametrize(
    "statement", ["print((1, 2, {}));", "$x = {}; print($x);", "$x = 1; if (pid) {{ $x = {}; }} print($x);"]
)
def test_a_symbol_has_the_place_of_its_call(statement: str) -> None:
    """Not that of what takes its address: an error about the name is told there."""
    call = 'kaddr("jiffies")'
    (program,) = Script(f"BEGIN {{ {statement.format(call)} }}").compile(FakeTarget()).programs
    (where,) = {each.where for each in program.code.instructions if each.symbol == "jiffies"}
    assert where is not None
    assert where.text[where.column : where.end_column] == call


def test_override_needs_a_kprobe() -> None:
    """And is compiled where it is allowed."""
    assert Script("kprobe:f { override(-1); }", unsafe=True).compile(FakeTarget()).programs
    with pytest.raises(CompileError, match=r"override\(\) is for kprobes"):
        Script("BEGIN { override(1); }", unsafe=True).compile(FakeTarget())


def test_the_fraction_of_a_second() -> None:
    """strftime() has it in three units, as wide as they are. A second's text is that of all its parts."""
    for seconds in (0, 86_399, 1):
        for nano, text in ((7_008_009, "007008|007|007008009"), (0, "000000|000|000000000")):
            whole = datetime.fromtimestamp(seconds).strftime(f"%T {text}|%%f|%d|100%%")  # noqa: DTZ006 - as printed
            assert time_text("%T %f|%l|%k|%%f|%d|100%%", seconds * 10**9 + nano) == whole


@pytest.mark.parametrize("given", ["٣", " 5", "5 ", "+5", "0b1", "", "089", "-9223372036854775809"])
def test_an_option_is_a_number_as_a_script_has_them(given: str) -> None:
    """Not as Python has them: without spaces, and of the digits 0 to 9."""
    with pytest.raises(CompileError, match=f"--x={re.escape(given)}: "):
        Script('BEGIN { print(getopt("x", 1)); }', [f"--x={given}"]).compile(FakeTarget())


@pytest.mark.parametrize(("given", "number"), [("1e3", 1000), ("-0x10", -16), ("010", 8), ("2us", 2000)])
def test_an_option_may_be_any_number_of_a_script(given: str, number: int) -> None:
    """With a sign, an exponent or a unit."""
    assert printed('BEGIN { print(getopt("x", 1)); }', arguments=[f"--x={given}"]) == f"{number}\n"
