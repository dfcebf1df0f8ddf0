"""The flow of a run: start line, data, signals, readers that go away, losses, errors."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import time
from pathlib import Path

import construct
import pytest

from pyebpf.cli.report import guarded
from pyebpf.cli.run import run_tool
from pyebpf.output import escape
from pyebpf.types.foreign import ConstructType

START = "Tracing open(2)... Hit Ctrl-C to end.\n"
STAMP = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}[+-]\d\d:\d\d"
HEADING = "PID     COMM              LAT(us) PATH\n"


def test_data_goes_to_standard_output_and_the_rest_to_standard_error(command):
    """The start line once probes are attached, what was attached on -v, losses, and the detaching after all of it."""
    status, out, err = command("events", "-d", "0.05", "-v", "--lose")
    assert status == 0
    assert out == HEADING + (
        "1       cat                  1.50 /tmp/1\n"
        "2       ca\\x1bt              3.00 /tmp/2\n"
        "3       cat                  4.50 /tmp/3\n"
    )
    assert err == (
        "on_open: tracepoint syscalls:sys_enter_openat\n"
        + START
        + "Dropped 23 events so far (ring buffer full: 23); --buffer SIZE gives them more room\ndetached\n"
    )


def test_each_event_is_an_object_on_a_line_of_its_own(command):
    """--json: the time and the fields in base units, whether or not text has the time."""
    _, out, _ = command("events", "-d", "0.05", "--json", "-T")
    records = [json.loads(line) for line in out.splitlines()]
    assert [list(record) for record in records] == [["time", "pid", "comm", "latency_ns", "path"]] * 3
    assert records[1]["comm"] == "ca\x1bt"
    assert [record["latency_ns"] for record in records] == [1500, 3000, 4500]


def test_events_as_csv(command):
    """--csv: a heading line and a line an event, the time first."""
    _, out, _ = command("events", "-d", "0.05", "--csv")
    times, rest = zip(*(line.split(",", 1) for line in out.splitlines()), strict=True)
    assert rest == ("pid,comm,latency_ns,path", "1,cat,1500,/tmp/1", "2,ca\\x1bt,3000,/tmp/2", "3,cat,4500,/tmp/3")
    assert times[0] == "time"
    assert all(re.fullmatch(STAMP, each) for each in times[1:])


def test_an_event_is_printed_when_it_happens(start):
    """Flushed line by line, also into a pipe."""
    process = start("events")
    assert process.stderr.readline() == START
    assert [process.stdout.readline() for _ in range(4)][-1].endswith("/tmp/3\n")
    assert process.poll() is None


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_prints_the_last_interval_and_exits_with_0(start, number):
    """Well before any interval is over, and at once."""
    process = start("summary", "vda", "3600")
    assert process.stderr.readline() == "Tracing block I/O... Hit Ctrl-C to end.\n"
    sent = time.monotonic()
    process.send_signal(number)
    out, err = process.communicate(timeout=20)
    assert time.monotonic() - sent < 2
    assert process.returncode == 0
    assert out.count("2 -> 3          : 5 ") == 1
    assert err == "detached\n"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_an_event_tool_with_0(start, number):
    """While it waits in a poll."""
    process = start("events")
    process.stderr.readline()
    process.send_signal(number)
    out, err = process.communicate(timeout=20)
    assert (process.returncode, err) == (0, "detached\n")
    assert out.startswith(HEADING)


def test_sigint_counts_although_the_shell_had_it_ignored(start):
    """As for `tool &` in a script."""
    process = start("events", preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN))
    process.stderr.readline()
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=20)
    assert process.returncode == 0


def test_a_second_signal_ends_at_once(start):
    """Here the output's reader is stuck, which the first waits for a moment."""
    process = start("events", "--endless")
    process.stderr.readline()
    time.sleep(0.3)  # until the pipe is full
    process.send_signal(signal.SIGTERM)
    time.sleep(0.1)
    assert process.poll() is None
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=20) == -signal.SIGINT


def test_a_reader_that_goes_away_while_events_flow_ends_it_quietly(start):
    """`| head -1`."""
    process = start("events", "--endless")
    assert process.stdout.readline() == HEADING
    process.stdout.close()
    assert process.wait(timeout=20) == 0
    assert process.stderr.read() == START + "detached\n"


@pytest.mark.parametrize("tool", [("events",), ("summary", "vda", "3600")])
def test_a_reader_that_goes_away_while_nothing_happens_ends_it_too(start, tool):
    """Not only at the next event, which may never come."""
    process = start(*tool)
    process.stderr.readline()
    time.sleep(0.1)
    process.stdout.close()
    assert process.wait(timeout=20) == 0
    assert process.stderr.read() == "detached\n"


