"""Facts about a kernel in a file, so that programs compile the same everywhere."""

from __future__ import annotations

from pathlib import Path

from pyebpf.dsl.module import Module
from pyebpf.errors import check_argument
from pyebpf.target import RecordedTarget, Recorder, Target


def record(*modules: Module, target: Target | None = None) -> str:
    """Compile modules for this machine (or for `target`) and return, as JSON, every fact that they asked for.

    Needs what compiling needs: BTF for kernel types, tracefs for tracepoints. Loads nothing.
    """
    for each in modules:
        check_argument("modules", each, Module, "a BPF or a Module")
    if target is not None:
        check_argument("target", target, Target, "a target")
        recorder = Recorder(target)
        for module in modules:
            module.compile(recorder)
        return recorder.to_json()
    from pyebpf.runtime.loaded import Loaded

    with Loaded() as loaded:
        return record(*modules, target=loaded.target())


def recorded(path: str | Path) -> RecordedTarget:
    """The facts in a file that `record` wrote. Raises MalformedData, OSError."""
    check_argument("path", path, (str, Path), "the path of a file")
    return RecordedTarget.from_json(Path(path).read_text(encoding="utf-8"))
