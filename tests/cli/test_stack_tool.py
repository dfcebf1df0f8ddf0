"""Stack tools: their options, what they print, and the files that they write, over a tracer that needs no kernel."""

from __future__ import annotations

import json
from types import MappingProxyType, SimpleNamespace
from typing import NamedTuple
from xml.etree import ElementTree as ET

import pytest

from pyebpf import tool
from pyebpf.cli.catalogue import find
from pyebpf.cli.parser import build_parser, parse
from pyebpf.cli.report import UsageError
from pyebpf.cli.run import run_tool
from pyebpf.dataclass import replace
from pyebpf.errors import InvalidValue
from pyebpf.output.stack_files import STACK_FILES
from pyebpf.tool import Stack, StackTool, SummaryTool, dataclass, flag


class Frame(NamedTuple):
    label: str
    module: str = "x"


class Tracer(tool.Tracer):
    lost = MappingProxyType({})
    attachments = ()
    stacks = SimpleNamespace(
        hidden="the kernel hides its addresses", given_up={}, hurry=lambda _: None, prepare=lambda: None
    )

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def listing(self):
        return "exit\n"


@dataclass(frozen=True)
class Options:
    nothing: bool = flag("-0", "--nothing", help="see nothing")
    nameless: bool = flag("-N", "--nameless", help="the kernel's functions have no names")


def collect(tracer, options, stop):
    stop.wait()
    if options.nothing:
        return
    kernel = (Frame("[unknown]", ""),) if options.nameless else (Frame("sys"),)
    yield Stack(3, "busy", 7, (Frame("inner"), Frame("main")), kernel)
    yield Stack(2, "busy", 7, (Frame("main"),), ())


TOOL = StackTool(
    name="stacks",
    doc="Stacks.",
    section="1",
    tracing="stacks",
    options=Options,
    build=lambda _: Tracer(),
    collect=collect,
    unit="microseconds",
)
START = "Tracing stacks... Hit Ctrl-C to end.\n"


def run(capsys, *arguments):
    assert run_tool(TOOL, [*arguments, "0.01"]) == 0
    return capsys.readouterr()


def test_forms(capsys):
    """Text by default, folded lines, CSV and JSON, delimited and annotated as bcc's letters say."""
    assert run(capsys).out.startswith(
        "    main\n    -                busy (7)\n        2\n\n    sys\n    inner\n    main\n"
    )
    out, err = run(capsys, "-f")
    assert (out, err) == ("busy;main;inner;sys 3\nbusy;main 2\n", START)
    assert run(capsys, "-daf").out == "busy;main;inner;-;sys_[k] 3\nbusy;main 2\n"
    assert run(capsys, "--csv").out.splitlines()[0] == "time,comm,pid,count,stack"
    assert [json.loads(line)["count"] for line in run(capsys, "--json").out.splitlines()] == [3, 2]


def test_files(capsys, tmp_path):
    """A flame graph and a speedscope file have all of it, and a note says so; nothing goes to standard output."""
    svg, scope = tmp_path / "a.svg", tmp_path / "a.json"
    assert run(capsys, "--svg", str(svg)) == ("", f"{START}{svg}: 5 microseconds of 2 different stacks\n")
    boxes = ET.parse(svg).getroot().iter("{http://www.w3.org/2000/svg}g")
    assert {g.get("data-name"): int(g.get("data-w")) for g in boxes} == {
        "all": 5, "busy": 5, "main": 5, "inner": 3, "sys_[k]": 3,
    }  # fmt: skip
    assert run(capsys, "--speedscope", str(scope)).out == ""
    (profile,) = json.loads(scope.read_text())["profiles"]
    assert (profile["unit"], profile["weights"]) == ("microseconds", [3, 2])


def test_a_tool_chooses_its_colours(capsys):
    """Of time that is blocked they are blue."""
    assert run_tool(replace(TOOL, palette="off-cpu"), ["--svg", "-", "0.01"]) == 0
    document = capsys.readouterr().out
    assert document != run(capsys, "--svg", "-").out
    assert "paler: in the kernel" in document
    assert [find(name).palette for name in ("profile", "offcputime", "offwaketime", "chain", "wakeuptime")] == [
        "samples",
        "off-cpu",
        "off-cpu",
        "off-cpu",
        "wakeups",
    ]


def test_a_file_to_standard_output(capsys):
    """`-` is that, as in every command; the note is apart."""
    out, err = run(capsys, "--speedscope", "-")
    assert json.loads(out)["profiles"][0]["weights"] == [3, 2]
    assert err == START
    assert ET.fromstring(run(capsys, "--svg", "-").out).tag.endswith("svg")


def test_a_profile_to_standard_output(capsysbinary):
    """Bytes go through a pipe as they are; a terminal is not given any."""
    assert run(capsysbinary, "--pprof", "-").out[:2] == b"\x1f\x8b"


def test_a_terminal_gets_no_bytes(monkeypatch):
    """Told before anything is traced."""
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    with pytest.raises(InvalidValue, match=r"^--pprof writes no text, and standard output is a terminal: name a file$"):
        run_tool(TOOL, ["--pprof", "-"])


