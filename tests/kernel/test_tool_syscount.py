"""syscount: the calls of a process that makes prime numbers of them."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pyebpf.programs import syscount
from tests.support.cgroups import cgroup
from tests.support.command import pyebpf, running
from tests.support.waiting import PATIENCE

CALLS, FAILURES, SLEEPS = 1009, 211, 3
NO_CALL = 9999
NOBODY = (1 << 31) - 1
WORKLOAD = f"""
import ctypes, os, sys, time
open("/proc/self/comm", "w").write("caller")
libc = ctypes.CDLL(None)
print(flush=True)
while (word := sys.stdin.buffer.raw.read(1)):
    for _ in range({CALLS}):
        os.getppid()
    for _ in range({FAILURES}):
        try:
            os.getpgid({NOBODY})
        except ProcessLookupError:
            pass
    for _ in range({SLEEPS}):
        time.sleep(0.05)
    libc.syscall({NO_CALL})
    libc.syscall(-1)
    os.write(1, b"!")
os._exit(0)
"""


class Caller:
    """A process that makes its calls when told to."""

    def __init__(self, process):
        self.process = process
        self.pid = process.pid

    def go(self):
        self.process.stdin.write(b"!")
        self.process.stdin.flush()
        assert self.process.stdout.read(1) == b"!"


@pytest.fixture
def caller():
    command = [sys.executable, "-u", "-c", WORKLOAD]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0) as process:
        assert process.stdout.readline() == b"\n"
        time.sleep(0.1)  # it waits in read(2) from now on, so that no program counts the beginning of that
        yield Caller(process)
        process.stdin.close()
        assert process.wait(PATIENCE) == 0


def by_name(objects):
    return {o["syscall"]: o["count"] for o in objects}


def test_counts_by_name(caller):
    """Exactly 1009 and 211 calls, as text, JSON and CSV; a number that is not a call has its number for a name."""
    pid = str(caller.pid)
    with (
        running("syscount", "-p", pid) as text,
        running("syscount", "-p", pid, "--json") as objects,
        running("syscount", "-p", pid, "--csv") as rows,
    ):
        caller.go()
        for tool in (text, objects, rows):
            tool.stop()
    found = by_name(objects.objects())
    found.pop("read", None)  # it waits for the next word, perhaps already
    assert list(objects.objects()[0]) == list(rows.rows()[0]) == ["time", "syscall", "count"]
    expected = {"getppid": CALLS, "getpgid": FAILURES, "clock_nanosleep": SLEEPS, "write": 1}
    assert expected.items() <= found.items()
    (unknown,) = [name for name in found if str(NO_CALL) in name]
    assert (found[unknown], found["[unknown: -1]"]) == (1, 1)
    assert {row["syscall"]: int(row["count"]) for row in rows.rows() if row["syscall"] != "read"} == found
    empty, heading, *lines = text.out.splitlines()
    assert (empty, heading.split()) == ("", ["SYSCALL", "COUNT"])
    printed = {name.strip(): int(count) for name, count in (line.rsplit(maxsplit=1) for line in lines)}
    printed.pop("read", None)
    assert printed == found
    counts = [int(line.split()[-1]) for line in lines]
    assert counts == sorted(counts, reverse=True)


def test_processes_failures_and_the_top(caller):
    """-x counts the failed calls, -P by process, -T shows only the first."""
    pid = str(caller.pid)
    with (
        running("syscount", "-p", pid, "-x", "--json") as failed,
        running("syscount", "-p", pid, "-x", "-P", "--json") as failed_by_process,
        running("syscount", "-P", "-T", "100000", "--json") as by_process,
        running("syscount", "-p", pid, "-T", "100000", "--json") as every,
        running("syscount", "-p", pid, "-T", "2", "--json") as top,
    ):
        caller.go()
        caller.process.stdin.close()
        assert caller.process.wait(PATIENCE) == 0
        for tool in (failed, failed_by_process, by_process, every, top):
            tool.stop()
    names = by_name(failed.objects())
    assert names.pop("getpgid") == FAILURES
    assert names == {f"[unknown: {NO_CALL}]": 1, "[unknown: -1]": 1}  # numbers that are no calls
    (by_pid,) = failed_by_process.objects()
    assert list(by_pid) == ["time", "pid", "comm", "count"]
    assert (by_pid["pid"], by_pid["comm"], by_pid["count"]) == (caller.pid, "caller", FAILURES + 2)
    (own,) = [o for o in by_process.objects() if o["pid"] == caller.pid]
    assert (own["comm"], own["count"]) == ("caller", sum(by_name(every.objects()).values()))
    assert by_name(top.objects()) == {"getppid": CALLS, "getpgid": FAILURES}


def test_latency(caller):
    """-L has the time in microseconds, with -m in milliseconds, in JSON nanoseconds; the longest first."""
    pid = str(caller.pid)
    before = time.monotonic()
    with (
        running("syscount", "-p", pid, "-L", "--json") as micro,
        running("syscount", "-p", pid, "-L", "-m", "--json") as milli,
    ):
        caller.go()
        for tool in (micro, milli):
            tool.stop()
    most = (time.monotonic() - before) * 1000
    slept, slept_too = micro.objects()[0], milli.objects()[0]
    if slept["syscall"] == "read":  # it waited for the word to begin
        slept, slept_too = micro.objects()[1], milli.objects()[1]
    assert list(slept) == list(slept_too) == ["time", "syscall", "count", "total_ns"]
    assert {slept["syscall"], slept_too["syscall"]} == {"clock_nanosleep"}
    assert slept["count"] == slept_too["count"] == SLEEPS
    least = SLEEPS * 50 * 0.95  # clocks of emulated processors differ by a percent or two
    assert least <= slept["total_ns"] / 1e6 <= most
    assert least <= slept_too["total_ns"] / 1e6 <= most


def test_intervals(caller):
    """Each interval has its own calls, and one without any is empty."""
    with syscount.open(pid=caller.pid) as snapshot:
        found = []
        for rounds in (1, 0, 2):
            for _ in range(rounds):
                caller.go()
            found.append({row.name: row.count for row in snapshot()}.get("getppid", 0))
    assert found == [CALLS, 0, 2 * CALLS]


def test_calls_of_many_threads(caller):
    """Threads of one process on several processors lose no count."""
    script = (
        "import os, sys, threading\n"
        "sys.stdin.read(1)\n"
        "def work():\n"
        "    for _ in range(5003): os.getppid()\n"
        "threads = [threading.Thread(target=work) for _ in range(7)]\n"
        "for t in threads: t.start()\n"
        "for t in threads: t.join()\n"
    )
    with (
        subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE) as process,
        syscount.open(pid=process.pid, top=1000) as snapshot,
        contextlib.suppress(BrokenPipeError),
    ):
        process.stdin.write(b"!")
        process.stdin.close()
        assert process.wait(PATIENCE) == 0
        assert {row.name: row.count for row in snapshot()}["getppid"] == 7 * 5003


def test_lines_are_narrow():
    """At most 80 columns, with every column there is."""
    with running("syscount", "-P", "-L", "0.3", "1") as tool:
        os.getppid()
        assert tool.wait() == 0
    assert all(len(line) <= 80 for line in tool.out.splitlines())


def rows(caller, **options):
    """The counts by name of one round of calls."""
    with syscount.open(top=100_000, **options) as snapshot:
        caller.go()
        return {row.name: row.count for row in snapshot()}


def test_one_error_of_one_call(caller):
    """By the error's name or its number, alone and with the name of the call."""
    for errno in ("ESRCH", "3"):
        assert rows(caller, pid=caller.pid, errno=errno) == {"getpgid": FAILURES}
    assert rows(caller, pid=caller.pid, errno="ENOSYS") == {f"[unknown: {NO_CALL}]": 1, "[unknown: -1]": 1}
    assert rows(caller, pid=caller.pid, errno="ESRCH", syscall=("getppid",)) == {}
    assert rows(caller, pid=caller.pid, syscall=("getppid", "getpgid")) == {"getppid": CALLS, "getpgid": FAILURES}
    assert rows(caller, tid=caller.pid, syscall=("getpgid",), failed=True) == {"getpgid": FAILURES}


