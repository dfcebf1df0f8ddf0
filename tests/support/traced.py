"""Programs and a library to trace, built from traced.c: what they call, and how often, is told line by line."""

from __future__ import annotations

import subprocess
import tempfile
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Self

import pytest

from tests.support.native import build_native

if TYPE_CHECKING:
    from types import TracebackType

__all__ = ["Traced", "binary"]

_SOURCE = Path(__file__).with_suffix(".c")
_KINDS = {
    "pie": ("-pie", "-fPIE"),
    "static": ("-static", "-no-pie", "-DSTATIC"),
    "library": ("-shared", "-fPIC", "-DLIBRARY"),
}
_folders: list[tempfile.TemporaryDirectory[str]] = []  # removed when the tests end


@cache
def binary(kind: str) -> str:
    """The path of the program ("pie", "static") or of the library ("library"). Skips without gcc."""
    if not _folders:
        _folders.append(tempfile.TemporaryDirectory(prefix="traced-"))
    folder = Path(_folders[0].name)
    options = list(_KINDS[kind])
    if kind == "library":
        versions = folder / "versions"
        versions.write_text("V1 { }; V2 { } V1;\n")
        options.append(f"-Wl,--version-script={versions}")
    target = folder / ("libtraced.so.1" if kind == "library" else f"traced-{kind}")
    return str(build_native(_SOURCE.read_text(), target, *options))


class Traced:
    """A running program; it is there, and has done nothing, once this is made."""

    def __init__(self, *command: str) -> None:
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self._answer("ready")

    @property
    def pid(self) -> int:
        return self.process.pid

    def tell(self, line: str) -> None:
        """Have it do something, and return when that is done."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{line}\n")
        self.process.stdin.flush()
        self._answer("done")

    def _answer(self, word: str) -> None:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if line.strip() != word:
            pytest.fail(f"the traced program said {line!r}, status {self.process.poll()}")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.process.kill()
        self.process.communicate(timeout=60)
