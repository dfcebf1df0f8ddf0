"""Numbers, texts and tuples of scripts: what is printed is what bpftrace prints, but where the guide says so."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pyebpf.errors import CompileError
from pyebpf.script import Script
from tests.dsl.fake_target import FakeTarget
from tests.support.scripts import printed, printed_by

if TYPE_CHECKING:
    from pyebpf.testing import Simulation


def value(expression: str, before: str = "") -> str:
    """What `print` makes of an expression."""
    return printed(f"BEGIN {{ {before} print({expression}); }}").partition("\n")[0]


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        ("1 + 2 * 3", "7"),
        ("(uint8)200 + 100", "300"),
        ("(uint8)255 * (uint8)10", "2550"),
        ("(uint8)10 - (uint8)255", "-245"),
        ("(uint64)-1", "18446744073709551615"),
        ("(int8)200", "-56"),
        ("(uint16)70000", "4464"),
        ("~5", "18446744073709551610"),
        ("-7 / 2", "-3"),
        ("-7 % 3", "-1"),
        ("1 << 40", "1099511627776"),
        ("(1 << 63, 9223372036854775807 + 1, -(-0x8000000000000000))", f"({1 << 63}, {1 << 63}, {1 << 63})"),
        ("((uint64)18446744073709551615 + 1, 1 << 62 << 3, -8 >> 1, -1 << 3)", "(0, 0, -4, -8)"),
        ("(-9223372036854775808, -0x8000000000000000 < 0)", "(-9223372036854775808, true)"),
        ("5 - 6", "-1"),
        ("0x10 | 3", "19"),
        ("6 ^ 3", "5"),
        ("!5", "false"),
        ("1 == 1", "true"),
        ('(1, "a", (2, 3))', "(1, a, (2, 3))"),
        ('"abc"', "abc"),
        ("5 > 3 ? 7 : 8", "7"),
        ("1 && 0", "false"),
        ("0 || 2", "true"),
        ("-1 > (uint64)1", "false"),
        ("((int64)-1 == (uint64)-1, (int32)-1 == (uint64)-1, (uint64)-1 == -1)", "(true, true, true)"),
        ("((uint64)-2 < (int64)-1, (int64)-1 < (uint64)-1, (uint64)-1 > 5)", "(true, false, true)"),
        ("(char *)30 - (char *)10", "20"),
        ("sizeof(uint32)", "4"),
        ("AF_INET6", "10"),
        ("EAGAIN", "11"),
        ('strncmp("abcd", "abxy", 2)', "0"),
        ('strcontains("hello", "ell")', "true"),
        ("(1, 2).1", "2"),
        ("ntop(0x0100007f)", "127.0.0.1"),
        ('strlen("four")', "4"),
        ('("a" < "b", "b" < "ab", "b" >= "b", "\xe9" > "z", "a" + "b")', "(true, false, true, true, ab)"),
        (r'buf("a\x00b", 3)', r"a\x00b"),
        (r'buf("a\x00bcdefgh\xff", 12)', r"a\x00bcdefgh\xff\x00\x00"),
        (r'memcmp("a\x00b", "a\x00c", 3)', "-1"),
        (r'(int8[4])"a\x00b"', "[97,0,98,0]"),
        (r'("a\x00b"[2], "\xff"[0], "a\x00b")', "(98, -1, a)"),
    ],
)
def test_constants_are_computed_as_bpftrace_does(expression: str, text: str) -> None:
    """64 bits, wrapped; a literal takes the sign of what it meets."""
    assert value(expression) == text


@pytest.mark.parametrize(
    ("before", "time", "tai"),
    [
        ("", "nsecs(tai)", True),
        ("", "nsecs(sw_tai)", True),
        ("$t = nsecs(tai);", "$t", True),
        ("let $t : typeof(nsecs(tai)) = nsecs(tai);", "$t", True),
        ("@t = nsecs(tai);", "@t", True),
        ("@t[1] = nsecs(tai); @t[1] = 0;", "@t[1]", True),
        ("@t[nsecs(tai)] = 1; $t = 0; for ($kv : @t) { $t = $kv.0; }", "$t", True),
        ("$t = (1, nsecs(tai));", "$t.1", True),
        ("$t = pid ? nsecs(tai) : nsecs(sw_tai);", "$t", True),
        ("$t = nsecs(tai); $t++; $t += (uint64)1;", "$t", True),
        ("@t = nsecs(tai); @t++; @t += 5; $x = ++@t;", "@t", True),
        ("", "nsecs", False),
        ("", "nsecs(boot)", False),
        ("", "nsecs(tai) + 1", False),
        ("", "nsecs(monotonic) + 1", False),
        ("", "(uint64)nsecs(tai)", False),
        ("let $t : uint64 = nsecs(tai);", "$t", False),
        ("$t = nsecs(tai); $t = nsecs;", "$t", False),
        ("@t = nsecs; @t = nsecs(tai);", "@t", False),
    ],
)
def test_times_know_their_clocks(before: str, time: str, tai: bool) -> None:
    """Until they are computed with. The simulation's clock begins at 0: 1970 by TAI, else the start of the machine."""
    assert (int(value(f'strftime("%s", {time})', before)) < 10**8) is tai