def test_a_file_of_every_format(capsys, tmp_path):
    """Each has an option, and a note; JSON and the picture are text."""
    for name, form in STACK_FILES.items():
        path = tmp_path / name
        assert run(capsys, f"--{name}", str(path)).err == f"{START}{path}: 5 microseconds of 2 different stacks\n"
        assert path.read_bytes()[:1] in ((b"<", b"{") if form.is_text else (b"\x1f",))
        assert f"--{name} FILE" in build_parser(TOOL).format_help()


def test_nothing_seen_is_said(capsys):
    """An empty text would leave open whether anything was looked at."""
    assert run(capsys, "-0") == ("", f"{START}No stacks were seen\n")
    assert run(capsys, "-0", "--json") == ("", f"{START}No stacks were seen\n")


def test_missing_names_are_explained(capsys):
    """Why the kernel's functions have no names, once, on standard error."""
    assert run(capsys, "-N", "-f").err == (
        f"{START}functions of the kernel have no names: the kernel hides its addresses\n"
    )


def test_files_that_were_given_up_are_told_in_one_line(capsys, monkeypatch):
    """The first with its reason, and how many more."""
    monkeypatch.setattr(Tracer.stacks, "given_up", {"/x": "/x: too large", "/y": "/y: too slow"})
    assert run(capsys, "-f").err == f"{START}some functions have no names: /x: too large, and so for others: 1\n"


def test_options():
    """The seconds by themselves or as --duration, not both; -d is bcc's; one form at a time; no intervals."""
    assert parse(TOOL, ["5"])[1].duration == parse(TOOL, ["--duration", "5"])[1].duration == 5.0
    assert parse(TOOL, ["-d"])[1].delimited
    for wrong in (["5", "--duration", "5"], ["--json", "-f"], ["1", "2"], ["-T"], ["0"]):
        with pytest.raises(UsageError):
            parse(TOOL, wrong)
    for wrong, other in ((["-f", "--svg", "x"], "folded"), (["--pprof", "x", "--svg", "y"], "svg")):
        with pytest.raises(UsageError, match=f"not allowed with argument --{other}"):
            parse(TOOL, wrong)


def test_files_that_cannot_be_written(tmp_path):
    """Told before anything is traced."""
    with pytest.raises(InvalidValue, match=r"^name the file to write, or - for standard output$"):
        run_tool(TOOL, ["--svg", ""])
    for path, reason in ((str(tmp_path), "it is a directory"), (str(tmp_path / "no/x.svg"), "there is no directory ")):
        with pytest.raises(InvalidValue, match=reason):
            run_tool(TOOL, ["--svg", path])


def collected(_tracer, _options):
    yield Stack(4096, "busy", 7, (Frame("inner"), Frame("main")), None)


SUMMARY = SummaryTool(
    name="left",
    doc="Left.",
    section="1",
    tracing="what is left",
    options=Options,
    build=lambda _: Tracer(),
    snapshot=lambda _tracer, _options: [],
    stacks=collected,
    unit="bytes",
)


def test_a_summary_tool_with_stacks(capsys, tmp_path):
    """Its stacks are written once, after the last interval; text is its own; others have no such options."""
    assert run_tool(SUMMARY, ["-f", "0.01", "2"]) == 0
    assert capsys.readouterr().out == "busy;main;inner 4096\n"
    out = tmp_path / "out.json"
    assert run_tool(SUMMARY, ["--speedscope", str(out), "-d", "0.01"]) == 0
    assert capsys.readouterr().err.endswith(f"{out}: 4096 bytes of 1 different stacks\n")
    assert json.loads(out.read_text())["profiles"][0]["unit"] == "bytes"
    assert run_tool(SUMMARY, ["0.01", "1"]) == 0
    assert capsys.readouterr().out == "\n(nothing seen)\n"
    with pytest.raises(UsageError):
        parse(replace(SUMMARY, stacks=None), ["-f"])


def test_as_a_library():
    """Each call watches for its time."""
    with TOOL.open(nameless=True) as collected:
        assert [stack.count for stack in collected(0.01)] == [3, 2]


def test_seconds_that_were_given_with_d():
    """They have another name here, since -d is --delimited: said behind any error, and at no other time."""
    hint = "; -d is --delimited here, which has no value: seconds are --duration"
    with pytest.raises(UsageError) as refused:
        parse(find("stackcount"), ["-d", "1", "c:malloc"])
    assert str(refused.value).split("\n")[0].endswith(f"argument seconds: 'c:malloc' is not a number{hint}")
    with pytest.raises(UsageError) as refused:
        parse(find("stackcount"), ["-d", "c:malloc", "x"])
    assert hint not in str(refused.value)


def test_what_is_not_counted_is_said_where_nothing_was_seen(capsys):
    """Of a tool for waits: those that go on."""
    waits = replace(TOOL, unseen="a wait counts when it ends")
    assert run_tool(waits, ["-0", "0.01"]) == 0
    assert capsys.readouterr().err == f"{START}No stacks were seen; a wait counts when it ends\n"
    assert find("offcputime").unseen.startswith("a wait counts when it ends: ")
