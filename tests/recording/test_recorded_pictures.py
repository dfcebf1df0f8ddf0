"""Pictures and stacks of recordings: those that a tool would have drawn, of a part of the time, and what is refused."""

from __future__ import annotations

import gzip
import json
import re
import time

import pytest

import pyebpf
from pyebpf.dataclass import replace
from pyebpf.output.stacks import SLOT, Stack
from pyebpf.recording.entries import Frame
from pyebpf.recording.writer import Writer
from tests.recording.samples import header


def test_pictures_of_events(record, show):
    """Every event with a time, as in a picture that the tool draws itself; of those that a filter leaves."""
    _, path = record("times", "-d", "0.02", "--records", "13")
    for form in ("--heatmap", "--scatter"):
        status, out, _ = show(path, form, "-")
        assert (status, "<svg" in out) == (0, True)
        assert re.search(r">13 events, ", out)
        assert re.search(r">2 events, ", show(path, form, "-", "--where", "latency_ns <= 3000")[1])


def test_a_heat_map_of_intervals(record, show):
    """All that the histograms counted, in one picture, though each has other buckets."""
    _, path = record("summary", "vda", "0.05", "4")
    counted = sum(histogram.total for each in pyebpf.open_recording(path).intervals() for histogram in each.items)
    status, out, _ = show(path, "--heatmap", "-")
    assert status == 0
    assert re.search(rf">{counted:,} values, columns of 50 ms, ", out)


def test_histograms_side_by_side(record, show):
    """As the tool draws them; of a tool without histograms there is nothing to draw."""
    _, path = record("summary", "-D", "vda", "0.01", "2")
    status, out, _ = show(path, "--bars", "-")
    assert (status, "<svg" in out, 'class="bars"' in out) == (0, True, True)
    _, path = record("events", "-d", "0.01", "--overwrite")
    status, _, err = show(path, "--bars", "-")
    assert (status, "--bars has nothing to draw" in err) == (2, True)