def test_times_before_their_clock_began() -> None:
    """A difference may be below 0, of unsigned numbers, too."""
    seconds = [int(value(f'strftime("%s", {time})')) for time in ("(uint64)1 - 2000000001", "0", "-3000000000")]
    assert seconds == [seconds[1] - 2, seconds[1], seconds[1] - 3]


@pytest.mark.parametrize(
    ("before", "expression", "text"),
    [
        ("$x = 7;", "$x * -1", "-7"),
        ("$x = -7;", "$x / 2", "-3"),
        ("$x = -7;", "$x % 3", "-1"),
        ("$x = (uint64)7;", "$x - 8", "-1"),
        ("$x = 200;", "(int8)$x", "-56"),
        ("$x = 200; $x += 55; $x++; --$x;", "$x", "255"),
        ("$x = 5;", "$x++", "5"),
        ("$x = 5;", "++$x", "6"),
        ("$x = 1; $x = 70000;", "$x", "70000"),
        ('$x = "ab"; $x = "abcdef";', "$x", "abcdef"),
        ('$x = "abc";', '$x == "abc"', "true"),
        ('$x = "abc";', '$x != "abcd"', "true"),
        ('$x = (1, "two");', "$x.1", "two"),
        ('$x = 3; if ($x > 2) { $y = "more"; } else { $y = "less"; }', "$y", "more"),
        ("$i = 0; $sum = 0; while ($i < 5) { $i++; if ($i == 2) { continue; } $sum += $i; }", "$sum", "13"),
        ("$sum = 0; for ($i : 0..5) { $sum += $i; }", "$sum", "10"),
        ("$n = 5; $sum = 0; for ($i : 0..$n) { $n--; $sum += $i; }", "$sum", "10"),
        ("$n = -2; $sum = 0; for ($i : $n..($n + 4)) { if ($i == 1) { break; } $sum += $i; }", "$sum", "-3"),
        ("$n = 5; $sum = 7; for ($i : $n..3) { $sum = 0; }", "$sum", "7"),
        ("$i = 0; unroll(3) { $i += 2; }", "$i", "6"),
        ("$x = 1 == 2;", "$x", "false"),
        ("$x = -8;", "$x >> 1", "-4"),
        (r'$x = "\xff"; $i = 0;', "($x[0], $x[$i])", "(-1, -1)"),
        ("let $x = 3;", "$x", "3"),
        (
            '$x = (string[10])"abc";',
            "(sizeof($x), sizeof((string[12])$x), strlen($x), $x[8], $x)",
            "(10, 12, 3, 0, abc)",
        ),
        ('@x = (string[10])"abc"; @x = "abcdefgh";', "(sizeof(@x), @x)", "(10, abcdefgh)"),
        ('$x = "abc"; $y = (string[9])$x; $x = "de"; $t = (1, $y);', "(sizeof($t), $y, $x)", "(10, abc, de)"),
        ("$x = (string[32])comm;", "(sizeof($x), $x == comm, sizeof((typeof($x))comm))", "(32, true, 32)"),
        ('if (1) { let $x = 1; } $x = "a";', "$x", "a"),
        ('if (1) { let $x; $x = 1; } if (1) { $x = "a"; }', "$x", "a"),
        ('for ($x : 0..2) { let $y = $x; } $x = "a"; $y = "b";', "($x, $y)", "(a, b)"),
        ('for ($x : 0..2) { } @m[1, "a"] = 1; for ($x : @m) { $y = $x; } clear(@m);', "$y.0.1", "a"),
        (
            "$x = true; $y = pid == pid;",
            "($x + $y, $x - $y, $x * $y, $x ^ $y, $x | false, $x / $y)",
            "(true, false, true, false, true, true)",
        ),
        ("$x = true;", "($x + 1, true + true, $x << 1)", "(2, true, 2)"),
        ("$x = (uint64)18446744073709551615; $y = pid;", "($y ? 1 : 300) < $x", "true"),
        ("$x = (uint64)18446744073709551615; $y = pid;", "($y ? 1 : -1) < $x", "false"),
        ("$x = (uint64)18446744073709551615; $y = pid;", "($y ? 1 : 2) | $x", "18446744073709551615"),
    ],
)
def test_variables_hold_values(before: str, expression: str, text: str) -> None:
    """Of the widest type that is assigned to them; division of signed numbers rounds to zero."""
    assert value(expression, before) == text


