"""The library examples on the pages of tools for processes and processors run as they are copied."""

from __future__ import annotations

import contextlib
import os
import subprocess
import threading
import time
from pathlib import Path

import pytest

from tests.support.page_examples import check_example

#: Each tool, and something of the workload that its example prints.
PRINTED = {
    "chain": r"\d+ \S.* \[",
    "cpudist": r"\S \d+",
    "execsnoop": r"\d+ \S+/sh .*exit 3",
    "exitsnoop": r"\d+ sh 3 None",
    "funclatency": r"\d+ \d+",
    "funcslower": r"\S+ clock_nanosleep \d+ 0",
    "killsnoop": r"sh SIGCONT \d+ None",
    "offcputime": r"\d+ \S.* \[.*'\w*schedule\w*'",
    "offwaketime": r"\d+ \S.* was woken by \S",
    "opensnoop": r"\d+ \S.* ENOENT /missing/file",
    "runqlat": r"\S \d+",
    "runqlen": r"0 \d+",
    "softirqs": r"(timer|sched|rcu) \d+",
    "statsnoop": r"\d+ \S.* ENOENT /missing/file",
    "threadsnoop": r"\d+ \S.* \w*thread\w*",
    "wakeuptime": r"\d+ \S.* woke \S",
}


def work():
    """A shell that signals itself and fails, calls for a file that is missing, a thread that sleeps."""
    assert subprocess.run(["sh", "-c", "kill -CONT $$; exit 3"], check=False).returncode == 3
    with contextlib.suppress(FileNotFoundError):
        Path("/missing/file").stat()
    with contextlib.suppress(FileNotFoundError):
        os.open("/missing/file", os.O_RDONLY)
    thread = threading.Thread(target=time.sleep, args=(0.05,))
    thread.start()
    thread.join()


@pytest.mark.any_kernel
@pytest.mark.parametrize("tool", PRINTED)
def test_the_library_example(tool):
    """It prints the workload: event tools as things happen, summaries after it."""
    check_example(tool, work, PRINTED[tool])
