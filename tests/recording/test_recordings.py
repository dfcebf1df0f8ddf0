"""Recordings: `pyebpf show` prints what the tool printed, of every kind of tool; filters, files, sizes, failures."""

from __future__ import annotations

import json
import os
import re
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import pyebpf
from pyebpf.cli.catalogue import find
from pyebpf.cli.parser import parse
from pyebpf.cli.report import UsageError, guarded
from pyebpf.cli.run import run_tool
from pyebpf.dataclass import replace
from pyebpf.output.histogram import Histogram
from pyebpf.recording.entries import Frame
from pyebpf.tool import Column

FAKES = Path(__file__).parents[1] / "cli" / "fakes.py"


@pytest.mark.parametrize(
    "command",
    [
        *("events -d 0.01", "events -d 0.01 -T", "events -d 0.01 --json --lose", "events -d 0.01 --csv --lose"),
        *("events -d 0.01 --records 3001", "events -d 0.01 --records 0"),
        *("summary vda 0.01 2", "summary -D vda 0.01 2 -T", "summary --json -D vda 0.01 2", "summary --csv vda 0.01 2"),
        *("summary --nothing vda 0.01 2", "counts vda 0.01 2", "counts vda 0.01 2 --csv", "counts vda 0.01 2 --json"),
        *("mixed vda 0.01 4", "mixed vda 0.01 4 -T", "mixed vda 0.01 4 --csv", "mixed vda 0.01 4 --json --lose"),
        *("screen 0.01 2", "screen 0.01 2 -r 3", "screen 0.01 2 --json", "screen 0.01 2 --csv"),
        *("stacks 0.01", "stacks 0.01 -d", "stacks 0.01 -f -a", "stacks 0.01 --json", "stacks 0.01 --csv"),
        *("stacks 0.01 --svg -", "stacks 0.01 --speedscope -", "stacks 0.01 --nothing"),
    ],
)
def test_show_prints_what_the_tool_printed(record, show, command):
    """With the options of its output, and the same of what was dropped on standard error."""
    run, path = record(*command.split())
    output = ["--svg", "-"] if "--svg" in command else ["--speedscope", "-"] if "--speedscope" in command else []
    status, out, err = show(path, *output)
    assert (status, out) == (0, run.out)
    told = [line for line in run.err.splitlines() if line.startswith(("Dropped", "No stacks"))]
    assert err.splitlines() == told
    assert out or "--nothing" in command


@pytest.mark.parametrize("form", ["--json", "--csv", "--text", "--folded"])
def test_any_output_is_made_of_any_recording(record, show, form):
    """A recording of text has all that JSON has, and that of JSON has the headings and last lines of text."""
    for name, run_as in (("screen", "--json"), ("mixed", "--csv"), ("stacks", "--json")):
        if (form == "--folded") != (name == "stacks") and form == "--folded":
            continue
        _, path = record(
            name, *(("vda",) if name == "mixed" else ()), "0.01", *(() if name == "stacks" else ("1",)), run_as
        )
        status, out, err = show(path, form)
        assert (status, err) == (0, "")
        assert out
        if form == "--json":
            assert all(json.loads(line)["time"] for line in out.splitlines())
        if (name, form) == ("screen", "--text"):
            assert "loadavg: 1\n" in out
            assert out.endswith("\nthe\tend\n")
        path.unlink()