@pytest.mark.parametrize(
    ("layout", "arguments", "text"),
    [
        ("%d %u %lld", "-1, 5, 1 << 40", "-1 5 1099511627776"),
        ("%d %u %x %ld", "(1 << 40) + 5, -1, (1 << 40) + 10, 1 << 40", "5 4294967295 a 1099511627776"),
        ("%x %X %o %c %p", "255, 255, 8, 65, 4096", "ff FF 10 A 0x1000"),
        ("%5d|%-5d|%05d", "42, 42, 42", "   42|42   |00042"),
        ("%10s|%-10s|%.2s", '"ab", "cd", "efgh"', "        ab|cd        |ef"),
        ("%hd %hhd", "70000, 300", "4464 44"),
        ("%d%% of %s", "5, comm", "5% of cat"),
        ("%s %d", "1 == 1, 1 == 1", "true 1"),
        ("%5s|%-4s|%2s", '"é", "日", "éa"', "   é|日 |éa"),
        ("%5s|%-5s|%6s", '"é", "é", 1 == 1', "   é|é   |  true"),
        ("%s", '(1, "a")', "(1, a)"),
        ("%+d %#x", "5, 255", "+5 0xff"),
    ],
)
def test_printf_has_cs_formats(layout: str, arguments: str, text: str) -> None:
    """Widths, flags, lengths; without a length all 64 bits are printed."""
    script = f'tracepoint:syscalls:sys_enter_openat {{ printf("{layout}", {arguments}); }}'

    def events(kernel: object) -> None:
        kernel.process(comm="cat")  # type: ignore[attr-defined]  # a Simulation
        kernel.tracepoint("syscalls:sys_enter_openat")  # type: ignore[attr-defined]  # a Simulation

    assert printed(script, events) == text


def test_arguments_are_numbers_or_texts() -> None:
    """`$1` is a number if it reads as one, `str($1)` always text; `$#` counts them, a missing one is 0."""
    script = 'BEGIN { printf("%d %s %s %d %d", $1, str($2), str($1), $#, $3); }'
    assert printed(script, arguments=["42", "word"]) == "42 word 42 2 0"


def test_the_least_number_of_64_bits() -> None:
    """It is written with its sign, in maps and on the command line, too; what is less is refused, or text there."""
    least = "-9223372036854775808"
    script = f"BEGIN {{ @a = {least}; @b = max({least}); print(($1, $1 == {least}, $2)); }}"
    text = printed(script, arguments=[least, "-9223372036854775809"])
    assert text == f"({least}, true, -9223372036854775809)\n@a: {least}\n@b: {least}\n"
    with pytest.raises(CompileError, match="-9223372036854775809 is less than -9223372036854775808, the least number"):
        printed("BEGIN { print(-9223372036854775809); }")


def test_a_command_is_run_where_that_is_allowed() -> None:
    """With the text that the format makes; what it prints comes in its place, and a newline behind it, as in 0.27."""
    script = Script('BEGIN { printf("a\\n"); system("echo %d", 5); print("b"); }', unsafe=True)
    assert printed_by(script, lambda _: None) == "a\n5\n\nb\n"


def test_a_command_that_fails_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    """What it writes to standard error comes with its output."""
    script = Script('BEGIN { system("echo x; echo y >&2; exit 3"); system("kill -9 $$"); print("b"); }', unsafe=True)
    assert printed_by(script, lambda _: None) == "x\ny\n\n\nb\n"
    assert capsys.readouterr().err == (
        "ERROR: command exited with code 3\nERROR: child process did not exit normally (signal 9)\n"
    )


def test_strings_escaped_for_a_terminal():
    """As tools print names, in printf, print and maps; as they are without it. Layouts are the author's."""
    text = r'BEGIN { $s = "a\n\x1b[31m\\"; printf("%s\t|%x\n", $s, 16); print($s); @[$s] = "\x07"; }'
    plain = "a\n\x1b[31m\\"
    assert printed(text) == f"{plain}\t|10\n{plain}\n@[{plain}]: \x07\n"
    script = Script(text)
    script.escapes = True
    shown = r"a\x0a\x1b[31m\\"
    assert printed_by(script, lambda _: None) == f"{shown}\t|10\n{shown}\n@[{shown}]: \\x07\n"


