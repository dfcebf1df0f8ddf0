"""Scripts that are not right, or ask for what is not supported yet: an error at its place, with what to do."""

from __future__ import annotations

import pytest

from pyebpf.errors import CompileError
from pyebpf.script import Script
from tests.dsl.fake_target import FakeTarget

OPEN = "tracepoint:syscalls:sys_enter_openat"


@pytest.mark.parametrize(
    ("text", "marked", "message"),
    [
        ('BEGIN { system("true"); }', 'system("true")', "system() changes what it looks at: allow it by --unsafe"),
        ("BEGIN { signal(9); }", "signal(9)", "signal() changes what it looks at: allow it by --unsafe"),
        (
            'BEGIN { strftime("%Y", nsecs(monotonic)); }',
            "nsecs(monotonic)",
            "tells no time of day: write nsecs, or nsecs(tai)",
        ),
        (
            'BEGIN { @t = strftime("%Y", nsecs); @t = strftime("%Y", nsecs(tai)); }',
            "@t",
            'holds a time strftime("%Y", nsecs) elsewhere, and a time strftime("%Y", nsecs(tai)) here',
        ),
        ("BEGIN { bswap(true); }", "true", "bswap() takes an integer, and this is a boolean"),
        ("BEGIN { $c = curtask; bswap($c); }", "$c", "bswap() takes an integer, and this is a pointer"),
        ("BEGIN { @x = foo(); }", "foo()", "there is no function foo()"),
        (
            'BEGIN { $x = (string[3])"abc"; }',
            '(string[3])"abc"',
            "this is a string[4], with its NUL: cast it to no shorter",
        ),
        ('BEGIN { $x = (string)"abc"; }', '(string)"abc"', "a string is cast to one of a length: (string[16])…"),
        *(
            (
                f"BEGIN {{ @x = {kind}(1); }}",
                f"{kind}(1)",
                f"no function {kind}(): a map is declared before all probes, let @name = {kind}(…);",
            )
            for kind in ("hash", "lruhash", "percpuhash", "percpulruhash")
        ),
        (
            "let @x = lruhas(1); BEGIN { @x[1] = 1; }",
            "let @x = lruhas(1)",
            "lruhas is no kind of map (did you mean lruhash or",
        ),
        ("BEGIN { pritn(1); }", "pritn(1)", "there is no function pritn() (did you mean print or printf or pton?)"),
        ('BEGIN { printf("%d %d", 1); }', None, "the format takes 2 values, and 1 is given"),
        (
            "BEGIN { print(nothing); }",
            "nothing",
            'no constant of the kernel\'s: a text is written in quotes, "nothing"',
        ),
        ("BEGIN /comm == dd/ { exit(); }", "dd", 'no constant of the kernel\'s: a text is written in quotes, "dd"'),
        ("BEGIN { print(nsec); }", "nsec", "nsec is no builtin, and no constant of the kernel's (did you mean nsecs"),
        ("BEGIN { print(PID); }", "PID", "PID is no builtin, and no constant of the kernel's (did you mean pid"),
        ("BEGIN { print(kstak); }", "kstak", "no constant of the kernel's (did you mean kstack or ustack"),
        ("BEGIN { print(cmm); }", "cmm", "no constant of the kernel's (did you mean comm"),
        ("BEGIN { print(TCP_LISTN); }", "TCP_LISTN", "no constant of the kernel's (did you mean TCP_LISTEN"),
        ("enum e { RED } BEGIN { print(REED); }", "REED", "no constant of the kernel's (did you mean RED"),
        ("BEGIN { print(@x); }", "@x", "@x is never assigned: nothing tells what it holds"),
        ("BEGIN { print($x); }", "$x", "$x is read before anything is assigned to it"),
        ("BEGIN { if (pid) { let $x = 1; } print($x); }", "$x", "it ended with the block, or the loop, that has it"),
        ("BEGIN { for ($x : 0..2) { } print($x); }", "$x", "it ended with the block, or the loop, that has it"),
        ("BEGIN { $x = 1; for ($x : 0..2) { } }", "$x", "$x is there already, in this block or around it"),
        ("BEGIN { clear(@y); }", "@y", "@y is never assigned: nothing tells what it holds"),
        ("BEGIN { for ($kv : @y) { } }", "@y", "@y is never assigned: nothing tells what it holds"),
        ('import "mine"; BEGIN { exit(); }', 'import "mine"', "of imports only those of stdlib are supported"),
        ('BEGIN { $x = 1; $x = "a"; }', '$x = "a"', "$x holds an integer elsewhere, and a string here"),
        ('BEGIN { @x = 1; @x = "a"; }', "@x", "@x holds an integer elsewhere, and a string here"),
        ("BEGIN { @x = 1; @x = count(); }", "@x", "@x holds an integer elsewhere, and count() here"),
        ('BEGIN { @x[1] = 1; @x["a"] = 1; }', "@x", "the keys of @x are an integer elsewhere, and a string here"),
        (
            'BEGIN { $x = (1, "a"); $x = (1, 2); }',
            None,
            "holds a tuple (integer, string) elsewhere, and a tuple (integer, i",
        ),
        (
            'BEGIN { @x = (a=1); @x = (a="b"); }',
            "@x",
            "a record (.a = integer) elsewhere, and a record (.a = string) here",
        ),
        (
            'BEGIN { @x[1, 2] = 1; @x[1, "a"] = 1; }',
            None,
            "are a tuple (integer, integer) elsewhere, and a tuple (integer, s",
        ),
        ("BEGIN { @x[1] = 1; @x = 1; }", "@x", "@x has a key elsewhere: give it one here"),
        ('BEGIN { printf("%d"); }', 'printf("%d")', "the format takes 1 value, and 0 are given"),
        ('BEGIN { printf("%d", "a"); }', '"a"', "%d does not print a string"),
        (
            'BEGIN { printf("%f", 1); }',
            '"%f"',
            "%f is for floating-point numbers, which are not printed: %d, %x and %s are",
        ),
        ("BEGIN { count(); }", "count()", "count() is assigned to a map: @x = count(…)"),
        ("BEGIN { @ = hist(1, 9); }", "9", "hist(n, 9): give 0 to 5 bits"),
        ("BEGIN { @ = lhist(1, 0, 10, 11); }", None, "takes a step above 0, and a range of one or more"),
        ('BEGIN { print(comm < "b"); }', None, "strings that a probe reads have no <: == and != compare them"),
        ('BEGIN { print(comm + "b"); }', None, "strings that a probe reads have no +: str_concat() joins them"),
        ("BEGIN { print(comm == pid); }", None, "== of a string and an integer: write both as one type"),
        (
            "BEGIN { print(len(pid)); }",
            "pid",
            "len() takes a map with keys, a stack or a string, and this is an integer",
        ),
        ("BEGIN { print(1 / 0); }", "1 / 0", "division by zero"),
        ("BEGIN { print(-1 < 18446744073709551615); }", None, "no number of 64 bits holds both: cast one, (uint64)-1"),
        ("BEGIN { print(1 << 65); }", "1 << 65", "a shift by 65: a number has 64 bits, give 0 to 63"),
        ("BEGIN { print(1 >> -1); }", "1 >> -1", "a shift by -1: a number has 64 bits, give 0 to 63"),
        (
            "BEGIN { print(18446744073709551615 + 1); }",
            None,
            "18446744073709551616 is greater than 18446744073709551615",
        ),
        (
            "BEGIN { print(9223372036854775807 * 3); }",
            None,
            "27670116110564327421 is greater than 18446744073709551615",
        ),
        ("BEGIN { print(-9223372036854775808 - 1); }", None, "-9223372036854775809 is less than -9223372036854775808"),
        ('BEGIN { print(strncmp(comm, "a", -1)); }', "-1", "give the number of bytes to compare, 0 or more"),
        ("BEGIN { print(retval); }", "retval", "retval is known where a function returns"),
        ("BEGIN { print(arg0); }", "arg0", "BEGIN has no arguments"),
        (
            "BEGIN { print(args.x); }",
            "args.x",
            "BEGIN has no arguments: args and arg0 are for tracepoint, rawtracepoint",
        ),
        ("BEGIN { print(args); }", "args", "BEGIN has no arguments: args and arg0 are for"),
        ("END { print(arg0); }", "arg0", "END has no arguments: args and arg0 are for"),
        ("interval:s:1 { print(arg0); }", "arg0", "interval:s:1 has no arguments: args and arg0 are for"),
        ('BEGIN { printf("%5.2f %d", 1, 2); }', None, "%5.2f is for floating-point numbers, which are not printed"),
        ('BEGIN { printf("%q5 %d", 1, 2); }', None, "no specifier of printf begins with '%q'"),
        (f"{OPEN} {{ print(args.nothing); }}", None, "has no field 'nothing'"),
        ("BEGIN { @h = hist(1); print(@h + 1); }", "@h", "@h, which hist() fills, is no number: print() shows it"),
        ("BEGIN { @h = stats(1); $x = @h; }", "@h", "@h, which stats() fills, is no number: print() shows it"),
        ("BEGIN { @c = count(); print(len(@c)); }", "@c", "@c has no keys: len() counts the entries of a map that has"),
        ("BEGIN { @c = count(); @c++; }", "@c", "@c is filled by count() elsewhere"),
        ("enum e { A = 18446744073709551615, B } BEGIN { }", "B", "B is 18446744073709551616, and 64 bits do not hold"),
        ("enum e { A = 1, B } BEGIN { print((enum e)7); }", "(enum e)7", "7 is no constant of this enum: it has A = 1"),
        ("enum e { A = 1, B } BEGIN { let $x : enum e; $x = 0; }", "$x = 0", "0 is no constant of this enum: it has A"),
        ("enum e { A = 1 << -1 } BEGIN { }", "1 << -1", "a shift by -1: a number has 64 bits, give 0 to 63"),
        (
            "BEGIN { $a = (uint32 *)1; $b = $a; print($b - $a); }",
            "$b - $a",
            "- of a pointer and a pointer: write (uint64)",
        ),
        ("BEGIN { $a = (char *)1; print(4 - $a); }", "4 - $a", "- of an integer and a pointer: write (uint64)"),
        ("BEGIN { $a = (char *)1; print($a + $a); }", "$a + $a", "+ of a pointer and a pointer: write (uint64)"),
        ("BEGIN { break; }", "break", "break is for loops"),
        ("BEGIN { unroll(0) { } }", "0", "unroll(0): give 1 to 100"),
        ("BEGIN { $x = &$y; }", "$y", "$y is read before anything is assigned to it: write $y = 0; before"),
        ("BEGIN { $x += 1; print($x); }", "$x", "$x is read before anything is assigned to it: write $x = 0; before"),
        (
            "BEGIN { $x = $x + 1; print($x); }",
            "$x",
            "$x is read before anything is assigned to it: write $x = 0; before",
        ),
        ("BEGIN { $x++; $x = 1; }", "$x", "$x is read before anything is assigned to it: write $x = 0; before"),
        ("BEGIN { for ($i : 0..2) { print($x); $x = 1; } }", "$x", "$x is read before anything is assigned to it"),
        (
            "fn f($a : int64) : int64 { $b++; return $a + $b; } BEGIN { f(1); }",
            "$b",
            "$b is read before anything is ass",
        ),
        ("BEGIN { unwatch(); }", "unwatch()", "unwatch() takes 1 argument"),
        ("BEGIN { @[kstack(build_id)] = 1; }", "build_id", "build_id is a mode of ustack"),
        ("let @x = queue(5); BEGIN { @x = 1; }", None, "queue is no kind of map"),
        ("let @x = percpuhash(5); BEGIN { @x[1] = 1; }", None, "@x holds an integer: declare it as hash or lruhash"),
        ("let @x = lruhash(5); BEGIN { @x[1] = count(); }", None, "declare it as hash or percpuhash or percpulruhash"),
        ("config = { nonsense = 1 } BEGIN { }", None, "nonsense"),
        ("software:nothing:1 { }", "software:nothing:1", "there is no software event nothing"),
        ("interval:s:0 { }", "interval:s:0", "the rate of interval is at least 1"),
        ("watchpoint:0x1000:8:r { }", "watchpoint:0x1000:8:r", "the processor watches for w, rw or x, not for r"),
        ("watchpoint:0x1004:8:w { }", "watchpoint:0x1004:8:w", "the address is not a multiple of the length"),
        (
            "#define X 0x10000000000000000\nBEGIN { print(X); }",
            "0x10000000000000000",
            "#define X gives no value: this number is greater than 18446744073709551615",
        ),
        ("watchpoint:0x0:8:w { }", "watchpoint:0x0:8:w", "nothing is at the address 0, give that of a variable"),
        ("iter:task:/x { }", "iter:task:/x", "iterators are not pinned"),
    ],
)
def test_a_script_is_refused_at_its_place(text: str, marked: str | None, message: str) -> None:
    """The message, and the characters that it is about."""
    with pytest.raises(CompileError, match=_escaped(message)) as caught:
        Script(text).compile(FakeTarget())
    where = caught.value.location
    assert where is not None
    assert where.file == "<script>"
    if marked is not None:
        assert where.text[where.column : where.end_column].rstrip(";") == marked