def test_children_of_a_process(caller):
    """-c counts the calls of a process's children alone."""
    with syscount.open(ppid=os.getpid(), top=100) as children, syscount.open(ppid=caller.pid, top=100) as none:
        caller.go()
        found = {row.name: row.count for row in children()}
        assert none() == []
    assert (found["getppid"], found["getpgid"]) == (CALLS, FAILURES)


def test_calls_of_a_control_group(caller):
    """The caller's own group has its calls, an empty one none."""
    with cgroup() as group:
        assert rows(caller, cgroup=str(group.path), syscall=("getppid",)) == {}
        (group.path / "cgroup.procs").write_text(str(caller.pid))
        try:
            assert rows(caller, cgroup=str(group.path), syscall=("getppid",)) == {"getppid": CALLS}
        finally:
            Path(group.path.parent, "cgroup.procs").write_text(str(caller.pid))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("-e", "EFOO"), "--errno: 'EFOO' is no error: write a name, such as ENOENT, or its number"),
        (("-e", "0"), "--errno: '0' is no error"),
        (("-e", "4096"), "--errno: '4096' is no error"),
        (("--syscall", "opneat"), "--syscall: this machine has no system call 'opneat' (did you mean openat?)"),
        (("--syscall", "[unknown: 9]"), "this machine has no system call '[unknown: 9]'"),
        (("-t", str(NOBODY)), "4194304"),
    ],
)
def test_names_that_are_none(arguments, message):
    """A usage error, before anything is attached."""
    done = pyebpf("syscount", *arguments)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert message in done.stderr
