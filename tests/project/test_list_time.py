"""Looking around costs little: listing all tracepoints, and completing a word, from the command's start to its end."""

from __future__ import annotations

import subprocess
import sys
import time

import pytest

from tests.project.test_import_time import ENVIRONMENT, ROOT
from tests.support.needs import needs


def _seconds(*arguments: str) -> float:
    command = [sys.executable, "-m", "pyebpf", *arguments]
    began = time.perf_counter()
    subprocess.run(command, cwd=ROOT, env=ENVIRONMENT, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - began


@pytest.mark.parametrize(
    ("limit", "arguments"), [(0.3, ("list", "t:*")), (0.15, ("completion", "probes", "t:sched:sched_s"))]
)
def test_looking_around_takes_a_moment(limit, arguments):
    """The best of several runs."""
    needs("user:root")
    _seconds(*arguments)
    taken = []
    # Other load only ever adds time.
    for _ in range(60):
        taken.append(_seconds(*arguments))
        if taken[-1] < limit:
            return
    assert min(taken) < limit
