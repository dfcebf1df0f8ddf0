"""docs/maps.md: its table of kinds is the code's."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from pyebpf.specs.map_traits import MAP_TRAITS

ROOT = Path(__file__).resolve().parents[2]


def test_regenerating_gives_the_same_table():
    """`python tools/generate_maps.py` writes it."""
    done = subprocess.run([sys.executable, "tools/generate_maps.py", "--check"], cwd=ROOT, check=False, timeout=60)
    assert done.returncode == 0


def test_every_kind_has_a_row():
    """By its name."""
    text = (ROOT / "docs" / "maps.md").read_text()
    assert all(f"| `{kind.name}` |" in text for kind in MAP_TRAITS)