def test_a_vanished_standard_error_is_no_reason_to_fail(start):
    """Notes are dropped, data is not."""
    read, write = os.pipe()
    os.close(read)
    process = start("summary", "vda", "0.05", "2", stderr=write)
    os.close(write)
    out, _ = process.communicate(timeout=20)
    assert process.returncode == 0
    assert out.count("usecs") == 2


def test_a_full_disk_is_one_line(command):
    """And status 1."""
    with open("/dev/full", "w") as full:  # noqa: PTH123 - the device is opened for its error
        status, _, err = command("events", "-d", "0.05", stdout=full)
    assert status == 1
    assert err == START + "detached\npyebpf events: standard output: No space left on device\n"


def test_a_closed_standard_output_is_one_line(command):
    """`>&-`."""
    status, _, err = command("events", stdout=None, preexec_fn=lambda: os.close(1))
    assert (status, err) == (1, "pyebpf: standard output is closed\n")


@pytest.mark.parametrize(
    ("failure", "line"),
    [
        ("permission", "pyebpf events: needs CAP_BPF and CAP_PERFMON: run it as root"),
        ("verifier", "pyebpf events: R1 may be None"),
    ],
)
def test_an_error_is_one_line_and_status_1(command, failure, line):
    """No start line, no heading, no traceback."""
    assert command("events", "--fail", failure) == (1, "", line + "\n")


def test_an_error_of_a_tools_own_code_names_its_line(command):
    """It is not pyebpf's to mend."""
    status, out, err = command("events", "--fail", "bug")
    assert (status, out) == (1, "")
    line = r"pyebpf events: .*/fakes\.py:(\d+): ZeroDivisionError: a bug \(PYEBPF_TRACEBACK=1 shows the calls\)\n"
    (number,) = re.fullmatch(line, err).groups()
    source = (Path(__file__).parent / "fakes.py").read_text().splitlines()
    assert 'raise ZeroDivisionError("a bug")' in source[int(number) - 1]


def test_an_error_of_pyebpfs_own_code_is_to_be_reported(capsys):
    """Whoever called it, and in whatever library it was raised."""
    for wrong in (
        lambda _: escape.fit(3, "wide"),
        lambda _: ConstructType(construct.Int32ub, 4).assemble(iter([b"x"])),
    ):
        assert guarded(wrong, ["events"]) == 1
        err = capsys.readouterr().err
        assert err.startswith("pyebpf events: internal error, please report it with PYEBPF_TRACEBACK=1 set: "), err


def test_a_verifier_log_is_shown_when_asked_for(command):
    """-v prints all of it above the line."""
    _, _, err = command("events", "--fail", "verifier", "-v")
    assert err == "0: (95) exit\nR0 !read_ok\npyebpf events: R1 may be None\n"


def test_a_traceback_can_be_asked_for(command):
    """PYEBPF_TRACEBACK=1, as the line says."""
    _, _, err = command("events", "--fail", "bug", env={**os.environ, "PYEBPF_TRACEBACK": "1"})
    assert err.startswith("Traceback (most recent call last):\n")


def test_dump_prints_the_bytecode_and_loads_nothing(command):
    """And needs no root."""
    assert command("events", "--dump", "--fail", "permission") == (0, "r0 = 1\nexit\n", "")


def test_what_cannot_be_compiled_here_is_told_without_the_tools_source(command):
    """Whoever runs a tool did not write that line; -v shows it."""
    status, out, err = command("events", "--dump", "--fail", "compile")
    assert (status, out) == (1, "")
    assert err.endswith(": no tracepoint open\n")
    assert "def on_open" not in err
    assert "def on_open" in command("events", "--dump", "-v", "--fail", "compile")[2]


def test_interval_and_count(command):
    """As many summaries as asked for, at the pace asked for."""
    begun = time.monotonic()
    status, out, _ = command("summary", "vda", "0.2", "3", "-D")
    assert time.monotonic() - begun >= 0.6
    assert (status, out.count("\ndisk = 'vda'\n     usecs  ")) == (0, 3)


def test_a_duration_that_is_a_multiple_of_the_interval_prints_no_empty_last_one(command):
    """-d in place of count. The end of the third interval is the end of the run."""
    _, out, _ = command("summary", "vda", "0.1", "--duration", "0.3")
    assert out.count("usecs") == 3


def test_without_an_interval_there_is_one_summary_at_the_end(command):
    """Here the end is the duration's."""
    _, out, _ = command("summary", "vda", "--duration", "0.1", "--json")
    assert json.loads(out)["buckets"][-1] == {"low": 2, "high": 3, "count": 5}


def test_tables_of_a_summary(command):
    """Rows for columns instead of histograms, with the time of day."""
    _, out, _ = command("counts", "vda", "0.05", "1", "-T")
    empty, clock, *table = out.split("\n")
    assert (empty, len(clock)) == ("", 8)
    assert table == [
        "SYSCALL                 COUNT",
        "read                       17",
        "openat                      5",
        "",
    ]


