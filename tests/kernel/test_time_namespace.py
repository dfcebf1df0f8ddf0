"""Times that tools give, in a time namespace, whose monotonic clock is another than the kernel's."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.support.needs import needs, unless

SECONDS = 100_000
OPENS = """
import os, threading, time
from pyebpf.programs import opensnoop
from pyebpf.tool import monotonic_time
with opensnoop.open(pid=os.getpid()) as opens:
    before = time.monotonic_ns()
    open("/dev/null").close()
    after = time.monotonic_ns()
    call = next(call for call in opens if call.path == "/dev/null")
print(before <= call.time <= after)
"""


@pytest.mark.parametrize("seconds", [SECONDS, 0])
def test_opensnoop_gives_the_clock_of_its_process(seconds):
    """An open's time lies between two readings of time.monotonic_ns() around it."""
    needs("program:tracepoint")
    command = ["unshare", "--time", "--monotonic", str(seconds), "--fork", sys.executable, "-c", OPENS]
    run = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    unless("unshare failed" not in run.stderr and "time namespace" not in run.stderr, "setting:time_namespaces")
    assert (run.stdout, run.returncode) == ("True\n", 0), run.stderr
