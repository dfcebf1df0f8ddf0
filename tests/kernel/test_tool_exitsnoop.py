"""exitsnoop: the ends of processes and threads that wait(2) tells, too."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time

import pytest

from pyebpf.programs import exitsnoop
from tests.support.command import running
from tests.support.needs import needs

#: A process that ends by what it is told, and after how many seconds.
END = """
import os, resource, signal, sys, time
resource.setrlimit(resource.RLIMIT_CORE, (1 << 20, 1 << 20))
open("/proc/self/comm", "w").write("ends-here")
time.sleep(float(sys.argv[2]))
code = int(sys.argv[1])
os._exit(code) if code >= 0 else os.kill(os.getpid(), -code)
time.sleep(60)
"""
#: The main thread ends by the bare system call with code 3, and another, later, with code 7; it writes their numbers.
THREADS = """
import ctypes, json, sys, threading, time
call = ctypes.CDLL(None).syscall
def other():
    time.sleep(0.3)
    call(int(sys.argv[1]), 7)
thread = threading.Thread(target=other)
thread.start()
print(json.dumps([threading.get_native_id(), thread.native_id]), flush=True)
call(int(sys.argv[1]), 3)
"""
#: exit(2), which ends a thread alone.
EXIT = {"x86_64": 60, "aarch64": 93}[os.uname().machine]


@pytest.fixture(autouse=True)
def _tracepoints():
    needs("attach:tp_btf")


def end(code, folder, seconds=0.0):
    """Have a process end so: its number, the status that wait(2) tells, and bounds of its age in nanoseconds."""
    began = time.monotonic_ns()
    with subprocess.Popen([sys.executable, "-c", END, str(code), str(seconds)], cwd=folder) as process:
        started = time.monotonic_ns()
        _, status = os.waitpid(process.pid, 0)
        process.returncode = 0
    ended = time.monotonic_ns()
    return process.pid, status, (ended - started) // 2, ended - began


def test_codes_and_signals(tmp_path):
    """Exit codes, signals and core dumps as wait(2) has them, with both processes, as text and JSON; -x failures."""
    ends = [0, 1, 255, -signal.SIGKILL, -signal.SIGTERM, -signal.SIGSEGV, -signal.SIGRTMIN - 3]
    ours = ("exitsnoop", "--comm", "ends-here")
    with running(*ours, "--json") as objects, running(*ours) as text, running(*ours, "-x", "--csv") as failed:
        expected = [end(each, tmp_path) for each in ends]
        for tool in (objects, text, failed):
            tool.stop()
    found = objects.objects()
    statuses = [status for _, status, *_ in expected]
    assert [(each["pid"], each["ppid"], each["tid"]) for each in found] == [(n, os.getpid(), n) for n, *_ in expected]
    assert [each["exit_code"] for each in found] == [os.WEXITSTATUS(s) if os.WIFEXITED(s) else None for s in statuses]
    assert [each["signal"] for each in found] == [None] * 3 + ["SIGKILL", "SIGTERM", "SIGSEGV", "SIGRTMIN+3"]
    assert [each["core_dumped"] for each in found] == [os.WIFSIGNALED(s) and os.WCOREDUMP(s) for s in statuses]
    assert [each["pid"] for each in found[1:]] == [int(row["pid"]) for row in failed.rows()]
    heading, *lines = text.out.splitlines()
    assert heading.split() == ["PCOMM", "PID", "PPID", "TID", "AGE(s)", "EXIT_CODE"]
    core = ", core dumped" if os.WCOREDUMP(statuses[5]) else ""
    assert [line.split(maxsplit=5)[5] for line in lines] == [
        "0",
        "code 1",
        "code 255",
        "signal 9 (KILL)",
        "signal 15 (TERM)",
        f"signal 11 (SEGV){core}",
        f"signal {signal.SIGRTMIN + 3} (RTMIN+3)",
    ]


def test_ages(tmp_path):
    """The time from start to end, within what the parent measured."""
    with exitsnoop.open(comm="ends-here") as exits:
        for seconds in (0, 0.31):
            pid, _, least, most = end(5, tmp_path, seconds)
            found = next(exits)
            assert (found.pid, found.exit_code) == (pid, 5)
            assert least <= found.age <= most


def test_a_process_ends_with_its_last_thread():
    """One line when the last thread ends, with the code that wait(2) tells; --per-thread has each thread's own."""
    with exitsnoop.open() as processes, exitsnoop.open(per_thread=True) as threads:
        with subprocess.Popen([sys.executable, "-c", THREADS, str(EXIT)], stdout=subprocess.PIPE) as process:
            written, _ = process.communicate()
        main, second = json.loads(written)
        found = [each for each in processes.poll(1) if each.pid == process.pid]
        each_thread = [each for each in threads.poll(1) if each.pid == process.pid]
    assert [(each.tid, each.exit_code) for each in found] == [(main, process.returncode)]
    assert [(each.tid, each.exit_code) for each in each_thread] == [(main, 3), (second, 7)]
    assert found[0].age > 300_000_000


def test_many_threads_that_end_at_once():
    """One line for a process whose threads all end by exit(3), as often as it is done."""
    script = "import threading, time, os\nfor _ in range(31): threading.Thread(target=time.sleep, args=(9,)).start()\n"
    with exitsnoop.open() as exits:
        pids = []
        for _ in range(7):
            with subprocess.Popen([sys.executable, "-c", script + "os._exit(2)"]) as process:
                process.wait()
            pids.append(process.pid)
        found = [each for each in exits.poll(1) if each.pid in pids]
    assert [(each.pid, each.exit_code) for each in found] == [(pid, 2) for pid in pids]