def test_length_of_a_map_s_string():
    """strlen() is of the string that a map without keys holds."""
    assert printed('BEGIN { @s = "abc"; print(strlen(@s)); clear(@s); }') == "3\n"


@pytest.mark.parametrize(
    ("before", "numbers", "shown"),
    [
        (
            "$n = (uint64)18446744073709551615; $m = $n - 3;",
            "(uint64)$m..$n",
            [(1 << 64) - 4, (1 << 64) - 3, (1 << 64) - 2],
        ),
        ("", "18446744073709551613..18446744073709551615", [(1 << 64) - 3, (1 << 64) - 2]),
        ("$n = (uint64)1 << 63;", "0..$n", [0, 1, 2, 3, 4]),
        ("", "0..18446744073709551615", [0, 1, 2, 3, 4]),
        ("", "0..10000000", [0, 1, 2, 3, 4]),
        ("$n = (int64)-2;", "$n..1", [-2, -1, 0]),
    ],
)
def test_a_loop_over_numbers_of_64_bits(before: str, numbers: str, shown: list[int]) -> None:
    """Unsigned where its ends are; one over more than the kernel allows runs until it is left."""
    text = f"BEGIN {{ {before} for ($i : {numbers}) {{ if (@n == 5) {{ break; }} print($i); @n++; }} clear(@n); }}"
    assert printed(text, target=FakeTarget(missing=frozenset())) == "".join([f"{each}\n" for each in shown])


def test_a_loop_that_a_kernel_does_not_go_to_the_end_of() -> None:
    """It is refused where the kernel cannot end it itself."""
    with pytest.raises(CompileError, match="has 10000000 numbers, and this kernel goes over 8388608 at most"):
        Script("BEGIN { for ($i : 0..10000000) { } }").compile(FakeTarget())


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("$b = $a; $b >>= 60; print($b);", "15"),
        ("$b = $a; $b %= 10; print($b);", "5"),
        ("$b = $a; $b /= 2; print($b);", "9223372036854775802"),
        ("$b = $a; $b++; print(($b >> 60, $b > 7));", "(15, true)"),
        ("$b = $a + 0; $b = $b >> 60; print($b);", "15"),
        ("$t = ($a, 1); $b = $t.0; $b >>= 60; print($b);", "15"),
        ("$b = pid > 0 ? $a : (uint64)1; $b >>= 60; print($b);", "15"),
        ("@b = $a; @b >>= 60; print(@b); clear(@b);", "@b: 15"),
        ("@c = $a; $b = @c; $b >>= 60; print($b); clear(@c);", "15"),
        ("@d = 7; @d >>= 1; @d = $a; @d /= 2; print(@d); clear(@d);", "@d: 9223372036854775802"),
        ("$b = $a; $b += 1; @k[$b] = 1; print(@k); clear(@k);", "@k[18446744073709551606]: 1"),
        ("print(f($a));", "15"),
    ],
)
def test_a_copy_of_an_unsigned_number_stays_unsigned(body: str, expected: str) -> None:
    """Also where it is changed by an operator behind the assignment, which a first look took for signed."""
    shift = "fn f($x : uint64) : uint64 { $y = $x; $y >>= 60; return $y; }"
    script = f"{shift} BEGIN {{ $a = (uint64)0xfffffffffffffff5; {body} }}"
    assert printed(script).splitlines()[0] == expected


def test_a_long_text_is_searched_for_another() -> None:
    """By words, in a loop that verifiers follow one by one: there are no iterators, as before Linux 6.4."""
    cases = [("/abc/abcd", "bc"), ("/x" * 500, "xy"), ("/a/verylongname1", "longname1"), ("ab", "abc"), ("", "q")]
    cases += [("x" * 990 + "needle_in_here", "needle_in_here"), ("a" * 1015 + "bcdefgh", "bcdefgh"), ("aab", "ab")]

    def opens(kernel: Simulation) -> None:
        for name, comm in cases:
            kernel.process(pid=5, comm=comm)
            kernel.tracepoint("syscalls:sys_enter_openat", filename=name, dfd=3)

    body = 'print((strstr(str(args.filename), comm), strstr(str(args.filename), "b"), strlen(str(args.filename))));'
    target = FakeTarget(missing=frozenset({"isa:may_goto", "kfunc:bpf_iter_num_new"}))
    lines = printed(f"tracepoint:syscalls:sys_enter_openat {{ {body} }}", opens, target=target).splitlines()
    assert lines == [f"({name.find(comm)}, {name.find('b')}, {len(name)})" for name, comm in cases]


