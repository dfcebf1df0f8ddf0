"""The tools compile to the same bytes in every process, and from recorded facts as on the machine itself."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from pyebpf.kernel.tracefs import Tracefs
from pyebpf.runtime.host import host_target
from pyebpf.target import Recorder
from tests.support.compiled import TOOLS, tools

ROOT = Path(__file__).resolve().parents[2]


def compiled(facts: Path, seed: str) -> str:
    """The tools, compiled from recorded facts by a process with this hash seed."""
    environment = {**os.environ, "PYTHONHASHSEED": seed}
    command = [sys.executable, "-m", "tests.support.compiled", "tools", str(facts)]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True).stdout


@pytest.mark.any_kernel
def test_the_tools_compile_to_the_same_bytes(tmp_path: Path) -> None:
    """On this machine, from what was asked of it, and from that under two hash seeds."""
    with Tracefs() as tracefs:
        live = host_target(lambda: tracefs)
        recorder = Recorder(live)
        here = "\n".join(tools(recorder))
        assert "\n".join(tools(live)) == here
    facts = tmp_path / "facts.json"
    facts.write_text(recorder.to_json(), encoding="utf-8")
    assert "\n".join(tools(recorder.recorded())) == here
    assert compiled(facts, "1") == here
    assert compiled(facts, "61") == here
    assert all(name in here for name in TOOLS)
