"""The same source and the same target give the same bytes in every process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def compiled(seed: str) -> str:
    """The language's cases, compiled by a process with this hash seed."""
    environment = {**os.environ, "PYTHONHASHSEED": seed}
    command = [sys.executable, "-m", "tests.support.compiled", "cases"]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True).stdout


def test_hash_seeds_change_nothing():
    """Two processes whose sets and strings hash differently make the same maps and instructions."""
    first, second = compiled("1"), compiled("61")
    assert first == second
    assert first.count("program probe") > 40