def test_records_in_python(record):
    """Events and rows are named tuples with times, histograms and stacks what they were; fields have units."""
    _, path = record("events", "-d", "0.01", "--lose")
    with pytest.raises(AttributeError):
        _ = pyebpf.open_recording(str(path)).nothing
    events = pyebpf.open_recording(str(path))
    assert [(each.pid, each.comm, each.latency_ns) for each in events][1] == (2, "ca\x1bt", 3000)
    assert (events.tool, events.kind, events.kernel, events.damage) == ("events", "events", os.uname().release, "")
    assert events.arguments == ("-d", "0.01", "--lose", "--record", str(path))
    assert events.fields == {"time": "ns", "pid": None, "comm": None, "latency_ns": "ns", "path": None}
    assert (events.dropped, events.end.reason) == ({"ring buffer full": 23}, "time")
    assert all(0 <= each.time / 1e9 - events.start.timestamp() < 5 for each in events)
    assert next(events.rows()).keys() == {"time", "pid", "comm", "latency_ns", "path"}
    path.unlink()
    _, path = record("summary", "-D", "vda", "0.01", "2")
    [first, second] = pyebpf.open_recording(str(path)).intervals()
    assert first.time < second.time
    assert isinstance(first.items[0], Histogram)
    assert (first.items[0].total, first.items[0].labels) == (6, {"disk": "vda"})
    assert next(pyebpf.open_recording(str(path)).rows()) == {
        "time": first.time,
        "disk": "vda",
        "unit": "usecs",
        "low": 1,
        "high": 1,
        "count": 1,
    }
    path.unlink()
    _, path = record("stacks", "0.01")
    stacks = list(pyebpf.open_recording(str(path)))
    assert [each.count for each in stacks] == [7, 11, 2]
    assert stacks[0].parts[0].user == (Frame("main", "/bin/a"),)
    assert [each["stack"] for each in pyebpf.open_recording(str(path)).rows()][2] == "main"


@pytest.mark.parametrize(
    ("command", "conditions", "found"),
    [
        ("events -d 0.01 --records 13", ["pid == 7"], ["7"]),
        ("events -d 0.01 --records 13", ["pid >= 0xb", "pid != 12"], ["11", "13"]),
        ("events -d 0.01 --records 13", ["path ~ /1", "latency_ns < 16000"], ["1", "10"]),
        ("events -d 0.01 --records 3", ["comm=='cat'"], ["1", "3"]),
        ("counts vda 0.01 1", ["count > 5"], ["read"]),
        ("mixed vda 0.01 2", ["path == /tmp"], ["dropped"]),
        ("mixed vda 0.01 2", ["path == /"], []),
        ("stacks 0.01 -f", ["pid == null"], ["b\\xff;do_syscall_64;do_syscall_64"]),
        ("screen 0.01 1", ["any == null"], ["n0"]),
        ("screen 0.01 1", ["any ~ xff"], ["n1"]),
        ("screen 0.01 1", ["stack == g4", "any != 7"], ["n4"]),
        ("screen 0.01 1", ["stack != f"], []),
        ("screen 0.01 1", ["any == true"], ["n7"]),
    ],
)
def test_conditions(record, show, command, conditions, found):
    """Numbers as numbers, all else as text; several hold together, and one that a record has no field for does not."""
    run, path = record(*command.split())
    status, out, _ = show(path, *[each for condition in conditions for each in ("--where", condition)])
    words = [line.split(" ")[0] for line in out.splitlines()]
    assert status == 0
    assert [word for word in words if re.fullmatch(r"\d+|n\d+|read|openat|dropped|[ab].*;.*", word)] == found
    assert set(found) <= {line.split(" ")[0] for line in run.out.splitlines()}


def test_conditions_about_labels_of_histograms(record, show):
    """They are known when they come."""
    _, path = record("summary", "-D", "vda", "0.01", "1")
    assert "disk = 'vda'" in show(path, "--where", "disk == vda")[1]
    assert show(path, "--where", "disk == vdb")[1] == "\n(nothing seen)\n"
    status, _, err = show(path, "--where", "dusk == vda")
    assert (status, "no histogram has 'dusk' (did you mean disk?)" in err) == (2, True)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--where", "time > 7"], "--where is about what records hold: for their time write --from and --to"),
        (["--where", "pit == 7"], "--where: events has no field 'pit' (did you mean pid?)"),
        (["--where", "__import__('os') == 7"], "is no condition: give NAME, then ==, !=, <, <=, >, >= or ~"),
        (["--where", "pid = 7"], "'pid = 7' is no condition"),
        (["--where", "pid > abc"], "--where: pid is a number, and 'abc' is none: write such as 'pid > 7'"),
        (["--where", "latency_ns == 5ms"], "--where: latency_ns is a number, and '5ms' is none"),
        (["--where", "pid < null"], "--where: pid is a number, and 'null' is none"),
        (["--folded"], "--folded is for stacks, and events recorded none"),
        (["--pprof", "-"], "--pprof is for stacks, and events recorded none"),
        (["--heatmap", "-"], "--heatmap has nothing to draw: events recorded no times for it"),
        (["--scatter", "-", "--json"], "argument --json: not allowed with argument --scatter"),
        (["--from", "x"], "'x' is not a number"),
        (["--from", "5", "--to", "3"], "--from 5 is later than --to 3"),
    ],
)
def test_wrong_usage(record, show, arguments, message):
    """One line that says what to write."""
    _, path = record("events", "-d", "0.01")
    status, out, err = show(path, *arguments)
    assert (status, out) == (2, "")
    assert message in err
    assert err.count("\n") == 1


