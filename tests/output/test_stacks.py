"""Stacks as folded lines and for speedscope: each holds exactly what went in."""

from __future__ import annotations

import io
import json
from typing import NamedTuple

import pytest
from hypothesis import given, strategies as st

from pyebpf.errors import MalformedData
from pyebpf.output.schema import stack_schema
from pyebpf.output.sink import Sink
from pyebpf.output.speedscope import speedscope
from pyebpf.output.stacks import Stack, StackPart, fold, folded_lines, merged, write_stacks
from pyebpf.symbols.frame import Frame as Named
from tests.support.folded import parse_folded, unescaped
from tests.support.json_schema import faults

STACKS = {
    ("python3", "main", "work"): 41,
    ("python3", "main"): 7,
    ("python3", "main", "work", "sys_read_[k]"): 11,
    ("sh",): 3,
}
names = st.text(st.characters(codec="utf-8"), min_size=1, max_size=8)
stacks = st.dictionaries(st.lists(names, min_size=1, max_size=6).map(tuple), st.integers(1, 1000), max_size=12)


def test_folded_lines():
    """The most frequent first, outermost frame first, semicolons replaced; parsed, they are the same stacks."""
    assert list(folded_lines({**STACKS, ("a;b", "c\n"): 2})) == [
        "python3;main;work 41",
        "python3;main;work;sys_read_[k] 11",
        "python3;main 7",
        "sh 3",
        "a:b;c\\x0a 2",
    ]
    assert parse_folded(folded_lines(STACKS)) == STACKS
    assert parse_folded(["a;b c 1\n", "a;b c 2"]) == {("a", "b c"): 3}
    for wrong in ("", "a", "a b", "a -1", " 1", "a \N{SUPERSCRIPT TWO}", "a \N{ARABIC-INDIC DIGIT TWO}"):
        with pytest.raises(MalformedData, match="line 1 is not a folded stack"):
            parse_folded([wrong])


@given(stacks)
def test_speedscope(stacks):
    """One sampled profile whose weighted stacks are the input, and the members that its schema requires."""
    document = json.loads(speedscope(stacks, name="profile"))
    assert document["$schema"] == "https://www.speedscope.app/file-format-schema.json"
    frames = [unescaped(frame["name"]) for frame in document["shared"]["frames"]]
    (profile,) = document["profiles"]
    assert (profile["type"], profile["unit"], profile["name"]) == ("sampled", "none", "profile")
    assert (profile["startValue"], profile["endValue"]) == (0, sum(stacks.values()))
    found = {
        tuple(frames[index] for index in sample): weight
        for sample, weight in zip(profile["samples"], profile["weights"], strict=True)
    }
    assert found == stacks
    assert len(set(frames)) == len(frames)


def test_speedscope_has_no_lone_surrogates():
    """Bytes of names that are no text are shown as numbers: strict parsers refuse the escapes of surrogates."""
    text = speedscope({("caf\udce9", "main"): 1}, name="tool \udcff")
    assert "\\ud" not in text
    document = json.loads(text)
    assert [frame["name"] for frame in document["shared"]["frames"]] == ["caf\\xe9", "main"]
    assert document["name"] == "tool \\xff"


class Frame(NamedTuple):
    """As symbols give it."""

    label: str
    module: str = "/bin/x"


STACK = Stack(
    5, "x;y", 42, (Frame("leaf"), Frame("[jit] f", "[jit]"), Frame("main")), (Frame("vfs", "kernel"), Frame("sys"))
)
SMALL = Stack(2, "x;y", 43, None, ())


WOKEN = Stack(
    3, "app", 1, (Frame("main"),), (Frame("schedule"), Frame("read")),
    (
        StackPart("waker", "disk", 2, (Frame("loop"), Frame("start")), (Frame("wake"),)),
        StackPart("waker", "timer", None, None, (Frame("tick"), Frame("irq"))),
    ),
)  # fmt: skip


def written(form, **options):
    stream = io.StringIO()
    write_stacks([STACK, SMALL], form, Sink(stream), **options)
    return stream.getvalue()


def test_stacks_as_text():
    """The kernel's frames above the process's, the innermost first, the most frequent stack last."""
    assert written("text", delimited=True) == (
        "    -                x;y (43)\n        2\n\n"
        "    vfs\n    sys\n    --\n    leaf\n    [jit] f\n    main\n    -                x;y (42)\n        5\n\n"
    )


