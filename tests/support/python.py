"""Python as a process of its own; in emulated machines it may be a fork of the tests' process, which has started.

There the imports of a command take two seconds and more, most of what its test takes. Where the environment variable
FORKED is set, a Python that asks for nothing but a module or text to run, files and a folder is a fork that goes on as
that. What it finds otherwise than a new one are modules that were imported before, and what these keep.
"""

from __future__ import annotations

import atexit
import gc
import os
import runpy
import signal
import subprocess
import sys
import traceback
import types
import warnings
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from tests.support.waiting import PATIENCE

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

FORKED = "PYEBPF_FORKED"
ROOT = Path(__file__).resolve().parents[2]
#: For scripts that import this checkout's package from any folder.
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}
_PLAIN = {"stdin", "stdout", "stderr", "cwd", "text", "env"}
_FIRST = 3  # descriptor after standard input, output and error


def python(*arguments: str | Path, prefix: Sequence[str] = (), **options: Any) -> subprocess.Popen[Any]:
    """`PREFIX python ARGUMENTS` as subprocess.Popen() starts it; `prefix` is a command that runs it."""
    words = [str(each) for each in arguments]
    plain = not prefix and options.keys() <= _PLAIN and options.get("env", ENVIRONMENT) is ENVIRONMENT
    become = _become(words) if FORKED in os.environ and plain else None
    command = [*prefix, sys.executable, *words]
    return subprocess.Popen(command, preexec_fn=become, **options)  # noqa: PLW1509 - only where asked for


def finished(*arguments: str | Path, **options: Any) -> subprocess.CompletedProcess[str]:
    """`python ARGUMENTS`, run to its end: its status, output and errors; `input` and `timeout` as run() has them."""
    given, limit = options.pop("input", None), options.pop("timeout", PATIENCE)
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "cwd": ROOT}
    if given is not None:
        pipes["stdin"] = subprocess.PIPE
    with python(*arguments, **{**pipes, **options}) as process:
        try:
            out, err = process.communicate(given, timeout=limit)
        except BaseException:
            process.kill()
            raise
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


def _become(words: list[str]) -> Callable[[], None]:
    """What the child does between fork(2) and execve(2), to which it does not come: run, and end."""

    def run() -> None:
        # What the tests hold is never freed here, where a number of theirs may be another file's by then.
        gc.freeze()
        os.closerange(_FIRST, os.sysconf("SC_OPEN_MAX"))  # the last tells Popen() that execve(2) was done
        status = 1
        try:
            status = _run(words)
        finally:
            os._exit(status)

    return run


def _run(words: list[str]) -> int:
    """Run it as a new interpreter would; its exit status."""
    for name in [name for name in sys.modules if name.startswith("pyebpf.programs.")]:
        del sys.modules[name]  # a tool's module holds the maps that a test opened
    warnings.resetwarnings()
    warnings.simplefilter("default")
    atexit._clear()
    sys.orig_argv = [sys.executable, *words]
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    sys.stdin = open(0, encoding="utf-8", errors="surrogateescape")  # noqa: SIM115 - until the end
    sys.stdout, sys.stderr = _stream(1, "surrogateescape"), _stream(2, "backslashreplace")
    status = _status_of(words)
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            status = status or 1
    return status


def _stream(number: int, errors: str) -> IO[str]:
    return open(number, "w", buffering=1, encoding="utf-8", errors=errors)  # as PYTHONUNBUFFERED has it in machines


def _status_of(words: list[str]) -> int:
    try:
        _body(words)
    except SystemExit as end:
        if end.code is None or isinstance(end.code, int):
            return end.code or 0
        sys.stderr.write(f"{end.code}\n")
        return 1
    except BaseException:  # noqa: BLE001 - as an interpreter does
        traceback.print_exc()
        return 1
    return 0


def _body(words: list[str]) -> None:
    first, *rest = words[1:] if words[0] == "-u" else words  # it never waits to write
    if first == "-m":
        sys.argv = rest
        runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
    elif first == "-c":
        sys.argv = ["-c", *rest[1:]]
        main = types.ModuleType("__main__")
        sys.modules["__main__"] = main
        exec(compile(rest[0], "<string>", "exec"), main.__dict__)
    else:
        sys.argv = [first, *rest]
        sys.path.insert(0, str(Path(first).parent))
        runpy.run_path(first, run_name="__main__")
