"""Facts about a kernel in a file, so that programs compile the same everywhere."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from pyebpf.target import RecordedTarget, Recorder

if TYPE_CHECKING:
    from pyebpf.dsl.module import Module
    from pyebpf.target import Target

__all__ = ["record", "recorded"]


def record(*modules: Module, target: Target | None = None) -> str:
    """Compile modules for this machine (or for `target`) and return, as JSON, every fact that they asked for.

    Needs what compiling needs: BTF for kernel types, tracefs for tracepoints. Loads nothing.
    """
    if target is not None:
        recorder = Recorder(target)
        for module in modules:
            module.compile(recorder)
        return recorder.to_json()
    from pyebpf.runtime.loaded import Loaded

    with Loaded() as loaded:
        return record(*modules, target=loaded.target())


def recorded(path: str | Path) -> RecordedTarget:
    """The facts in a file that `record` wrote. Raises MalformedData, OSError."""
    return RecordedTarget.from_json(Path(path).read_text(encoding="utf-8"))
