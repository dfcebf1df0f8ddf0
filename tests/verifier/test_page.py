"""docs/verifier.md: its table is what the data gives, its example what pyebpf says."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from pyebpf.verifier.log import explain

ROOT = Path(__file__).parents[2]


def test_regenerating_gives_the_same_table():
    """tools/generate_refusals.py writes byte for byte what is checked in."""
    command = [sys.executable, ROOT / "tools" / "generate_refusals.py", "--check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_the_example_is_what_is_said():
    """The line at the top of the page, from a log of Linux 6.1."""
    log = "6: (85) call bpf_map_lookup_elem#1    ; R0_w=map_value_or_null(id=1,off=0,ks=4,vs=16,imm=0)\n"
    log += "7: (b7) r5 = 1                        ; R5_w=1\n"
    log += "8: (db) lock *(u64 *)(r0 +0) += r5\nR0 invalid mem access 'map_value_or_null'\nprocessed 8 insns\n"
    assert f"count: {explain(log)}\n" in (ROOT / "docs" / "verifier.md").read_text()
