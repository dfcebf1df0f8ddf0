"""Macros: their calls are replaced by their bodies."""

from __future__ import annotations

import pytest

from pyebpf.errors import CompileError
from pyebpf.script import Script
from tests.dsl.fake_target import FakeTarget
from tests.support.scripts import printed


@pytest.mark.parametrize(
    ("macros", "body", "text"),
    [
        ("macro one() { 1 }", "print((one, one()));", "(1, 1)"),
        ("macro up($v) { $v += 3; }", "$a = 4; up($a); up($a); print($a);", "10"),
        ("macro up($v) { $v += 3; $v }", "$a = 4; $b = up($a); print(($a, $b));", "(7, 7)"),
        ("macro put(@m, k) { @m[k] = k * 2; @m[k] }", "print(put(@x, 5)); clear(@x);", "10"),
        ("macro own(v) { $y = v + 1; $y }", "$y = 20; $z = own($y); print(($y, $z));", "(20, 21)"),
        ("macro own(v) { let $y = v; $y }", "print((own(1), own(2)));", "(1, 2)"),
        ("macro twice(v) { v; v; }", 'twice({ printf("hey ") });', "hey hey "),
        ("macro b(v) { v + a(v) } macro a(v) { v * 10 }", "print(b(a(2)));", "220"),
        ("macro most(a, b) { a > b ? a : b }", "print((most(3, 9), most(most(8, 2), 5)));", "(9, 8)"),
        ("macro pick(c, a) { c ? a : a }", 'print((pick(1, 5), pick(0, "text")));', "(5, text)"),
        (
            "macro kind($v) { 1 } macro kind(@v) { 2 } macro kind(v) { 3 }",
            "$a = 0; @b = 0; print((kind($a), kind(@b), kind(7))); clear(@b);",
            "(1, 2, 3)",
        ),
        ("macro f() { 0 } macro f(a) { 1 } macro f(a, b) { 2 }", "print((f, f(9), f(9, 9)));", "(0, 1, 2)"),
        ("macro cpu(v) { v }", "print((cpu(7), cpu() < 4096));", "(7, true)"),
        ("macro add() { 2 } macro same(add) { add }", "print(same(1));", "1"),
        (
            "macro sum(@m) { let $s = 0; for ($kv : @m) { $s += $kv.1; } $s }",
            "@a[1] = 5; @a[2] = 6; @b[1] = 7; print((sum(@a), sum(@b))); clear(@a); clear(@b);",
            "(11, 7)",
        ),
    ],
)
def test_a_body_takes_the_place_of_a_call(macros: str, body: str, text: str) -> None:
    """With the arguments in the places of the parameters, and variables of its own."""
    assert printed(f"{macros} BEGIN {{ {body} }}").strip() == text.strip()


@pytest.mark.parametrize(
    ("text", "marked", "message"),
    [
        ("macro f(a, a) { a } BEGIN { }", "a", "this macro has a parameter a already"),
        ("macro f(a) { a } macro f(b) { b } BEGIN { }", "macro f(b) { b }", "there is a macro f with such parameters"),
        ("macro f() { @x = 1; } BEGIN { f(); }", "@x", "@x is no parameter of the macro f: maps are passed to macros"),
        ("macro f($v) { $v } BEGIN { f(1); }", "1", "f takes a variable here, for its $v"),
        ("macro f(@v) { @v } BEGIN { $a = 1; f($a); }", "$a", "f takes a map here, for its @v"),
        ("macro f(v) { v } BEGIN { f(1, 2); }", "f(1, 2)", "f takes 1 argument, not 2"),
        ("macro f($v) { let $v = 1; } BEGIN { $a = 1; f($a); }", "$v", "$v is a parameter of this macro"),
        ("macro f(v) { g(v) } macro g(v) { f(v) } BEGIN { f(1); }", "f(v)", "the macro f calls itself: f > g > f"),
        ("macro f(v) { v } BEGIN { print(f(nothing)); }", "nothing", "nothing is no builtin"),
        ("macro f() { let $x = 1; } BEGIN { print(f()); }", "{ let $x = 1; }", "this has no value"),
    ],
)
def test_a_wrong_macro_is_refused_at_its_place(text: str, marked: str, message: str) -> None:
    """The message, and the characters that it is about."""
    with pytest.raises(CompileError) as caught:
        Script(text).compile(FakeTarget())
    assert message in caught.value.message
    where = caught.value.location
    assert where is not None
    assert where.text[where.column : where.end_column] == marked


def test_macros_that_double_are_cut_off() -> None:
    """A chain of forty would make 2^40 parts."""
    chain = " ".join(f"macro m{n}(v) {{ m{n - 1}(v) + m{n - 1}(v) }}" for n in range(1, 41))
    with pytest.raises(CompileError, match="macros make this script more than 20000 parts long: call fewer"):
        Script(f"macro m0(v) {{ v }} {chain} BEGIN {{ print(m40(1)); }}")


def test_macros_that_double_their_arguments_are_cut_off() -> None:
    """Nested calls of one that writes its argument twice."""
    call = "two(" * 60 + "1" + ")" * 60
    with pytest.raises(CompileError, match="macros make this script more than 20000 parts long"):
        Script(f"macro two(v) {{ v + v }} BEGIN {{ print({call}); }}")


@pytest.mark.parametrize(
    ("count", "body", "message"),
    [
        (201, "+ 1", "macros call each other more than 50 deep: call fewer"),
        (49, "+ 1 + 2 + 3 + 4 + 5 + 6 + 7", "macros make this more than 300 levels deep: use a variable"),
    ],
)
def test_deep_macros_are_cut_off(count: int, body: str, message: str) -> None:
    """A chain, each link of which adds levels."""
    chain = " ".join(f"macro m{n}(v) {{ m{n - 1}(v) {body} }}" for n in range(1, count))
    with pytest.raises(CompileError, match=message):
        Script(f"macro m0(v) {{ v }} {chain} BEGIN {{ print(m{count - 1}(1)); }}")


def test_a_complaint_in_a_macro_tells_the_calls_that_led_there(capsys: pytest.CaptureFixture[str]) -> None:
    """The innermost first, each with its line, as bpftrace has them."""
    text = 'macro bad() { errorf("no"); }\nmacro worse() { bad(); }\nBEGIN { worse(); warnf("w"); }'
    assert printed(text) == ""
    assert capsys.readouterr().err == (
        "<script>:1:15-27: ERROR: no\n"
        "<script>:2:17-22: ERROR: expanded from\nmacro worse() { bad(); }\n                ~~~~~\n"
        '<script>:3:9-16: ERROR: expanded from\nBEGIN { worse(); warnf("w"); }\n        ~~~~~~~\n'
        "<script>:3:18-28: WARNING: w\n"
    )
