"""`pyebpf run FILE`: a Python script whose source the compiler of probes can read, wherever it came from.

A file that ends with `.bt` is a script of bpftrace's language instead (`pyebpf.cli.bpftrace`).
"""

from __future__ import annotations

import linecache
import sys
from io import TextIOWrapper
from pathlib import Path
from types import CodeType, ModuleType
from typing import TYPE_CHECKING

from pyebpf.cli.report import FAILED, UsageError, describe, note, read_input
from pyebpf.errors import CompileError, PyebpfError, VerifierError
from pyebpf.output.escape import visible
from pyebpf.output.sink import ReaderGone, Sink
from pyebpf.tracebacks import hide_own_frames

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyebpf.tool import AnyTool

HELP = """\
usage: pyebpf run FILE [arguments]

Runs a Python script as __main__, with the arguments in sys.argv. FILE may be -
for standard input, whose source probes can be compiled from, too. A script that
defines TOOL is run as that tool: `pyebpf run FILE --help` tells what it takes.
A file that ends with .bt is a script of bpftrace's (pyebpf -e --help), which
`pyebpf -` reads from standard input.
"""


def run_script(arguments: list[str], run: Callable[[AnyTool, list[str]], int] | None = None) -> int:
    """Run a script; the exit status is its own, or 1 if an exception ended it.

    `run` runs the tool that it defines; a script without one is then refused.
    """
    if not arguments:
        raise UsageError("pyebpf run", "name a file")
    if any(each.endswith(".bt") for each in arguments):
        from pyebpf.cli import bpftrace
        from pyebpf.cli.bpftrace_options import apart

        words = apart(arguments)
        if bpftrace.is_script(words):
            return bpftrace.run_file(words)
    name = arguments[0]
    if name in {"-h", "--help"}:
        Sink.of(sys.stdout).write(HELP)
        return 0
    if name.startswith("-") and name != "-":
        raise UsageError("pyebpf run", f"unknown option {name}")
    data, shown = read_input(name)
    if not data.strip():
        note(f"pyebpf run: {shown} is empty: give a program in Python, or a script of bpftrace's in a file FILE.bt")
        return FAILED
    try:
        source = _decoded(data)
        code = compile(source, shown, "exec", dont_inherit=True)
    except (SyntaxError, ValueError) as error:
        line = f":{error.lineno}" if isinstance(error, SyntaxError) and error.lineno else ""
        message = error.msg if isinstance(error, SyntaxError) else str(error)
        note(f"pyebpf run: {shown}{line}: {message}")
        if name == "-":
            note("pyebpf run: - is a program in Python; `pyebpf -` reads a script of bpftrace's language")
        return FAILED
    # No modification time: what runs is what was read here, whatever happens to the file meanwhile.
    linecache.cache[shown] = (len(source), None, source.splitlines(keepends=True), shown)
    sys.argv = [name, *arguments[1:]]
    if name != "-":
        sys.path.insert(0, str(Path(name).resolve().parent))
    module = ModuleType("__main__")
    module.__file__ = shown
    sys.modules["__main__"] = module
    status = _run(code, module, shown)
    tool = getattr(module, "TOOL", None)
    if status or (tool is None and run is None):
        return status
    if tool is None:
        raise UsageError("pyebpf", f"{shown} defines no TOOL", "pyebpf live --help")
    return _run_as_tool(tool, arguments[1:], shown, run)


def _run_as_tool(
    tool: object, arguments: list[str], shown: str, run: Callable[[AnyTool, list[str]], int] | None
) -> int:
    from pyebpf.cli.parser import CALLED
    from pyebpf.cli.run import run_tool
    from pyebpf.tool import Tool

    if not isinstance(tool, Tool):
        raise UsageError(
            "pyebpf run", f"{shown}: TOOL is {tool!r}, and must be a tool of pyebpf.tool, or have another name"
        )
    if run is None:
        CALLED[tool.name] = f"pyebpf run {shown}"
    return (run or run_tool)(tool, arguments)


def _decoded(data: bytes) -> str:
    """Python source as text: its coding line or UTF-8, universal newlines."""
    from io import BytesIO
    from tokenize import detect_encoding

    encoding, _ = detect_encoding(BytesIO(data).readline)
    with TextIOWrapper(BytesIO(data), encoding) as text:
        return text.read()


def _run(code: CodeType, module: ModuleType, shown: str) -> int:
    try:
        exec(code, module.__dict__)  # noqa: S102 - running a script is what was asked for
    except (SystemExit, KeyboardInterrupt, ReaderGone, BrokenPipeError):
        raise
    except PyebpfError as error:
        if error.probe and error.location is not None:
            place = f"{visible(str(error.location))}: "
        else:
            place = "" if isinstance(error, CompileError | VerifierError) and error.location else _place(error, shown)
        note(f"pyebpf run: {place}{describe(error)}")
        return FAILED
    except BaseException as error:  # noqa: BLE001 - the script's own mistake: its author wants to see its frames
        from traceback import print_exception

        hide_own_frames(error)
        print_exception(error)
        return FAILED
    return 0


def _place(error: BaseException, shown: str) -> str:
    """`FILE:LINE: ` of the script's innermost frame that the error went through."""
    line, traceback = 0, error.__traceback__
    while traceback is not None:
        if traceback.tb_frame.f_code.co_filename == shown:
            line = traceback.tb_lineno
        traceback = traceback.tb_next
    return f"{shown}:{line}: " if line else ""
