"""What is outside the language: each case of refused.txt is refused at its place, with what to write instead."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from pyebpf.bpftrace.cursor import MAX_LEVELS
from pyebpf.bpftrace.parser import parse, parse_expression
from pyebpf.errors import CompileError, InvalidValue
from tests.support.texts import Refusal, refusals

CASES = refusals(Path(__file__).with_name("refused.txt"))

#: Scripts of 10,000 to 200,000 characters that end in an error.
HOSTILE = {
    "braces": "BEGIN { " + "{" * 100_003,
    "blocks": "BEGIN { " + "{" * 10_007 + "}" * 10_007 + " }",
    "parentheses": "BEGIN { $x = " + "(" * 10_007 + "1" + ")" * 10_007 + " }",
    "casts": "BEGIN { $x = " + "(a)" * 10_007 + "1 }",
    "signs": "BEGIN { $x = " + "!" * 10_007 + "1 }",
    "terms": "BEGIN { $x = " + "1+" * 10_007 + "1 }",
    "all operators": "BEGIN { $x = " + "1||1&&1|1^1&1==1<1<<1+1*(" * 1_009 + "1" + ")" * 1_009 + " }",
    "conditions": "BEGIN { $x = " + "1?2:" * 10_007 + "1 }",
    "branches": "BEGIN { if (1) { } " + "else if (1) { } " * 10_007 + "}",
    "fields": "BEGIN { $x = a" + ".b" * 10_007 + " }",
    "keys": "BEGIN { " + "@a[" * 10_007 + " }",
    "types": "BEGIN { let $x: a" + "*" * 10_007 + " }",
    "sizes": "BEGIN { let $x: a" + "[1]" * 10_007 + " }",
    "structs": "struct a { " * 10_007 + "}; " * 10_007,
    "comments": "BEGIN { " + "/* " * 50_021,
    "divided comments": "BEGIN { $x = 1" + "/ /**/" * 20_011 + " }",
    "comments of a directive": "#define X " + "/*" * 50_021 + "\n",
    "quotes": 'import "' + '\\"' * 50_021,
    "quotes in a declaration": 'let @a = "' + '\\"' * 50_021 + ")",
    "comments in a declaration": "let @a = " + "/*" * 50_021 + ")",
    "parts": "kprobe" + ":" * 100_003 + " { }",
    "name of a provider": "k" * 100_003 + ":f { }",
    "attributes": "struct a { } __attribute__((" + "()" * 50_021,
    "digits": "BEGIN { $x = " + "1" * 100_003 + " }",
    "bytes": b"\xff" * 100_003,
}


def marked(error: CompileError) -> str:
    """What the carets of an error stand under."""
    assert error.location is not None
    return error.location.text[error.location.column : error.location.end_column].strip()


@pytest.mark.parametrize("case", CASES, ids=[f"{case.title}-{number}" for number, case in enumerate(CASES)])
def test_refused(case: Refusal):
    """The message, the file, and the text that the carets stand under."""
    with pytest.raises(CompileError) as caught:
        parse(case.body, "script.bt")
    error = caught.value
    assert (error.message, marked(error)) == (case.message, case.carets)
    assert error.location is not None
    assert error.location.file == "script.bt"
    assert error.location.text in case.body.splitlines()


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_scripts_end_in_an_error(name):
    """Neither the stack nor time run out, and the message stays short."""
    started = time.process_time()
    with pytest.raises(CompileError) as caught:
        parse(HOSTILE[name], "script.bt")
    assert time.process_time() - started < 5
    assert caught.value.location is not None
    assert len(str(caught.value)) < 1000


def test_levels_up_to_the_limit():
    """So many parentheses, terms and blocks are in the language, from however deep a stack."""

    def deep(levels: int, value: str) -> object:
        return deep(levels - 1, value) if levels else parse(f"BEGIN {{ $x = {value}; }}")

    for value in (
        "(" * (MAX_LEVELS - 5) + "1" + ")" * (MAX_LEVELS - 5),
        "1" + " + 1" * (MAX_LEVELS - 5),
        "{ " * (MAX_LEVELS // 2 - 5) + "1" + " }" * (MAX_LEVELS // 2 - 5),
    ):
        assert deep(500, value) == deep(1, value)


@pytest.mark.parametrize(
    ("script", "advice"),
    [
        (
            "BEGIN { if (1) { }" + " else if (2) { }" * 1500 + " }",
            f"more than {MAX_LEVELS} `else if` follow an `if`: split it into several, or look the value up in a map",
        ),
        ("BEGIN { " + "{ " * 300 + "1" + " }" * 301, "levels deep: put the inner blocks into a function, `fn`"),
        (
            "struct a { " + "struct { " * 300 + "int x; " + "};" * 301 + "BEGIN { }",
            "levels deep: declare the inner struct before this one",
        ),
        ("BEGIN { $x = 1" + " + 1" * 300 + " }", "levels: assign a part of it to a variable"),
    ],
)
def test_what_is_too_deep_is_told_what_to_do(script, advice):
    """By its kind: a chain, blocks, structs, an expression."""
    with pytest.raises(CompileError) as caught:
        parse(script)
    assert advice in caught.value.message


def test_bytes_that_are_not_text():
    """A NUL and a byte that is no UTF-8 are refused at their place, and the message can be printed."""
    for script, message in (
        (b"BEGIN {\n  \0 }", "a script is text, without NUL"),
        (b"BEGIN {\n  \xe9 }", "a script is text, without byte 0xe9, which is not UTF-8"),
    ):
        with pytest.raises(CompileError) as caught:
            parse(script)
        assert str(caught.value).encode().decode() == f"<script>:2: {message}\n    \ufffd }}\n    ^"


def test_a_script_is_text():
    """Other values are refused."""
    with pytest.raises(InvalidValue, match="a script is a str or bytes, not int"):
        parse(5)  # type: ignore[arg-type]  # what is tested


def test_an_expression_alone():
    """Nothing may follow it, and nothing in it may be left open."""
    assert parse_expression(" 1 + 2 // three") == parse_expression("(1 + 2)")
    for text, message in (
        ("1 2", "the end is expected after an expression, not `2`"),
        ("", "a value is expected here, not the end"),
        ('"a', 'this string has no end on its line: write `"`'),
        ("/*", "this comment has no end: write `*/`"),
    ):
        with pytest.raises(CompileError) as caught:
            parse_expression(text)
        assert caught.value.message == message
