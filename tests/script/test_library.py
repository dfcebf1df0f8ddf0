"""Functions of bpftrace's library that look at text, at types, and at memory of the process."""

from __future__ import annotations

import pytest

from pyebpf.bpftrace.translate.user_memory import UserVariable
from pyebpf.errors import CompileError, NotFound
from pyebpf.script import Script
from pyebpf.testing import Simulation
from tests.dsl.fake_target import FakeTarget
from tests.support.scripts import printed, printed_by


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        ('(strstr("hello world", "wor"), strstr($h, "ll"), strstr($h, $l), strstr($h, "x"))', "(6, 2, 2, -1)"),
        ('(strstr($h, ""), strstr("", "a"), strstr("aab", "ab"), strstr($l, $h))', "(0, -1, 1, -1)"),
        (
            '(strcap($h), strcap("abc"), strcap(comm), default_str_length, default_str_length())',
            "(6, 4, 16, 1024, 1024)",
        ),
        ('(str_concat("a", "b"), str_concat($h, "!"), str_concat($h, $l), str_concat("", $l))', ""),
        ('str_concat(str_concat($h, "-"), comm)', "hello-test"),
        ('(memcmp("abc", "abd", 3), memcmp($h, "help", 4), memcmp($h, $h, 6))', "(-1, -4, 0)"),
        ("(memcmp((uint32)5, (uint32)7, 4), memcmp((uint32)5, (uint32)7, 1))", "(-2, -2)"),
        ("(strncmp($h, $l, 3), strncmp($h, $h, 9), strncmp($h, comm, 0))", "(1, 0, 0)"),
        ('(strncmp($h, str_concat("he", $l), 5), strncmp($h, str_concat("hel", $l), 4))', "(0, 0)"),
        ('(strncmp($h, str_concat("hel", $l), 5), strncmp(comm, str_concat(comm, $l), 5))', "(1, 1)"),
        ("has_cpid", "false"),
        ('kfunc_exist("tcp_sendmsg")', "true"),
        ("{ $f = (struct Foo *)8; (offsetof(*$f, n), offsetof(*curtask, comm)) }", "(4, 16)"),
        ("container_of((int32 *)104, typeof(struct Foo), n)", "0x64"),
    ],
)
def test_the_library_has_values(expression: str, text: str) -> None:
    """What `print` makes of them."""
    script = f'struct Foo {{ int m; int n; }} BEGIN {{ $h = "hello"; $l = "llo"; print({expression}); }}'
    assert printed(script) == f"{text or '(ab, hello!, hellollo, llo)'}\n"


@pytest.mark.parametrize(
    ("statement", "marked", "message"),
    [
        ('print(strstr(5, "a"));', "5", "strstr() takes strings, and this is an integer: write str(…)"),
        ("assert_str(5);", "5", "assert_str() takes strings"),
        ('print(memcmp("a", "b", 9));', "9", "memcmp() of 9 bytes: give 1 to 2, as both have"),
        ("print(path(5));", "path(5)", "path() takes a struct path that the verifier knows: it is for fentry, fexit"),
        ("print(socket_cookie(5));", "socket_cookie(5)", "it is for fentry, fexit, iter and rawtracepoint"),
        ('print(uaddr("x"));', 'uaddr("x")', "uaddr() is for uprobe, uretprobe and usdt: kaddr()"),
        ("write_user(0, 1, 4);", "write_user(0, 1, 4)", "write_user() changes what it looks at: allow it by --unsafe"),
        ('debugf("%d");', 'debugf("%d")', "the format takes 1 value, and 0 are given"),
        ('debugf("%r", buf("a", 1));', '"%r"', "%r is none that the kernel prints"),
        ('debugf("%s", 5);', "5", "debugf() prints an integer by no %s"),
        ('debugf("%d", comm);', "comm", "%d does not print a string"),
        ("print(container_of(curtask, 5, pid));", "5", "container_of() takes a pointer, a type and a member"),
        ('print(strcaps("a"));', 'strcaps("a")', "there is no function strcaps() (did you mean strcap"),
    ],
)
def test_wrong_calls_are_refused_at_their_places(statement: str, marked: str, message: str) -> None:
    """The message, and the characters that it is about."""
    with pytest.raises(CompileError) as caught:
        Script(f"BEGIN {{ {statement} }}").compile(FakeTarget())
    assert message in caught.value.message
    where = caught.value.location
    assert where is not None
    assert where.text[where.column : where.end_column] == marked


