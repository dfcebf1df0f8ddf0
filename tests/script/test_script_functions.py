"""Functions that a script defines."""

from __future__ import annotations

import pytest

from pyebpf.errors import CompileError
from pyebpf.script import Script
from tests.dsl.fake_target import FakeTarget
from tests.support.scripts import printed

FUNCTIONS = """
fn add($a : uint64, $b : uint64) : uint64 { return $a + $b; }
fn kind($a : int32) : int32 { if ($a > 3) { return 1; } else { @x[$a] = count(); } return 2; }
fn greet($who : string) : string { $x = "hello "; return str_concat($x, $who); }
fn low($n : uint8) : uint8 { return $n; }
fn say($n : int64) : void { if ($n == 0) { return; } printf("say %d\\n", $n); }
fn summed($n : int64) : int64 { let $s = 0; for ($i : 0..10) { if ($i == $n) { return $s; } $s += $i; } return -1; }
fn twice($n : int64) : int64 { return add($n, $n); }
fn pick($t : int64) : int64 { if ($t) { $t = 7; } return $t; }
"""


@pytest.mark.parametrize(
    ("statements", "text"),
    [
        ("print((add(1, 2), add(add(1, 2), add(3, 4)), twice(21)));", "(3, 10, 42)\n"),
        ("print((kind(5), kind(2), kind(2))); print(@x[2]); clear(@x);", "(1, 2, 2)\n2\n"),
        ('print(greet("you")); print(greet(comm));', "hello you\nhello test\n"),
        ("$b = 300; print((low($b), sizeof(low(1))));", "(44, 1)\n"),
        ("say(0); say(7);", "say 7\n"),
        ("print((summed(4), summed(50)));", "(6, -1)\n"),
        ("$t = 5; print(pick($t)); print($t);", "7\n5\n"),
        ("$n = 0; while ($n < 3) { $n++; if (add($n, 1) == 3) { break; } say($n); } print($n);", "say 1\n2\n"),
        ("@m[1] = 5; @m[2] = 7; $t = 0; for ($kv : @m) { $t += twice($kv.1); } print($t); clear(@m);", "24\n"),
        ("macro m(x) { twice(x) } BEGIN_", "42\n"),
    ],
)
def test_a_function_is_called(statements: str, text: str) -> None:
    """With values of its parameters' types; its variables are no other's."""
    script = f"{FUNCTIONS} BEGIN {{ {statements} }}"
    if statements.endswith("BEGIN_"):
        script = f"{FUNCTIONS} {statements.removesuffix('_')} {{ print(m(21)); }}"
    assert printed(script) == text


def test_a_function_is_for_several_probes() -> None:
    """Each has the body in it."""
    text = 'fn f($n : int64) : void { printf("%s %d\\n", probe, $n); } BEGIN { f(1); } END { f(2); }'
    assert printed(text) == "begin 1\nend 2\n"


@pytest.mark.parametrize(
    ("text", "marked", "message"),
    [
        ("fn f() : int64 { return 1; } BEGIN { print(f(1)); }", "f(1)", "f() takes 0 arguments, not 1"),
        (
            "fn f() : int64 { return g(); } fn g() : int64 { return f(); } BEGIN { f(); }",
            "f()",
            "calls itself: f > g > f",
        ),
        ("fn f() : void { return 1; } BEGIN { f(); }", "1", "f() gives nothing, its result is void"),
        ("fn f() : int64 { return; } BEGIN { f(); }", "return", "f() has a result: return it"),
        ("fn f($x: int64) : int64 { if ($x) { return 0; } } BEGIN { f(1); }", "}", "comes to its end without a result"),
        ('fn f() : uint8 { return "bob"; } BEGIN { f(); }', '"bob"', "a string is no number"),
        ("fn f() : string { return 5; } BEGIN { f(); }", "5", "this is an integer, of which no string is made"),
        ('fn f($x: int64) : void { } BEGIN { f("x"); }', '"x"', "a string is no number"),
        ("fn f() : void { } BEGIN { print(f()); }", "f()", "this has no value: it is a statement of its own"),
        ("fn f() : void { } fn f() : void { } BEGIN { }", None, "there is a function f already"),
        ("fn print() : void { } BEGIN { }", None, "there is a function print of the language's own"),
        ("fn f($a: int64, $a: int64) : void { } BEGIN { }", "$a: int64", "f has a parameter $a already"),
        (
            "fn compute() : void { } BEGIN { compte(); }",
            "compte()",
            "there is no function compte() (did you mean compute",
        ),
        ("fn f() : void { break; } BEGIN { while (1) { f(); } }", "break", "break is for loops"),
    ],
)
def test_what_is_wrong_is_an_error_at_its_place(text: str, marked: str | None, message: str) -> None:
    """The message, and the characters that it is about."""
    with pytest.raises(CompileError) as caught:
        Script(text).compile(FakeTarget())
    assert message in caught.value.message
    where = caught.value.location
    assert where is not None
    if marked is not None:
        assert where.text[where.column : where.end_column] == marked


def test_a_loop_over_a_map_is_not_left_by_return() -> None:
    """Its body is a function of the kernel's: what to write instead is said."""
    text = "fn f() : int64 { for ($kv : @m) { return 1; } return 2; } BEGIN { @m[1] = 1; print(f()); }"
    with pytest.raises(CompileError, match="set a variable, and return behind the loop"):
        Script(text).compile(FakeTarget())