def test_a_part_of_the_time(record, show):
    """Seconds since the start."""
    run, path = record("counts", "vda", "0.05", "3")
    times = [each.time for each in pyebpf.open_recording(str(path)).intervals()]
    start = pyebpf.open_recording(str(path))._reader.header.start
    assert len(times) == 3
    before, behind = ((times[each] + times[each + 1] - 2 * start) / 2e9 for each in (0, 1))
    table = run.out[: len(run.out) // 3]
    assert show(path, "--from", str(before), "--to", str(behind))[1] == table
    assert show(path, "--from", str(behind))[1] == table
    assert show(path, "--to", str(behind))[1] == table * 2


def test_info(record, show):
    """The command, the kernel, how much there is, and how it ended."""
    _, path = record("mixed", "vda", "0.01", "4", "--lose")
    found = dict(line.split(maxsplit=1) for line in show(path, "--info")[1].splitlines())
    assert found["command"] == f"pyebpf mixed vda 0.01 4 --lose --record {path}"
    assert found["kernel"] == f"{os.uname().release} {os.uname().machine}"
    assert (found["intervals"], found["dropped"], found["ended"]) == ("4", "23", "count")


def test_a_file_that_is_there_is_refused(tools, record, capsys, tmp_path):
    """Unless it is to be replaced; a link never is followed, nor a folder, a device or a FIFO taken."""
    _, path = record("events", "-d", "0.01")
    before = path.read_bytes()

    def failing(place, *more):
        status = guarded(lambda given: run_tool(tools["events"], given), ["-d", "0.01", "--record", str(place), *more])
        return status, capsys.readouterr().err

    assert failing(path) == (1, f"pyebpf: --record: {path} is there already: --overwrite replaces it\n")
    assert path.read_bytes() == before
    assert failing(path, "--overwrite")[0] == 0
    assert path.read_bytes() != before
    link, fifo = tmp_path / "link", tmp_path / "fifo"
    link.symlink_to(tmp_path / "nothing")
    os.mkfifo(fifo)
    for place in (link, fifo, tmp_path, "/dev/null"):
        assert failing(place, "--overwrite") == (1, f"pyebpf: --record: {place} is there, and is no regular file\n")
    assert not (tmp_path / "nothing").exists()
    assert "there is no directory" in failing(tmp_path / "none" / "file")[1]
    (tmp_path / "new.1").write_text("another's")
    assert "new.1 is there already" in failing(tmp_path / "new", "--record-size", "1M")[1]


def test_the_file_is_refused_before_anything_is_attached(tools, capsys, tmp_path):
    """And options without --record are wrong usage."""
    (tmp_path / "there").touch()
    arguments = ["--fail", "permission", "--record", str(tmp_path / "there")]
    assert guarded(lambda given: run_tool(tools["events"], given), arguments) == 1
    assert "is there already" in capsys.readouterr().err
    for wrong in (["--overwrite"], ["--record-size", "1M"], ["--record-size", "1K", "--record", "x"]):
        assert guarded(lambda given: run_tool(tools["events"], given), wrong) == 2


def test_stacks_of_a_summary_tool_are_not_recorded():
    """Its recording has intervals: at the end there are other stacks."""
    for form in (["-f"], ["--svg", "-"]):
        with pytest.raises(UsageError, match=r"^--record is for intervals: leave out --folded"):
            parse(find("memleak"), ["-p", "7", "--record", "x", *form])


def test_a_recording_of_bounded_size_keeps_the_last(record, show, tmp_path):
    """FILE and FILE.1 together: the last events without a gap, and `show` says that there were others."""
    run, path = record("events", "-d", "0.1", "--records", "15013", "--record-size", "64K")
    files = [path.with_name("file.rec.1"), path]
    assert sum(each.stat().st_size for each in files) <= 64 << 10
    status, out, err = show(path)
    assert status == 0
    lines = out.splitlines()
    assert lines[1:] == run.out.splitlines()[-(len(lines) - 1) :]
    assert len(lines) > 2000
    assert "the parts before it were not kept" in err
    alone = show(files[0])[1].splitlines()
    assert alone[1:] == lines[1 : len(alone)]
    files[0].unlink()
    assert show(path)[1].splitlines()[1:] == lines[len(alone) :]


def test_a_disk_that_is_full(tools, capsys, tmp_path, show):
    """One line says so, all is printed, and what was recorded until then is whole."""
    path = tmp_path / "full.rec"
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, hard))
    try:
        arguments = ["-d", "0.1", "--records", "5003", "--record", str(path)]
        assert guarded(lambda given: run_tool(tools["events"], given), arguments) == 0
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    run = capsys.readouterr()
    assert run.err.count(f"{path}: the recording ends here: File too large\n") == 1
    assert run.out.count("\n") == 5004
    status, out, err = show(path)
    assert (status, err) == (
        0,
        "The recording has no end: the tool was killed, runs still, or had no room on its disk\n",
    )
    assert out.count("\n") > 1000
    assert run.out.startswith(out)


