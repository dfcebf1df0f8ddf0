"""Programs in C with debugging information, and what a script prints while one runs."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

from pyebpf.script import Script
from tests.support.needs import needs

if TYPE_CHECKING:
    from pathlib import Path


def compiled(path: Path, text: str, *options: str) -> Path:
    """A program in C with debugging information."""
    needs("command:gcc")
    path.with_suffix(".c").write_text(text)
    subprocess.run(["gcc", "-g", "-w", *options, "-o", path, path.with_suffix(".c")], check=True)
    return path


def printed_by(script: str, program: Path) -> str:
    """What a script prints while a program runs."""
    ran: list[int] = []
    return "".join(
        Script(script).output(
            lambda: bool(ran), attached=lambda _: ran.append(subprocess.run([program], check=True).returncode)
        )
    ).strip("\n")
