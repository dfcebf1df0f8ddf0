"""Calls, and the functions behind them."""

from __future__ import annotations

import pytest

from pyebpf.errors import CompileError
from tests.dsl.harness import build, message

#: Statements of a probe whose parameters are count, a u64, and delta, an s64; what stands before it in its file; the
#: message; what its carets stand under.
CASES = [
    (
        "print(count)",
        "",
        "a probe can't print: emit a record to a ring buffer, `events.emit(Record(…))`, and print it in user space",
        "print(count)",
    ),
    (
        'print("x")',
        "",
        "a probe can't print: emit a record to a ring buffer, `events.emit(Record(…))`, and print it in user space",
        'print("x")',
    ),
    ('len("abc")', "", "len() is plain Python: it would run while compiling, not on each event", 'len("abc")'),
    (
        "seen.append(3)",
        "seen = []",
        (
            "seen.append() is plain Python: it would run while compiling, not on each event; keep values in a map, or "
            "emit them"
        ),
        "seen.append(3)",
    ),
    (
        "helper()",
        """
def helper():
    pass
""",
        "helper() is plain Python: it would run while compiling, not on each event",
        "helper()",
    ),
    (
        "opens.clear()",
        "",
        "opens.clear is for user space: a probe looks entries up one at a time, by .get(k)",
        "opens.clear",
    ),
    (
        "x = opens.foo(3)",
        "",
        "the map opens has no attribute foo: it has get, add, pop, for_each, items, keys, values",
        "opens.foo",
    ),
    ("x = opens.get()", "", "get() of the map opens: missing a required argument: 'key'", "opens.get()"),
    ("opens()", "", "the map opens cannot be called", "opens()"),
    ("x = pid(3)", "", "pid(): too many positional arguments", "pid(3)"),
    ("x = u32(1, 2)", "", "u32() takes one number", "u32(1, 2)"),
    ("x = u8(300)", "", "300 does not fit u8, which holds 0 to 255", "u8(300)"),
    ("x = u64(-1)", "", "-1 does not fit u64, which holds 0 to 18446744073709551615", "u64(-1)"),
    ('x = u32("a")', "", "u32('a'): give an integer", 'u32("a")'),
    (
        "x = str(count)",
        "",
        (
            "str() is Python's and runs while compiling, but a u64 is known only on each event; keep the "
            "number, and format it in user space; count is a run-time variable since line 3, where it is a parameter"
        ),
        "str(count)",
    ),
    (
        "x = float(count)",
        "",
        (
            "float() is Python's and runs while compiling, but a u64 is known only on each event; BPF has "
            "no fractions; count is a run-time variable since line 3, where it is a parameter"
        ),
        "float(count)",
    ),
    (
        "x = sum(count)",
        "",
        "sum() can't go over a u64 on each event: write a `for` loop",
        "sum(count)",
    ),
    (
        "x = sorted([1], key=count)",
        "",
        (
            "sorted() is Python's and runs while compiling, but a u64 is known only on each event; sort "
            "in user space; count is a run-time variable since line 3, where it is a parameter"
        ),
        "sorted([1], key=count)",
    ),
    (
        "x = divmod(count)",
        "",
        "divmod() takes two numbers",
        "divmod(count)",
    ),
    (
        "x = isinstance(count, int)",
        "",
        (
            "isinstance() is Python's and runs while compiling, but a u64 is known only on each event; "
            "count is a run-time variable since line 3, where it is a parameter"
        ),
        "isinstance(count, int)",
    ),
    ("x = limit()", "limit = 3", "limit is no function: it can't be called", "limit()"),
    ("x = min(count, key=3)", "", "min() takes no argument key in a probe", "min(count, key=3)"),
    ("x = abs(count, 3)", "", "abs() takes one argument", "abs(count, 3)"),
    ("x = len(count)", "", "a u64 has no length", "len(count)"),
    ("x = bool(opens)", "", "the map opens is neither true nor false", "bool(opens)"),
    (
        'x = int("a")',
        "",
        "computing this while compiling raised ValueError: invalid literal for int() with base 10: 'a'",
        'int("a")',
    ),
    ("x = int(comm())", "", "comm() is no number", "int(comm())"),
    (
        "x = range(count, 5, 2)",
        "",
        "range() with run-time ends takes one or two numbers outside `for`",
        "range(count, 5, 2)",
    ),
    (
        "x = helper(*count)",
        """
def helper(x):
    return x
""",
        (
            "`*` can't spread values here: write each one; count is a run-time variable since line 6, where it is a "
            "parameter"
        ),
        "*count",
    ),
    (
        "x = helper(**count)",
        """
def helper(x):
    return x
""",
        "`**` can't spread values here: write each one",
        "count",
    ),
    (
        "x = helper(3, 4, 5)",
        """
def helper(x):
    return x + pid()
""",
        "helper(): too many positional arguments",
        "helper(3, 4, 5)",
    ),
    (
        "results[0] = helper(delta)",
        """
def helper(x):
    if x > 3:
        return 1
""",
        "what helper() returns may be None: test it with `is None` first",
        "results[0] = helper(delta)",
    ),
    (
        "results[0] = helper(delta)",
        """
def helper(x):
    if x > 3:
        return 1
    return
""",
        "what helper() returns may be None: test it with `is None` first",
        "results[0] = helper(delta)",
    ),
    (
        "results[0] = helper(delta)",
        """
def helper(x):
    if x > 3:
        return "a"
    return 1.5
""",
        (
            "which value this function returns is decided on each event, and 1.5 is known only while "
            "compiling: return a number, a text or a record"
        ),
        "return 1.5",
    ),
    (
        "results[0] = helper(delta)",
        """
def helper(x):
    if x > 3:
        return delta
    return x
""",
        "delta is not defined",
        "delta",
    ),
    (
        "results[0] = helper(delta)",
        """
def helper(x):
    return helper(x)
""",
        "helper calls itself: what is inlined can't; write a loop",
        "helper(x)",
    ),
    (
        "results[0] = helper(delta)",
        """
async def helper(x):
    return x
""",
        "helper is a coroutine or a generator, which can't be inlined: call a plain function",
        "helper(delta)",
    ),
    (
        "results[0] = helper(delta)",
        """
def helper(x):
    yield x
""",
        "helper is a coroutine or a generator, which can't be inlined: call a plain function",
        "helper(delta)",
    ),
    (
        "results[0] = helper(delta, count)",
        """
def helper(x, y):
    return x if x > 3 else y
""",
        "the conditional expression gives a u64 on one path and an s64 on another: write u64(…) or s64(…)",
        "x if x > 3 else y",
    ),
    (
        "results[0] = (lambda x: f(x + 1))(delta)",
        "",
        "f is not defined",
        "f",
    ),
    (
        "results[0] = helper()",
        """
def around():
    x = 1
    def helper():
        nonlocal x
        x = pid()
        return x
    return helper
helper = around()
""",
        "an outer name can't be assigned by a probe, which runs in the kernel: keep the value in a map",
        "nonlocal x",
    ),
    (
        "results[0] = helper(delta)",
        'exec("def helper(x): return x")',
        (
            "the source of helper cannot be read (<string>): put it in a file and use `pyebpf run FILE`, "
            "or give its text to `bpf.define(text)`"
        ),
        "helper(delta)",
    ),
    (
        "results[0] = fail(delta)",
        'fail = eval("lambda x: x")',
        (
            "the source of <lambda> cannot be read (<string>): put it in a file and use `pyebpf run "
            "FILE`, or give its text to `bpf.define(text)`"
        ),
        "fail(delta)",
    ),
    (
        "x = boom()",
        """
def boom():
    raise RuntimeError("no such option")
""",
        "computing this while compiling raised RuntimeError: no such option",
        "boom()",
    ),
    (
        "results[0] = sub(delta, 3)",
        """
@bpf.subprogram
def sub(a: s64, b) -> s32:
    return a
""",
        "sub: annotate b with an integer type, such as `b: u64`",
        "sub",
    ),
    (
        "results[0] = sub(delta, 3)",
        """
@bpf.subprogram
def sub(a: s64, b: s64):
    return a
""",
        "sub: annotate what it returns, `-> u64`, or `-> None`",
        "sub",
    ),
    (
        "results[0] = sub(delta)",
        """
@bpf.subprogram
def sub(a: s64, *b: s64) -> s64:
    return a
""",
        "sub: a subprogram takes no *b",
        "sub",
    ),
    (
        "results[0] = sub(1, 2, 3, 4, 5)",
        """
@bpf.subprogram
def sub(a: s64, b: s64, c: s64, d: s64, e: s64) -> s64:
    return a
""",
        "sub has 5 parameters: a subprogram takes at most 4",
        "sub",
    ),
    (
        "results[0] = sub(delta, 3)",
        """
@bpf.subprogram
def sub(a: s64, b: s64) -> s32:
    return sub(a, b)
""",
        "sub calls itself: the kernel has no room for recursion; write a loop",
        "sub(a, b)",
    ),
    (
        "results[0] = sub(delta, 3)",
        """
@bpf.subprogram
def sub(a: s64, b: s64) -> s32:
    if a > 3:
        return b
""",
        "sub: every path returns a value, and one reaches the end: end it with `return`",
        "def sub(a: s64, b: s64) -> s32:",
    ),
    (
        "results[0] = sub(delta, 3)",
        """
@bpf.subprogram
def sub(a: s64, b: s64) -> s32:
    if a > 3:
        return b
    return
""",
        "every path of a subprogram returns a value: return one here, too",
        "return",
    ),
    (
        "sub(delta, 3)",
        """
@bpf.subprogram
def sub(a: s64, b: s64) -> None:
    return b
""",
        "this subprogram is annotated to return nothing: annotate its result, `-> u64`",
        "b",
    ),
    (
        "sub(delta)",
        """
@bpf.subprogram
def sub(a: s64, b: s64) -> None:
    return
""",
        "sub(): missing a required argument: 'b'",
        "sub(delta)",
    ),
    (
        "results[0] = sub(delta)",
        """
@bpf.subprogram
def sub(a: s64) -> s64:
    return comm()
""",
        "a subprogram returns an integer, not comm()",
        "comm()",
    ),
    (
        "x = sub + 1",
        """
@bpf.subprogram
def sub(a: s64) -> s64:
    return a
""",
        "the subprogram sub has no operator +",
        "sub + 1",
    ),
    (
        'events.emit(Record(at=now(), limit=300, name="abcdefghijklmnopqrst"))',
        "",
        "'abcdefghijklmnopqrst' does not fit char[16]: at most 15 bytes, none of them NUL",
        'events.emit(Record(at=now(), limit=300, name="abcdefghijklmnopqrst"))',
    ),
    (
        "events.emit(Record(at=now(), limit=300))",
        "",
        "Record needs a value for name: every field without a default is given",
        "Record(at=now(), limit=300)",
    ),
    (
        'events.emit(Record(at=now(), limit=300, name="a", size=3))',
        "",
        "Record has no field size",
        'Record(at=now(), limit=300, name="a", size=3)',
    ),
    (
        "events.emit(Pair(1, 2))",
        "",
        "the ring buffer events takes Record records, not the new record Pair",
        "events.emit(Pair(1, 2))",
    ),
    ("events.emit(3)", "", "the ring buffer events takes Record records, not 3", "events.emit(3)"),
    (
        'x = has_field("struct sock", count)',
        "",
        "has_field() takes names known while compiling, as text",
        'has_field("struct sock", count)',
    ),
    (
        'x = enum("TCP_LISTENS")',
        "",
        "the kernel has no enumerator TCP_LISTENS (did you mean TCP_LISTEN or TCP_CLOSE?)",
        'enum("TCP_LISTENS")',
    ),
    ("return 3", "", "a tracing probe returns nothing: write `return` alone, and keep values in maps or records", "3"),
    (
        "return count",
        "",
        "a tracing probe returns nothing: write `return` alone, and keep values in maps or records",
        "count",
    ),
    (
        "x = max(count)",
        "",
        "max() of one number is that number: give two or more, or a tuple",
        "max(count)",
    ),
    (
        'x = user_string(count).lower() == "a"',
        "",
        (
            "user_string() has no method lower() in a probe, where strings have ==, in, startswith(), endswith(), "
            "len() and slices: do the rest in user space"
        ),
        "user_string(count).lower",
    ),
    (
        "text = user_string(count, size=16)\nfor letter in text:\n    pass",
        "",
        "the char[16] of a local can't be iterated over on each event: name it, and write for i in range(16): name[i]",
        "text",
    ),
]


@pytest.mark.parametrize(("body", "outside", "expected", "under"), CASES)
def test_refused(body: str, outside: str, expected: str, under: str) -> None:
    """What is outside the language is refused at its place, and the message says what to write."""
    with pytest.raises(CompileError) as caught:
        build(body, "count, delta", outside)
    assert message(caught.value) == (expected, under)