def test_stacks_folded():
    """The outermost first, with marks if asked for; stacks of equal names are one line."""
    assert written("folded", delimited=True, annotated=True) == "x:y;main;[jit] f_[j];leaf;-;sys_[k];vfs_[k] 5\nx:y 2\n"
    assert fold([STACK, STACK, SMALL]) == {("x;y", "main", "[jit] f", "leaf", "sys", "vfs"): 10, ("x;y",): 2}


def test_stacks_that_read_the_same_are_one():
    """Offsets are not shown: what differs in them alone is added up, in every form; processes and parts count."""
    seen = [
        Stack(
            2, "app", 1, (Named("work", 5, "app", 1),), (), (StackPart("waker", "cron", 3, (Named("f", 1, "", 8),)),)
        ),
        Stack(7, "app", 2, (Named("work", 9, "app", 2),), ()),
        Stack(
            3, "app", 1, (Named("work", 9, "app", 2),), (), (StackPart("waker", "cron", 3, (Named("f", 2, "", 9),)),)
        ),
        Stack(
            1, "app", 1, (Named("work", 9, "app", 2),), (), (StackPart("waker", "cron", 4, (Named("f", 2, "", 9),)),)
        ),
    ]
    assert [each.count for each in merged(seen)] == [5, 7, 1]
    assert merged(seen)[0].user == seen[0].user
    for form, counts in {"csv": ["7", "5", "1"], "json": [7, 5, 1], "text": ["1", "5", "7"]}.items():
        stream = io.StringIO()
        write_stacks(seen, form, Sink(stream))
        lines = stream.getvalue().splitlines()
        if form == "json":
            assert [json.loads(line)["count"] for line in lines] == counts
        elif form == "csv":
            assert [line.split(",")[3] for line in lines[1:]] == counts
        else:
            assert [line.strip() for line in lines if line.strip().isdigit()] == counts


def test_stacks_for_programs():
    """CSV has a folded stack, JSON lists, which are left out where nothing was asked for. The time is first."""
    assert written("csv", time="T") == "time,comm,pid,count,stack\nT,x;y,42,5,main;[jit] f;leaf;sys;vfs\nT,x;y,43,2,\n"
    assert [json.loads(line) for line in written("json", time="T").splitlines()] == [
        {
            "time": "T", "comm": "x;y", "pid": 42, "user": ["leaf", "[jit] f", "main"], "kernel": ["vfs", "sys"],
            "cut": False, "count": 5,
        },
        {"time": "T", "comm": "x;y", "pid": 43, "kernel": [], "count": 2},
    ]  # fmt: skip


def test_further_parts_meet_where_one_woke_the_other():
    """The waker's frames mirror the sleeper's: in text above it, in folded lines and flame graphs on top of it."""
    folded = ("app", "main", "read", "schedule", "--", "wake", "loop", "start", "disk", "--", "tick", "irq", "timer")
    assert fold([WOKEN]) == {folded: 3}
    stream = io.StringIO()
    write_stacks([WOKEN], "text", Sink(stream))
    assert [line.strip() for line in stream.getvalue().splitlines()] == [
        "waker            timer", "irq", "tick", "--",
        "waker            disk (2)", "start", "loop", "wake", "--",
        "schedule", "read", "main", "-                app (1)", "3", "",
    ]  # fmt: skip


def test_further_parts_for_programs():
    """JSON has a list of objects with their names, as the schema says; CSV's stack has all frames."""
    stream = io.StringIO()
    write_stacks([WOKEN], "json", Sink(stream), time="2026-01-02T03:04:05.000000006+00:00")
    found = json.loads(stream.getvalue())
    assert found["parts"] == [
        {"name": "waker", "comm": "disk", "pid": 2, "user": ["loop", "start"], "cut": True, "kernel": ["wake"]},
        {"name": "waker", "comm": "timer", "kernel": ["tick", "irq"]},
    ]
    assert faults(stack_schema(), found) == []
    write_stacks([WOKEN], "csv", Sink(stream))
    assert "main;read;schedule;--;wake;loop;start;disk;--;tick;irq;timer" in stream.getvalue()