@pytest.mark.parametrize(
    ("number", "value", "below"),
    [
        ("(int8)-1 & 31", "31", "false"),
        ("(int64)-1 * -1", "1", "false"),
        ("-1 * -1", "1", "true"),
        ("(uint8)3 - 1", "2", "false"),
        ("3 - 1", "2", "true"),
        ("(uint64)9223372036854775813 - 1", "-9223372036854775804", "true"),
        ("18446744073709551615 - 2", "18446744073709551613", "true"),
        ("(int64)9223372036854775807 + 2", "-9223372036854775807", "true"),
        ("(uint64)18446744073709551615 * 2", "18446744073709551614", "false"),
        ("(uint64)4294967296 * 4294967299", "12884901888", "true"),
    ],
)
def test_a_cast_number_has_a_sign_where_the_script_computes_with_it(number: str, value: str, below: str) -> None:
    """As at run time: a difference is signed, and a signed number makes a comparison signed, unless it is bare."""
    text = f"BEGIN {{ $l = (uint64)18446744073709551614; print({number}); print(({number}) < $l); }}"
    assert printed(text) == f"{value}\n{below}\n"


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("let $b : uint8 = 255; print((++$b, $b));", "(0, 0)"),
        ("let $i : int8 = 127; $c = ++$i; print(($c, $i == $c, -(--$i)));", "(-128, true, -127)"),
        ("let $n : uint32 = 0; print(--$n == 4294967295);", "true"),
        ("let $u : uint64 = 0; print((--$u > 5, --$u / 2, --$u >> 60));", "(true, 9223372036854775807, 15)"),
        ("let $u : uint8 = 254; for ($k : 0..3) { @[++$u] = 1; } print(@[0]); clear(@);", "1"),
        ("let $t : bool = true; $t++; print($t); $t--; print($t); $t += 255; print(($t, --$t));", "true"),
        ("let $t : bool; $t = 300; @[$t] = 1; @[true]++; print(@[true]); clear(@);", "2"),
        ("print((next(255), big(0), half(0), doubled(100)));", "(0, true, 9223372036854775807, -56)"),
    ],
)
def test_a_declared_variable_keeps_its_type(body: str, expected: str) -> None:
    """A parameter, too: what `++` and `--` give is what the variable has then."""
    functions = (
        "fn next($x : uint8) : int64 { $x++; return $x; } fn big($x : uint64) : bool { $x--; return $x > 5; } "
        "fn half($x : uint64) : uint64 { $x -= 1; return $x / 2; } "
        "fn doubled($x : int8) : int64 { $x *= 2; return $x; }"
    )
    assert printed(f"{functions} BEGIN {{ {body} }}").splitlines()[0] == expected


def test_a_number_that_a_parameter_does_not_hold_is_refused() -> None:
    """As of a variable that `let` declares."""
    with pytest.raises(CompileError, match="300 does not fit the variable's type: it holds 0 to 255"):
        Script("fn f($x : uint8) : int64 { $x = 300; return $x; } BEGIN { print(f(1)); }").compile(FakeTarget())


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("print(($i < (uint64)0xffffffff81000000, $i + (uint64)0xffffffff81000000));", "(true, 18446744071578845185)"),
        ("print((-$i, $i - 5, $i * -1, $i > -1, ~$i));", "(-1, -4, -1, true, -2)"),
        ("@[$i] = 1; @[(uint64)0xffffffff81000000] = 2; print(len(@)); clear(@);", "2"),
        ("$k = $i; $k -= 5; print($k);", "-4"),
    ],
)
def test_the_number_of_a_loop_takes_the_sign_of_others(body: str, expected: str) -> None:
    """Where the script wrote its ends: it is less than an address of the kernel's; alone it is signed."""
    assert printed(f"BEGIN {{ for ($i : 1..2) {{ {body} }} }}").splitlines()[0] == expected


def test_a_character_is_one_byte() -> None:
    """Also from 128 on, of which two may be one of UTF-8; with a width, too."""
    text = printed('BEGIN { printf("%c%c|%c|%3c|%-3c|", 0xc3, 0xa9, 255, (int8)-1, 65); }')
    assert text.encode("utf-8", "surrogateescape") == b"\xc3\xa9|\xff|  \xff|A  |"