def test_events_of_a_summary_are_sentences_before_it(command):
    """Each interval's, with the time of day if that is wanted."""
    _, out, _ = command("mixed", "vda", "0.05", "3")
    lines = [line for line in out.splitlines() if line.startswith("dropped") or "usecs" in line]
    assert [line.split()[0] for line in lines] == ["dropped", "usecs", "usecs", "dropped", "usecs"]
    assert lines[0] == "dropped /tmp of 1"
    _, out, _ = command("mixed", "vda", "0.05", "1", "-T")
    assert re.match(r"\d\d:\d\d:\d\d dropped /tmp of 1\n\n\d\d:\d\d:\d\d\n\n? +usecs ", out)


def test_events_of_a_summary_as_objects(command):
    """--json: each on a line, with its own names."""
    _, out, _ = command("mixed", "vda", "0.05", "2", "--json", "-D")
    records = [json.loads(line) for line in out.splitlines()]
    assert [list(record) for record in records] == [["time", "pid", "path"], *[["time", "disk", "unit", "buckets"]] * 2]
    assert all(re.fullmatch(STAMP, record["time"]) for record in records)
    assert (records[0]["pid"], records[0]["path"]) == (1, "/tmp")


def test_events_of_a_summary_are_tables_of_their_own_in_csv(command):
    """--csv: a heading and an empty line wherever they and the summaries meet."""
    _, out, _ = command("mixed", "vda", "0.05", "3", "--csv")
    events, summaries = "time,pid,path\nT,{},/tmp\n", "time,unit,low,high,count\n"
    out = re.sub(f"^{STAMP}", "T", out, flags=re.MULTILINE)
    tables = re.sub(r"^T,usecs,.*\n", "", out, flags=re.MULTILINE).split("\n\n")
    assert [f"{table}\n" for table in tables[:-1]] == [events.format(1), summaries, events.format(3)]
    assert tables[-1] == summaries


def test_events_of_a_summary_as_a_library(fakes):
    """Those since the call before; of other tools none."""
    with fakes.MIXED.open() as snapshot:
        assert [each.pid for each in snapshot.events()] == [1]
        assert snapshot.events() == []
        assert [each.pid for each in snapshot.events()] == [3]
        assert [each.total for each in snapshot()] == [6]
    with fakes.SUMMARY.open() as snapshot:
        assert snapshot.events() == []


def test_losses_of_a_summary_are_reported_once_while_they_stay_the_same(command):
    """Totals, not differences; again only when they grew."""
    _, _, err = command("summary", "vda", "0.05", "3", "--lose")
    assert err.count("Dropped 23 events so far (ring buffer full: 23); --buffer SIZE gives them more room\n") == 1


def test_losses_are_objects(command):
    """--json: each on a line of its own, with the time and totals by reason; text and CSV have none."""
    for arguments in (("events", "-d", "0.3"), ("summary", "vda", "0.1", "3")):
        _, out, err = command(*arguments, "--json", "--lose")
        losses = [record for record in map(json.loads, out.splitlines()) if "dropped" in record]
        assert [list(each) for each in losses] == [["time", "dropped"]]
        assert re.fullmatch(STAMP, losses[0]["time"])
        assert losses[0]["dropped"] == {"ring buffer full": 23}
        assert "Dropped 23 events so far" in err
    for form in ([], ["--csv"]):
        assert "ring buffer" not in command("events", "-d", "0.05", *form, "--lose")[1]


def test_losses_stand_between_the_records(start):
    """While events flow, not only at the end."""
    process = start("events", "--endless", "--lose", "--json")
    before = after = 0
    for line in process.stdout:
        if "dropped" in json.loads(line):
            break
        before += 1
    for line in process.stdout:
        assert "pid" in json.loads(line)
        after += 1
        if after == 10:
            break
    assert before > 0
    assert after == 10


def test_the_loss_of_events_is_reported_within_seconds_while_they_flow(start):
    """Not only at the end, which may be days away."""
    process = start("events", "--endless", "--lose", stdout=subprocess.DEVNULL)
    process.stderr.readline()
    assert (
        process.stderr.readline()
        == "Dropped 23 events so far (ring buffer full: 23); --buffer SIZE gives them more room\n"
    )
    assert process.poll() is None


def test_a_run_leaves_handlers_as_they_were(fakes, capfd):
    """Where no signal came."""
    handler = signal.getsignal(signal.SIGINT)
    assert run_tool(fakes.SUMMARY, ["vda", "0.01", "1"]) == 0
    assert signal.getsignal(signal.SIGINT) is handler
    assert signal.set_wakeup_fd(-1) == -1
    assert "usecs" in capfd.readouterr().out
