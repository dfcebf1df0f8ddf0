"""Which Linux runs, for tests of what a release brought that no probe asks for."""

from __future__ import annotations

import os
import re

__all__ = ["kernel_release"]


def kernel_release() -> tuple[int, int]:
    """(6, 18) for "6.18.44-amd64"."""
    major, minor = map(int, re.findall(r"\d+", os.uname().release)[:2])
    return major, minor