def test_sigkill_costs_a_second_at_most(tmp_path, show):
    """Events that came a second before it are in the file, although nothing else happened."""
    path = tmp_path / "killed.rec"
    command = [sys.executable, str(FAKES), "events", "--record", str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        out = "".join(process.stdout.readline() for _ in range(4))
        time.sleep(1.1)
        process.send_signal(signal.SIGKILL)
        process.communicate()
    status, shown, err = show(path)
    assert (status, shown) == (0, out)
    assert err == "The recording has no end: the tool was killed, runs still, or had no room on its disk\n"


def test_how_it_ended(tmp_path, fakes, record, show):
    """As many summaries as were asked for, or an error, which `show` tells."""
    _, path = record("summary", "vda", "0.01", "1")
    recording = pyebpf.open_recording(str(path))
    assert (len(list(recording.intervals())), recording.end.reason) == (1, "count")

    calls = []

    def failing(tracer, options, stop):
        calls.append(stop)
        if len(calls) > 1:  # the first reads away what was there before all was attached
            yield from fakes.opens(tracer, options, stop)
            raise pyebpf.InvalidValue("it broke")

    path = tmp_path / "broken.rec"
    with pytest.raises(pyebpf.InvalidValue, match="it broke"):
        run_tool(replace(fakes.EVENTS, records=failing), ["-d", "0.01", "--record", str(path)])
    status, out, err = show(path)
    assert (status, out.count("\n")) == (0, 4)
    assert err == "The recorded command ended with an error: it broke\n"


def test_a_value_that_is_not_of_its_type(fakes, tools, record, show):
    """The recording ends before it, with the field's name, since no reader takes it; the tool goes on."""

    class Found:
        def __init__(self, value):
            self.at, self.value = 1, value

    def records(tracer, options, stop):
        yield from map(Found, (1, 2, "three", "four"))

    columns = (Column("VALUE", 8, key="value", type="int"),)
    tools["typed"] = replace(fakes.EVENTS, name="typed", records=records, columns=columns, sentence=None)
    run, path = record("typed", "-d", "0.01")
    told = f"{path}: the recording ends here: the field value is text, and its column declares an integer"
    assert run.err.count(told) == 1
    assert run.out.split() == ["VALUE", "1", "2", "three", "four"]
    assert show(path)[1].split() == ["VALUE", "1", "2"]