def timed(tool):
    """The stack tool with times: its first stack was seen in the first and third second, its second in the second."""

    def collect(tracer, options, stop):
        start = time.time_ns()
        first, second, other = tool.collect(tracer, options, stop)
        yield replace(first, times=((start // SLOT * SLOT, 3), (start // SLOT * SLOT + 2 * 10**9, 4)))
        yield replace(second, times=((start // SLOT * SLOT + 10**9, 11),))
        yield other

    return replace(tool, collect=collect)


def test_stacks_of_a_part_of_the_time(tools, record, show):
    """Those that were sampled then; the sub-second offset heat map as SVG and as a page."""
    tools["stacks"] = timed(tools["stacks"])
    _, path = record("stacks", "0.01")
    assert show(path, "-f")[1].count("\n") == 3
    assert show(path, "-f", "--from", "0.9", "--to", "1.5")[1] == "b\\xff;do_syscall_64;do_syscall_64 11\n"
    assert [line.split()[-1] for line in show(path, "-f", "--to", "0.5")[1].splitlines()] == ["3"]
    assert [line.split()[-1] for line in show(path, "-f", "--from", "0.5")[1].splitlines()] == ["11", "4"]
    status, out, err = show(path, "--subsecond", "-")
    assert (status, err) == (0, "")
    assert re.search(r">18 samples, columns of 1 s, from 20", out)
    page = path.with_name("page.html")
    status, out, err = show(path, "--subsecond", str(page), "--where", "comm == a")
    assert (status, out, err) == (0, "", f"{page}: 7 samples of 2 stacks\n")
    assert "pyebpf show " in page.read_text()


def test_samples_without_times(record, show):
    """A recording without times has no such picture, nor has one of events."""
    _, path = record("stacks", "0.01")
    status, out, err = show(path, "--subsecond", "-")
    assert (status, out) == (1, "")
    assert "the recording has no times of samples: `pyebpf profile --record` keeps them" in err
    _, path = record("events", "-d", "0.01", "--overwrite")
    status, _, err = show(path, "--subsecond", "-")
    assert (status, "--subsecond is for samples of stacks" in err) == (2, True)


def test_names_that_are_too_long(tools, record, show, monkeypatch):
    """They are cut as a reader takes them; stacks with more names than it takes are left out, and a note says so."""

    def collect(tracer, options, stop):
        yield Stack(5, "a", 42, (Frame("f" * 100_003, "/bin/a"),), None)
        yield Stack(3, "a", 42, (Frame("main", "/bin/a"),), None)

    tools["stacks"] = replace(tools["stacks"], collect=collect)
    _, path = record("stacks", "0.01")
    assert show(path, "-f") == (0, f"a;{'f' * 8191}… 5\na;main 3\n", "")
    monkeypatch.setattr("pyebpf.cli.recorder.MAX_WRITTEN", 8195)
    run, path = record("stacks", "0.01", "--overwrite")
    assert f"{path}: the recording has 1 of 2 stacks" in run.err
    assert show(path, "-f") == (0, f"a;{'f' * 8191}… 5\n", "")


@pytest.mark.parametrize("output", ["--svg", "--pprof", "--speedscope", "--firefox", "--subsecond"])
def test_a_part_of_the_time_without_stacks(tools, record, show, output):
    """The file is one of nothing, in place of the one before, and the note says so."""
    tools["stacks"] = timed(tools["stacks"])
    _, path = record("stacks", "0.01")
    out = path.with_name("out")
    out.write_text("another part")
    status, _, err = show(path, output, str(out), "--from", "700", "--to", "800")
    assert (status, err.startswith(f"{out}: 0 samples of 0 ")) == (0, True)
    assert out.read_bytes() != b"another part"
    assert output != "--svg" or "nothing was seen" in out.read_text()
    assert show(path, "-f", "--from", "700") == (0, "", "No stacks were seen\n")


@pytest.mark.parametrize("output", ["--text", "-f", "--svg -"])
def test_a_part_of_the_time_that_nobody_knows(record, show, output):
    """Stacks without times are refused then, where all of them or none were shown."""
    _, path = record("stacks", "0.01")
    for part in (("--from", "0"), ("--to", "99")):
        status, out, err = show(path, *output.split(), *part)
        assert (status, out) == (1, "")
        assert "--from and --to: the recording has no times of its stacks" in err


def test_stacks_of_a_summary_tool(fakes, tools, record, show):
    """They are recorded at the end: for a flame graph and the like, not for what the tool prints by itself."""

    def stacks(tracer, options):
        yield Stack(5, "a", None, None, (Frame("submit", "kernel"),))
        yield Stack(3, "b", None, None, (Frame("sync", "kernel"),))

    tools["summary"] = replace(fakes.SUMMARY, stacks=stacks, unit="us")
    run, path = record("summary", "vda", "0.01", "2")
    assert show(path)[:2] == (0, run.out)
    assert show(path, "-f") == (0, "a;submit 5\nb;sync 3\n", "")
    assert show(path, "-f", "--where", "comm == b")[1] == "b;sync 3\n"
    status, out, _ = show(path, "--svg", "-")
    assert (status, "8 us, 100.00%" in out) == (0, True)
    profile = path.with_name("profile")
    assert show(path, "--pprof", str(profile)) == (0, "", f"{profile}: 8 us of 2 different stacks\n")
    assert len(list(pyebpf.open_recording(str(path)).stacks())) == 2
    assert all("buckets" in json.loads(line) for line in show(path, "--json")[1].splitlines())


def test_stacks_of_a_tool_that_was_killed(tmp_path, show):
    """There is nothing to draw, and who asks for a picture is told why."""
    path = tmp_path / "killed"
    Writer(str(path), header("stacks"), pytest.fail).close()
    status, out, err = show(path, "--svg", str(tmp_path / "out.svg"))
    assert (status, out, (tmp_path / "out.svg").exists()) == (1, "", False)
    assert f"{path} has no stacks: they are recorded when the tool ends" in err


def test_the_period_of_samples(tools, record, show):
    """Profiles of a recording have the processor's time, as the tool's own have."""
    tools["stacks"] = replace(tools["stacks"], period=lambda _: 10_101_010)
    run, path = record("stacks", "0.01", "--firefox", "-")
    live, shown = json.loads(run.out), json.loads(show(path, "--firefox", "-")[1])
    assert live["meta"]["interval"] == shown["meta"]["interval"] == 10.10101
    assert live["threads"] == shown["threads"]
    out = path.with_name("out")
    show(path, "--pprof", str(out))
    profile = gzip.decompress(out.read_bytes())
    assert b"cpu" in profile
    assert b"\x60\x92\xc2\xe8\x04" in profile  # field 12, the period


@pytest.mark.parametrize(
    ("command", "option", "message"),
    [
        (
            "times -d 0.01",
            "--bars",
            "it draws histograms, and times recorded single events: write --heatmap FILE",
        ),
        ("summary vda 0.01 1", "--scatter", "it draws single events, and summary recorded histograms: write --heatmap"),
        ("stacks 0.01", "--heatmap", "recorded stacks: write --svg FILE, or of samples with their times --subsecond"),
        ("stacks 0.01", "--scatter", "recorded stacks: write --svg FILE"),
        ("counts vda 0.01 1", "--heatmap", "counts recorded rows of a table"),
        ("events -d 0.01", "--bars", "events recorded no times for it"),
    ],
)
def test_pictures_of_what_was_not_recorded(record, show, command, option, message):
    """The reason says what was recorded, and which picture there is of it."""
    _, path = record(*command.split())
    status, out, err = show(path, option, "-")
    assert (status, out) == (2, "")
    assert f"{option} has nothing to draw: " in err
    assert message in err


def test_a_condition_that_nothing_meets(record, show):
    """The values that the field has are told: text shows some of them otherwise."""
    _, path = record("counts", "vda", "0.01", "1")
    status, _, err = show(path, "--where", "syscall == R")
    assert (status, err) == (0, "--where: no record has syscall == R: syscall is openat, read\n")
    assert show(path, "--where", "syscall == read")[2] == ""