def _escaped(message: str) -> str:
    import re

    return re.escape(message)


@pytest.mark.parametrize(
    ("text", "marked", "message"),
    [
        ("BEGIN { exit }", "exit", "no constant of the kernel's: it is a function, write exit()"),
        ("BEGIN { @ = count; }", "count", "it is a function, write count()"),
        ("fn f() : int64 { return 1; } BEGIN { print(f); }", "f", "it is a function, write f()"),
        (
            "BEGIN { print(PR_QQ); }",
            "PR_QQ",
            "write its number, or #define PR_QQ before the probes",
        ),
        (
            "BEGIN { print(execname); }",
            "execname",
            "execname is no builtin, and no constant of the kernel's: write comm",
        ),
        ("BEGIN { print(execname()); }", "execname()", "there is no function execname(): write comm"),
        ("interval:1 { }", "interval:1", "its unit is missing, write interval:s:1"),
        ("profile:99 { }", "profile:99", "its unit is missing, write profile:hz:99"),
        ("BEGIN { @x[1] = 1; for ($kv in @x) { } }", "in", "write `for ($kv : @x)`, not `in`"),
        ("BEGIN { if (pid) { } elif (1) { } }", "elif (1)", "`elif` is written `else if (…) { … }`"),
        ("BEGIN { if pid == 5 { } }", "==", "a condition stands in parentheses: `if (…) { … }`"),
        ("BEGIN { if pid: 1 }", ":", "a block in braces follows the condition of `if`, and no colon"),
        ("BEGIN { if (pid) { } else if: 1 }", ":", "a block in braces follows the condition of `if`, and no colon"),
        ("BEGIN { int x = 3; }", "int", "a variable is declared by its name alone: write `$x = …`, or `let $x`"),
        ("BEGIN { if (pid and tid) { } }", "and", "not `and`: write `&&` for it"),
        ("BEGIN /pid or tid/ { }", "or", "not `or`: write `||` for it"),
        ("BEGIN { print(not tid); }", "tid", "not `not`: write `!` for it"),
        (f"{OPEN} {{ print(args.ret); }}", None, "ret is at tracepoint:syscalls:sys_exit_openat"),
        (
            "tracepoint:syscalls:sys_exit_openat { print(args.filename); }",
            None,
            "are known at tracepoint:syscalls:sys_enter_openat: keep filename in a map there",
        ),
        (
            "tracepoint:syscalls:sys_exit_openat { print(args.rets); }",
            None,
            "tracepoint sys_exit_openat has no field 'rets'",
        ),
        ("#define US(x) ((x) / 1000)\nBEGIN { print(US(5000)); }", "US(5000)", "write macro US(x) { … } for it"),
        ('BEGIN { printf("%\'d", 5); }', '"%\'d"', "%' is not supported: no separators are put between thousands"),
        (
            "BEGIN { @[kstack(3)] = 1; @[kstack(perf)] = 1; }",
            "@",
            "are a kernel stack of 3 frames, mode bpftrace elsewhere, and a kernel stack of 127 frames, mode perf here",
        ),
        ("fn f($a : int8) : int64 { return $a; } BEGIN { f(300); }", "300", "it holds -128 to 127"),
        ("fn f() : uint8 { return -1; } BEGIN { f(); }", "-1", "it holds 0 to 255"),
        ("uprobe::malloc { }", "uprobe::malloc", "write uprobe:FILE:malloc: the program or library stands before"),
    ],
)
def test_words_of_other_languages_and_what_is_left_out(text: str, marked: str | None, message: str) -> None:
    """The message says what to write instead."""
    with pytest.raises(CompileError, match=_escaped(message)) as caught:
        Script(text).compile(FakeTarget())
    where = caught.value.location
    assert where is not None
    if marked is not None:
        assert where.text[where.column : where.end_column] == marked


def test_a_place_is_of_its_line() -> None:
    """In a script of several lines."""
    with pytest.raises(CompileError) as caught:
        Script("BEGIN\n{\n    @x = 1;\n    print(@y);\n}\n", file="tool.bt").compile(FakeTarget())
    assert str(caught.value) == (
        "tool.bt:4: @y is never assigned: nothing tells what it holds\n    print(@y);\n          ^^"
    )
