"""Programs and libraries for this processor, from C written in a test."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

from tests.support.needs import needs

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["build_native"]


def build_native(source: str, target: Path, *options: str) -> Path:
    """Compile C to `target` with debug information; skips where no C compiler is installed."""
    needs("command:gcc")
    path = target.with_suffix(".c")
    path.write_text(source)
    # Frame pointers: what the kernel follows when it walks a stack in user space.
    command = [
        "gcc",
        "-O1",
        "-g",
        "-fno-omit-frame-pointer",
        "-mno-omit-leaf-frame-pointer",
        *options,
        "-o",
        str(target),
        str(path),
    ]
    subprocess.run(command, check=True, capture_output=True, timeout=600)  # emulated, that takes a minute
    return target
