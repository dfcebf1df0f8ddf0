"""Tests of bpftrace's that pyebpf does not pass, each with its reason: `explained.txt`, a line a test."""

from __future__ import annotations

from pathlib import Path


def explained() -> dict[str, str]:
    """Reasons by the test's file and name."""
    lines = Path(__file__).with_name("explained.txt").read_text().splitlines()
    return dict(line.split(": ", 1) for line in lines if line and not line.startswith("#"))
