"""Tools that need no kernel, for `pyebpf live made_up.py`: `MADE_UP` in the environment says which."""

from __future__ import annotations

import os
import time

import pyebpf.tool
from pyebpf.output.histogram import log2
from pyebpf.tool import Column, EventTool, Record, Stack, StackTool, SummaryTool, dataclass, option

HOSTILE = "<img src=x onerror=alert(1)>\x1b]0;\u202e\udcff</script>\"'&"


class Tracer(pyebpf.tool.Tracer):
    """A tracer whose stacks have their names."""

    def __init__(self, options):
        self.options = options
        self.stacks = self
        self.given_up = {}
        self.hidden = ""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def hurry(self, patience):
        pass

    def prepare(self):
        pass


@dataclass(frozen=True)
class Options:
    every: float = option("--every", default=0.02, help="seconds between two events")
    fail: float = option("--fail-after", default=1e9, help="seconds until it breaks down")


@dataclass(frozen=True)
class Event(Record):
    number: int
    comm: str
    latency: int


@dataclass(frozen=True)
class Frame:
    label: str
    module: str = ""


COLUMNS = (
    Column("N", 7, key="number"),
    Column("COMM", 16),
    Column("LAT(us)", 8, ">", key="latency", scale=1000, field="latency_ns", drawn=True),
)


def events(_tracer, options, stop):
    began, number = time.monotonic(), 0
    while not stop.wait(options.every):
        if time.monotonic() - began > options.fail:
            raise ZeroDivisionError(HOSTILE)
        number += 1
        yield Event(number, HOSTILE if number % 3 == 0 else "cat", 1000 * number)


def rows(_tracer, _options) -> list[Event]:
    return [Event(1, HOSTILE, 2000), Event(2, "dog", 3000)]


def histograms(_tracer, _options):
    return [log2([0, 2, 5, 1], unit="usecs", labels={"disk": HOSTILE})]


def stacks(_tracer, _options, stop):
    stop.wait()
    frames = (Frame(HOSTILE), Frame("main"))
    yield Stack(3, HOSTILE, 1, user=frames, kernel=(Frame("schedule"),))
    yield Stack(2, "cat", 2, user=frames[1:], kernel=())


COMMON = {"doc": "Made up.", "tracing": "nothing", "options": Options, "build": Tracer}
TOOLS = {
    "events": EventTool(name="events", records=events, columns=COLUMNS, record=Event, **COMMON),
    "rows": SummaryTool(name="rows", snapshot=rows, columns=COLUMNS, record=Event, **COMMON),
    "histograms": SummaryTool(name="histograms", snapshot=histograms, **COMMON),
    "stacks": StackTool(name="stacks", collect=stacks, **COMMON),
}
TOOL = TOOLS[os.environ.get("MADE_UP", "events")]
