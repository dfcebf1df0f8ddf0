"""Tools without a kernel that are recorded, and `pyebpf show` in this process."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

from pyebpf.cli.report import guarded
from pyebpf.cli.run import run_tool
from pyebpf.cli.show import run_show
from pyebpf.dataclass import replace
from pyebpf.output.stacks import Stack, StackPart
from pyebpf.recording.entries import Frame
from pyebpf.tool import Column, StackTool, SummaryTool, dataclass, flag

FAKES = Path(__file__).parents[1] / "cli" / "fakes.py"


@pytest.fixture(scope="module")
def fakes():
    """The module of tools without a kernel."""
    spec = importlib.util.spec_from_file_location("pyebpf_recording_fakes", FAKES)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@dataclass(frozen=True)
class Options:
    fail: str = ""
    lose: bool = False
    nothing: bool = flag("--nothing", help="see nothing")


class Symbols:
    hidden, given_up = "", {}

    def hurry(self, patience): ...

    def prepare(self): ...


def stack_tool(fakes):
    """A stack tool with parts, shared functions, and names that are no text."""

    class Tracer(fakes.Tracer):
        stacks = Symbols()

    def collect(tracer, options, stop):
        stop.wait()
        if options.nothing:
            return
        main, work, call = Frame("main", "/bin/a"), Frame("w\x1b;rk", "[jit]"), Frame("do_syscall_64", "kernel")
        yield Stack(7, "a", 42, (work, main), (call,), (StackPart("waker", "b", 5, (main,), ()),))
        yield Stack(11, "b\udcff", None, None, (call, call))
        yield Stack(2, "a", 43, (main,), None)

    return StackTool(
        name="stacks",
        doc="Stacks.",
        tracing="stacks",
        options=Options,
        build=Tracer,
        collect=collect,
        unit="samples",
        palette="off-cpu",
    )


def screen_tool(fakes):
    """A screen with a heading, a footer, values of all kinds and stacks below its lines."""
    columns = (
        Column("NAME", 8, key=lambda row: row["name"], field="name"),
        Column("SIZE(KB)", 8, ">", key=lambda row: row["size"], scale=1024, decimals=1, field="size_bytes"),
        Column("ANY", 24, key=lambda row: row["any"], field="any"),
        Column("TEXT", 5, key=lambda row: row["name"], field=None),
        Column("RAW", key=lambda row: row["name"] * 2, field="raw", printed=False),
        Column("STACK", below=True, key=lambda row: row["stack"], field="stack"),
    )
    anything = [None, b"\xff\x1b", (1, "b"), [1, 2], {"a": (1,)}, float("nan"), 2.5, True, Path("/x"), -(1 << 63), "é"]
    rows = [{"name": f"n{i}", "size": 1 << i, "any": each, "stack": ("f", f"g{i}")} for i, each in enumerate(anything)]
    return SummaryTool(
        name="screen",
        doc="A screen.",
        tracing="anything",
        options=Options,
        build=fakes.Tracer,
        snapshot=lambda _tracer, _options: iter(rows),
        columns=columns,
        screen=True,
        heading=lambda _tracer, _options: "loadavg: 1",
        footer=lambda _tracer, _options: ["", "the\tend"],
    )


@pytest.fixture
def tools(fakes):
    named = {"events": fakes.EVENTS, "summary": fakes.SUMMARY, "counts": fakes.COUNTS, "mixed": fakes.MIXED}
    columns = tuple(replace(each, drawn=each.field == "latency_ns") for each in fakes.EVENTS.columns)
    times = replace(fakes.EVENTS, name="times", columns=columns)
    return {**named, "stacks": stack_tool(fakes), "screen": screen_tool(fakes), "times": times}


@pytest.fixture
def record(tools, tmp_path, capsys):
    """Run a tool with --record in this process: its output, and the file."""

    def run(name, *arguments):
        path = tmp_path / "file.rec"
        capsys.readouterr()
        assert guarded(lambda given: run_tool(tools[name], given[1:]), [name, *arguments, "--record", str(path)]) == 0
        return capsys.readouterr(), path

    return run


@pytest.fixture
def show(capsys):
    """Run `pyebpf show`: status, standard output, standard error."""

    def run(path, *arguments):
        capsys.readouterr()
        status = guarded(run_show, [str(path), *arguments])
        return status, *capsys.readouterr()

    return run
