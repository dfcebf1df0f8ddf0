"""Output of scripts as JSON: an object a line, with the shapes that bpftrace 0.27 gives them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pyebpf.script import Script
from tests.support.scripts import printed_by


def lines(text: str, **options: Any) -> list[str]:
    """The lines of a script that has BEGIN and END only."""
    return printed_by(Script(text, **options), lambda _: None, json=True).splitlines()


@pytest.mark.parametrize(
    ("statement", "kind", "data"),
    [
        ('printf("%d\\n", 5);', "printf", '"5\\n"'),
        ("print(5);", "value", "5"),
        ('print("a\\"b");', "value", '"a\\"b"'),
        ('print((1, "x", true, (2, 3)));', "value", '[1,"x",true,[2,3]]'),
        ("print((uint64)0xffffffffffffffff);", "value", '"18446744073709551615"'),
        ('print((a=1, b="x"));', "value", '{"a": 1, "b": "x"}'),
        ("print((int8 *)8);", "value", "8"),
        # A byte that is no UTF-8, a character that is.
        ('print("\\xff\\xc3\\xa9");', "value", '"\\\\xff\xe9"'),
        ('@["\\x80"] = "a\\xfe";', "map", '{"@": {"\\\\x80": "a\\\\xfe"}}'),
        ('print(buf("ab", 2));', "value", "[97,98]"),
        ("enum { ONE = 1 } BEGIN { print(ONE); }", "value", "1"),
        ("@x = 5;", "map", '{"@x": 5}'),
        ('@x["a b", 2] = 5;', "map", '{"@x": {"a b,2": 5}}'),
        ('@x[1, (2, 3)] = "v";', "map", '{"@x": {"1,(2,3)": "v"}}'),
        ("@x = count();", "map", '{"@x": 1}'),
        ("@x = avg(7);", "stats", '{"@x": 7}'),
        ("@x[2] = stats(7);", "stats", '{"@x": {"2": {"count": 1, "average": 7, "total": 7}}}'),
        ("@x = hist(5);", "hist", '{"@x": [{"min": 4, "max": 7, "count": 1}]}'),
        ("@x = hist(-5);", "hist", '{"@x": [{"max": -1, "count": 1}]}'),
        ("@x = hist(9, 2);", "hist", '{"@x": [{"min": 8, "max": 9, "count": 1}]}'),
        ("@x[1] = lhist(3, 0, 10, 5);", "hist", '{"@x": {"1": [{"min": 0, "max": 4, "count": 1}]}}'),
        ("@x = lhist(99, 0, 10, 5);", "hist", '{"@x": [{"min": 10, "count": 1}]}'),
        ("@x = hist(2); zero(@x);", "hist", '{"@x": []}'),
    ],
)
def test_a_line_has_a_type_and_data(statement: str, kind: str, data: str) -> None:
    """As text: readers of bpftrace's output may look for spaces."""
    text = statement if "BEGIN" in statement else f"BEGIN {{ {statement} }}"
    (line,) = lines(text)
    assert line == f'{{"type": "{kind}", "data": {data}}}'
    assert json.loads(line)["type"] == kind


def test_maps_are_printed_in_order_and_empty_ones_not_at_all() -> None:
    """At the end, and by print() with its number of entries and its divisor."""
    found = lines("BEGIN { @b[1] = 10; @b[2] = 20; @b[3] = 30; @a = 1; print(@b, 2, 10); @c[1] = 1; delete(@c, 1); }")
    assert found == [
        '{"type": "map", "data": {"@b": {"2": 2, "3": 3}}}',
        '{"type": "map", "data": {"@a": 1}}',
        '{"type": "map", "data": {"@b": {"1": 10, "2": 20, "3": 30}}}',
    ]


def test_a_bucket_between_others_is_there_though_it_is_empty() -> None:
    """From the first that counted to the last."""
    (line,) = lines("BEGIN { @ = hist(2); @ = hist(17); }")
    assert [each["count"] for each in json.loads(line)["data"]["@"]] == [1, 0, 0, 1]


def test_a_message_has_its_place() -> None:
    """errorf() and warnf(): the file, the line and the first column, from 1."""
    first, second = lines('BEGIN {\n  errorf("bad %d\\n", 7);\n  warnf("so so"); }', file="a.bt")
    assert first == '{"type": "errorf", "msg": "bad 7\\n", "filename": "a.bt", "line": 2, "col": 3}'
    assert json.loads(second) == {"type": "warnf", "msg": "so so", "filename": "a.bt", "line": 3, "col": 3}


def test_commands_files_and_times_say_what_they_are() -> None:
    """`syscall` is bpftrace's word for system()."""
    found = lines(
        'BEGIN { system("echo hi"); cat("/proc/version"); time("x%%"); print(5 > 3); }',
        unsafe=True,
    )
    assert [json.loads(line)["type"] for line in found] == ["syscall", "cat", "time", "value"]
    assert json.loads(found[0])["data"] == "hi\n"


def test_records_and_tuples_as_keys() -> None:
    """Their parts have commas and no spaces between them."""
    found = lines('BEGIN { @x[(a=1, b=(2, 3))] = 1; @y[1, (c="x", d=2)] = 4; @z[(1, 2), 3] = 5; }')
    assert [json.loads(line)["data"] for line in found] == [
        {"@x": {"{.a=1,.b=(2,3)}": 1}},
        {"@y": {"1,{.c=x,.d=2}": 4}},
        {"@z": {"(1,2),3": 5}},
    ]


def test_keys_that_differ_are_different_in_json() -> None:
    """A byte that is no UTF-8 looks like no four characters; texts without such are as they are."""
    keys = [r"\xff", r"\\xff", r"\\\xff", r"\\\\xff", r"\\xFF", r"a\\b", r"é\\xe9", "é"]
    text = " ".join(f'@["{key}"] = {number};' for number, key in enumerate(keys, 1))
    (line,) = printed_by(Script(f"BEGIN {{ {text} }}"), json=True).splitlines()
    assert json.loads(line)["data"]["@"] == {
        r"\xff": 1, r"\\xff": 2, r"\\\xff": 3, r"\\\\xff": 4, r"\xFF": 5, r"a\b": 6, r"é\\xe9": 7, "é": 8
    }  # fmt: skip


def test_commas_in_parts_of_a_key() -> None:
    """They part nothing: keys that would look alike stay apart, and those without such are as bpftrace's."""
    keys = [("a,b", "c"), ("a", "b,c"), ("a\\", "b,c"), ("a,b\\", "c"), ("a\\,b", "c"), ("a\\b", "c"), ("a", "(b)")]
    text = " ".join(f"@[{json.dumps(one)}, {json.dumps(other)}] = {n};" for n, (one, other) in enumerate(keys))
    (line,) = printed_by(Script(f"BEGIN {{ {text} }}"), json=True).splitlines()
    assert {number: key for key, number in json.loads(line)["data"]["@"].items()} == {
        0: r"a\,b,c", 1: r"a,b\,c", 2: r"a\\,b\,c", 3: r"a\,b\\,c", 4: r"a\\\,b,c", 5: r"a\b,c", 6: "a,(b)"
    }  # fmt: skip
    (line,) = lines('BEGIN { @x[(a="1,2", b=3)] = 1; }')
    assert json.loads(line)["data"] == {"@x": {r"{.a=1\,2,.b=3}": 1}}
