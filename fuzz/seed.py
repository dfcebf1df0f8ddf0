"""Write the inputs that each target's search begins with: `python -m fuzz.seed [TARGET…]`."""

from __future__ import annotations

import hashlib
import sys
from functools import partial
from pathlib import Path

from fuzz.coverage import Coverage
from fuzz.targets import NAMES, load

_CORPUS = Path(__file__).resolve().parent / "corpus"
_MAX_ELEMENTS = 40  # files a target


def write(name: str) -> int:
    """The target's seeds; of many, those that go a way of their own. How many were written."""
    target = load(name)
    folder = _CORPUS / name
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("seed-*"):
        old.unlink()
    coverage = Coverage(target.COVERS)
    written = 0
    seeds = sorted(set(target.seeds()), key=lambda each: (len(each), each))
    for data in seeds:
        new = coverage.run(partial(target.target, data))
        if len(seeds) <= _MAX_ELEMENTS or (new and written < _MAX_ELEMENTS):
            (folder / f"seed-{hashlib.sha256(data).hexdigest()[:12]}").write_bytes(data)
            written += 1
    return written


if __name__ == "__main__":
    for each in sys.argv[1:] or NAMES:
        sys.stdout.write(f"{each}: {write(each)}\n")
