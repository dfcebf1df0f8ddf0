"""What a tool says of drops: in words, without the names that only its source knows."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest

from pyebpf.builder.intrinsics.stacks import CLASSES, FULL
from pyebpf.cli.drops import Drops
from pyebpf.cli.parser import Common
from pyebpf.cli.printing import Unrecorded
from pyebpf.cli.stacks import print_stacks
from pyebpf.output.sink import Sink
from pyebpf.output.stacks import Stack
from pyebpf.tool import StackTool, Stop
from pyebpf.tool.drops import in_words

HOLDS = {"opens": "opens", "pending": "calls under way", "by process: all": "processes"}


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        ("opens: ring buffer full", "opens: ring buffer full"),
        ("pending: map full", "calls under way: map full"),
        ("counts: map full", "events: map full"),
        ("by process: all: map full", "processes: map full"),
        (f"{CLASSES[0].map}: {FULL}", FULL),
        ("on_open: running already on the processor", "events: running already on the processor"),
        ("tracepoint syscalls:sys_enter_openat: missed by the kernel",) * 2,
        ("an extreme value was interrupted too often",) * 2,
    ],
)
def test_reasons(reason, words):
    """What the map holds, or that it was an event; hidden maps and places of the kernel need no word."""
    assert in_words({reason: 7}, HOLDS) == {words: 7}


def test_equal_words_are_counted_together():
    """Two probes that missed events are one reason, and what never happened is none."""
    lost = {f"{probe}: running already on the processor": 2 for probe in ("on_enter", "on_exit")}
    assert in_words({**lost, "opens: ring buffer full": 0}, HOLDS) == {"events: running already on the processor": 4}


def test_the_line(capsys):
    """A total, and the words."""
    tracer = SimpleNamespace(dropped={"opens: ring buffer full": 22, f"{CLASSES[0].map}: {FULL}": 1})
    drops = Drops(tracer, HOLDS)
    drops.report()
    drops.report()
    assert capsys.readouterr().err == (
        f"Dropped 23 events so far (opens: ring buffer full: 22, {FULL}: 1); --buffer SIZE gives them more room\n"
    )


def test_drops_while_frames_are_named(tmp_path, capsys):
    """All stacks are counted when the first comes: what is dropped until the last has its names is not told."""
    tracer = SimpleNamespace(
        dropped={"counts: map full": 2},
        stacks=SimpleNamespace(hurry=lambda _: None, prepare=lambda: None, hidden="", given_up={}),
    )

    def collect(tracer, options, stop):
        assert options is None
        stop.wait(0)
        yield Stack(7, "early", 1, (), ())
        tracer.dropped = {"counts: map full": 1009}
        yield Stack(11, "late", 1, (), ())

    tool = StackTool(name="t", doc="T.", tracing="all", options=object, build=lambda _: tracer, collect=collect)
    path = tmp_path / "out.json"
    drops = Drops(tracer, HOLDS)
    with Stop() as stop:
        common = Common(stack_file=("speedscope", str(path)))
        print_stacks(tool, tracer, None, common, Sink.of(sys.stdout), stop, drops, Unrecorded())
    drops.report()
    assert capsys.readouterr().err == (
        f"{path}: 18 samples of 2 different stacks\nDropped 2 events so far (events: map full: 2)\n"
    )
