"""gethostlatency: every look-up of a known workload, with its name, its process and a latency that fits."""

from __future__ import annotations

import subprocess
import sys
import time

import pytest

from pyebpf.errors import NotFound
from pyebpf.programs import gethostlatency
from tests.support.command import pyebpf, running
from tests.support.needs import needs
from tests.support.told import let, waiting

COLUMNS = ["TIME", "PID", "COMM", "LATms", "HOST"]
#: Look-ups by each function; all of names that /etc/hosts has, or of numbers, so that nothing is sent.
GETADDRINFO, GETHOSTBYNAME, GETHOSTBYNAME2 = 23, 17, 11
WORKLOAD = f"""
import ctypes, socket, sys, time
open("/proc/self/comm", "w").write("resolver")
libc = ctypes.CDLL("libc.so.6")
result = ctypes.c_void_p()
print(flush=True)
sys.stdin.read(1)
began = time.monotonic_ns()
for _ in range({GETADDRINFO}):
    assert libc.getaddrinfo(b"localhost", None, None, ctypes.byref(result)) == 0
    libc.freeaddrinfo(result)
for _ in range({GETHOSTBYNAME}):
    libc.gethostbyname(b"localhost")
for number in range({GETHOSTBYNAME2}):
    libc.gethostbyname2(b"127.0.0.%d" % number, socket.AF_INET)
assert libc.getaddrinfo(None, b"80", None, ctypes.byref(result)) == 0
print(time.monotonic_ns() - began, flush=True)
"""
EXPECTED = ["localhost"] * (GETADDRINFO + GETHOSTBYNAME) + [f"127.0.0.{n}" for n in range(GETHOSTBYNAME2)]


@pytest.fixture(autouse=True)
def _uprobes():
    needs("attach:uprobe")


def resolver():
    """A process that waits to be told to look names up; it tells how many nanoseconds that took."""
    return waiting(sys.executable, "-c", WORKLOAD)


def test_51_lookups():
    """23, 17 and 11 look-ups by the three functions, in order, as text and as JSON; one without a name is none."""
    with (
        resolver() as process,
        running("gethostlatency") as text,
        running("gethostlatency", "--json") as objects,
    ):
        took = int(let(process))
        for tool in (text, objects):
            tool.stop()
    found = [o for o in objects.objects() if o["pid"] == process.pid]
    assert [o["host"] for o in found] == EXPECTED
    assert list(found[0]) == ["time", "pid", "comm", "latency_ns", "host"]
    assert {o["comm"] for o in found} == {"resolver"}
    assert min(o["latency_ns"] for o in found) > 0
    assert sum(o["latency_ns"] for o in found) <= took
    heading, *lines = text.out.splitlines()
    assert heading.split() == COLUMNS
    mine = [line.split() for line in lines if line.split()[1] == str(process.pid)]
    assert [fields[4] for fields in mine] == EXPECTED
    assert all(len(line) <= 80 for line in text.out.splitlines())
    for tool in (text, objects):
        assert tool.err == "Tracing getaddrinfo/gethostbyname calls... Hit Ctrl-C to end.\n"


def test_one_process():
    """-p keeps the look-ups of one process, by the C library that it has; typed records, with their times."""
    with resolver() as one, resolver() as other, gethostlatency.open(pid=one.pid) as lookups:
        let(other)
        began = time.monotonic_ns()
        let(one)
        ended = time.monotonic_ns()
        found = [next(lookups) for _ in EXPECTED]
    assert [(each.pid, each.host) for each in found] == [(one.pid, host) for host in EXPECTED]
    assert 0 < sum(each.elapsed for each in found) <= ended - began
    times = [each.time for each in found]
    assert [began, *times, ended] == sorted([began, *times, ended])


def test_what_is_not_there():
    """A library that does not exist or lacks the functions, a process that has ended: one line, and status 1."""
    with subprocess.Popen(["true"]) as ended:
        ended.wait()
    done = pyebpf("gethostlatency", "-l", "/no/such/library")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "pyebpf gethostlatency: there is no file /no/such/library\n"
    cases = {
        "libm.so.6 has no function getaddrinfo (and 2 more that are not there)": {"library": "libm.so.6"},
        f"--pid: there is no process {ended.pid}": {"pid": ended.pid},
    }
    for message, options in cases.items():
        with pytest.raises(NotFound) as caught, gethostlatency.open(**options):
            pass
        assert str(caught.value) == message
