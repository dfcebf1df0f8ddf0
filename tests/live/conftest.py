"""A made-up tool with its page, as a process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

MADE_UP = Path(__file__).with_name("made_up.py")


@pytest.fixture
def live():
    """Start `pyebpf live` of a made-up tool: the process, and the address that it printed."""
    processes = []

    def starter(tool, *arguments):
        command = [sys.executable, "-m", "pyebpf", "live", str(MADE_UP), *arguments]
        processes.append(
            subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, "MADE_UP": tool}
            )
        )
        return processes[-1], processes[-1].stdout.readline().strip()

    yield starter
    for process in processes:
        process.kill()
        process.communicate()
