"""Uprobe sessions: entry and return by one program, counted exactly, each call with a cookie of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyebpf import BPF, Struct, s32, s64, u32, u64
from pyebpf.errors import CompileError, NotFound, NotSupported
from pyebpf.features import Features, Support
from tests.support.needs import needs
from tests.support.traced import Traced, binary

ENTRIES, RETURNS, OTHERS = 23, 17, 7


class Both(Struct):
    """What a session saw of a call: its argument, by the cookie, and its result."""

    given: u64
    value: s64


def test_a_session_sees_entry_and_return_of_what_it_asks_for():
    """23 entries, and the returns of the 11 that it asked for, each with the cookie of its own entry; 7 uncounted."""
    needs("attach:uprobe_session")
    bpf = BPF()
    entries = bpf.hash(key=u32, value=u64)
    seen = bpf.hash(key=Both, value=u64)

    @bpf.uprobe_session(binary("pie"), "negative", "nine")
    def on_call(ctx, a: s32, retval: s32) -> int:
        if ctx.is_return:
            seen[Both(given=ctx.cookie, value=retval)] += 1
            return 0
        entries[max(0, a)] += 1
        ctx.cookie = a + 1000
        return 1 if a % 2 == 0 or a < 0 else 0

    with Traced(binary("pie")) as traced, bpf:
        assert list(bpf.attachments) == [f"on_call: uprobe session {binary('pie')}:negative, nine, by uprobe session"]
        traced.tell(f"negative {ENTRIES - 1}")
        traced.tell("nine 1")
        bpf.detach()
        traced.tell(f"negative {OTHERS}")
        assert dict(entries.items()) == dict.fromkeys(range(ENTRIES), 1)
        assert dict(seen.items()) == {Both(given=a + 1000, value=-a): 1 for a in range(1, ENTRIES, 2)}


def test_a_session_of_one_process_attached_later():
    """An open session, limited to one process of two; another program counts at the same place."""
    needs("attach:uprobe_session")
    path = binary("pie")
    bpf = BPF()
    counts = bpf.array(value=u64, size=2)

    @bpf.uprobe_session()
    def probe(ctx) -> int:
        if ctx.is_return:
            counts[1] += 1
        else:
            counts[0] += 1
        return 0

    other = BPF()
    others = other.array(value=u64)

    @other.uprobe(path, "negative")
    def every() -> None:
        others[0] += 1

    with Traced(path) as one, Traced(path) as two, bpf, other:
        with probe.attach(path, "negative", pid=one.pid) as link:
            assert link.target == f"uprobe session {path}:negative of process {one.pid}"
            one.tell(f"negative {ENTRIES}")
            two.tell(f"negative {RETURNS}")
        one.tell(f"negative {OTHERS}")
        assert [counts[0], counts[1]] == [ENTRIES, ENTRIES]
        assert others[0] == ENTRIES + RETURNS + OTHERS


def test_the_example_of_a_session_in_the_docs():
    """Each of 23 calls is timed."""
    needs("attach:uprobe_session")
    path = binary("pie")
    page = (Path(__file__).parents[2] / "docs" / "attachments.md").read_text()
    (block,) = (each for each in page.split("```python\n") if each.startswith('"""Time in getaddrinfo'))
    source = block.partition("```")[0]
    place = '"libc.so.6", "getaddrinfo"'
    assert place in source
    example = BPF().define(source.replace(place, f'"{path}", "negative"'))
    with Traced(path) as traced, example.bpf:
        traced.tell(f"negative {ENTRIES}")
        assert example.latency.snapshot().total == ENTRIES


def test_what_a_session_refuses():
    """A result that is neither 0 nor 1, a path without one, a missing function; a kernel that has none, in one line."""

    def session(function):
        bpf = BPF()
        bpf.uprobe_session(binary("pie"), "negative")(function)
        return bpf

    def too_many(a: s32) -> int:
        return 2

    def none(ctx, a: s32) -> int:
        if ctx.is_return:
            return 0

    def fine(ctx) -> int:
        return 0

    if Features().ask("attach:uprobe_session") is Support.NO:
        with pytest.raises(NotSupported) as caught, session(fine):
            pass
        assert str(caught.value) == (
            f"@uprobe_session('{binary('pie')}', 'negative') on fine: no candidate works here: uprobe session: "
            "this kernel has no uprobe sessions (since Linux 6.13)"
        )
        return
    for function, message in ((too_many, "returns 0 or 1, not 2"), (none, "return")):
        with pytest.raises(CompileError, match=message):
            session(function).specs()
    bpf = BPF()
    bpf.uprobe_session(binary("pie"), "negativ")(fine)
    with pytest.raises(NotFound, match=r"has no function negativ \(did you mean negative\?\)"), bpf:
        pass