@pytest.mark.parametrize(
    ("call", "line"),
    [
        ('debugf("100%%")', "100%"),
        ('debugf("x %d %-5x|%s", 3, 255, "a")', "x 3 ff   |a"),
        ('debugf("%i %lu %llx %c %s", 1, 2, 3, 65, comm)', "1 2 3 A test"),
    ],
)
def test_a_line_for_the_trace_pipe(call: str, line: str) -> None:
    """In the kernel's words, by another helper where the values do not fit registers."""
    script = Script(f"BEGIN {{ {call}; }}")
    with Simulation(script, FakeTarget()) as kernel:
        ((_, program),) = kernel._programs
        assert kernel.machine.run(program, bytes(96)).printed == (line,)


def test_memory_of_the_process_is_written() -> None:
    """The first bytes of a value; whether that was done is the answer."""
    script = Script('BEGIN { $t = "new"; print(write_user(0, $t, 4)); print(write_user(0, &$t, 2)); }', unsafe=True)
    assert printed_by(script) == "false\nfalse\n"


def test_a_variable_of_a_file_that_moves() -> None:
    """Its address is that of the probe, and how far it is from there; elsewhere there is no way to know it."""
    script = Script('uprobe:/bin/x:f { @ = *uaddr("v"); }')
    script._script.script.files.variable = lambda *_: UserVariable(0x4000, 4, 0x1000, moves=True)
    assert script.compile(FakeTarget()).programs
    for text in ('uretprobe:/bin/x:f { @ = *uaddr("v"); }', 'usdt:/bin/x:a:b { @ = *uaddr("v"); }'):
        other = Script(text)
        other._script.script.files.variable = lambda *_: UserVariable(0x4000, 4, 0x1000, moves=True)
        other._script.script.files.check = lambda _: None
        with pytest.raises(CompileError, match=r"lies at another address in each process"):
            other.compile(FakeTarget())


def test_a_variable_that_is_not_there() -> None:
    """The error stands at its name."""
    script = Script('uprobe:/bin/x:f { @ = *uaddr("v"); }')

    def missing(binary: str, function: str, name: str, pid: int) -> UserVariable:
        raise NotFound(f"{binary} has no symbol {name}, {function}, {pid}")

    script._script.script.files.variable = missing
    script._script.script.files.check = lambda _: None
    with pytest.raises(CompileError, match="/bin/x has no symbol v, f, -1"):
        script.compile(FakeTarget())


@pytest.mark.parametrize(
    ("script", "text"),
    [
        ('BEGIN { $s = "a"; $s = str_concat($s, "x"); print($s); }', "ax\n"),
        ('BEGIN { $s = "a"; for ($i : 0..5) { $s = str_concat($s, "xy"); } print($s); }', "axyxyxyxyxy\n"),
        ('BEGIN { @s = "a"; @s = str_concat(@s, "yy"); print(@s); clear(@s); }', "@s: ayy\n"),
        ('BEGIN { $t = ("a", 1); $t = (str_concat($t.0, "b"), 2); print($t); }', "(ab, 2)\n"),
        ('fn f($a : string) : string { return str_concat($a, "x"); } BEGIN { print(f(f("b"))); }', "bxx\n"),
        (
            'config = { max_strlen = 9 } BEGIN { $s = "ab"; for ($i : 0..9) { $s = str_concat($s, $s); } print($s); }',
            None,
        ),
    ],
)
def test_a_string_that_grows_by_what_it_holds(script: str, text: str | None) -> None:
    """Its type is found in a few builds, however often it would grow; it is cut where strings are."""
    assert printed(script) == (text or "abababab..\n")


def test_texts_in_quotes_are_joined_as_those_that_are_read() -> None:
    """Cut where strings are: a key is the same by either way."""
    text = printed(
        'config = { max_strlen = 8 } BEGIN { $one = "abcdef"; $known = str_concat("abcdef", "ghijk"); print($known); '
        '@[str_concat("abcdef", "ghijk")] = 1; @[str_concat($one, "ghijk")] = 2; print(strlen($known)); }'
    )
    assert text.split() == ["abcdefg..", "7", "@[abcdefg..]:", "2"]
