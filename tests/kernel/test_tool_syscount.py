"""syscount: the calls of a process that makes prime numbers of them."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time

import pytest

from pyebpf.programs import syscount
from tests.support.command import running
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
    return {o["SYSCALL"]: o["COUNT"] for o in objects}


def test_counts_by_name(caller):
    """Exactly 1009 and 211 calls, as text, JSON and CSV; a number that is no call has its number for a name."""
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
    assert list(objects.objects()[0]) == ["SYSCALL", "COUNT"]
    expected = {"getppid": CALLS, "getpgid": FAILURES, "clock_nanosleep": SLEEPS, "write": 1}
    assert expected.items() <= found.items()
    (unknown,) = [name for name in found if str(NO_CALL) in name]
    assert found[unknown] == 1
    assert {row["SYSCALL"]: int(row["COUNT"]) for row in rows.rows() if row["SYSCALL"] != "read"} == found
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
    assert list(names.values()) == [1]  # the number that is no call
    assert failed_by_process.objects() == [{"PID": caller.pid, "COMM": "caller", "COUNT": FAILURES + 1}]
    (own,) = [o for o in by_process.objects() if o["PID"] == caller.pid]
    assert (own["COMM"], own["COUNT"]) == ("caller", sum(by_name(every.objects()).values()))
    assert by_name(top.objects()) == {"getppid": CALLS, "getpgid": FAILURES}


def test_latency(caller):
    """-L has the time in microseconds, with -m in milliseconds, the longest first."""
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
    if slept["SYSCALL"] == "read":  # it waited for the word to begin
        slept, slept_too = micro.objects()[1], milli.objects()[1]
    assert list(slept) == ["SYSCALL", "COUNT", "TIME(us)"]
    assert list(slept_too) == ["SYSCALL", "COUNT", "TIME(ms)"]
    assert {slept["SYSCALL"], slept_too["SYSCALL"]} == {"clock_nanosleep"}
    assert slept["COUNT"] == slept_too["COUNT"] == SLEEPS
    least = SLEEPS * 50 * 0.95  # clocks of emulated processors differ by a percent or two
    assert least <= slept["TIME(us)"] / 1000 <= most
    assert least <= slept_too["TIME(ms)"] <= most


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
