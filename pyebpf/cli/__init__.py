"""The command `pyebpf`. This file only picks what to run, and imports no more than that needs."""

from __future__ import annotations

import gc
import sys
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["main"]

USAGE = """\
usage: pyebpf TOOL [options] [interval [count]]
       pyebpf list [-v] [--json] [PATTERN ...]
       pyebpf schema TOOL|FILE.py [options]
       pyebpf show FILE [options]
       pyebpf live [--port N] TOOL|FILE.py [options]
       pyebpf doctor [--all | TOOL|FILE.py [options] | --clean]
       pyebpf run FILE [arguments]
       pyebpf -e 'PROGRAM' [options] [arguments]
       pyebpf [options] -
       pyebpf -l [-v] [PATTERN | -e 'PROGRAM' | FILE.bt]
       pyebpf argdist -H|-C SPEC [interval [count]]
       pyebpf trace SPEC
       pyebpf asm FILE|-
       pyebpf disasm FILE|- [SECTION] | id NUMBER
       pyebpf map PATH | id NUMBER
       pyebpf exec [--kernel] FILE|- [MEMORY]
       pyebpf completion bash|zsh|fish
       pyebpf flamegraph [FILE [FILE]] [-o FILE]
       pyebpf help [COMMAND|TOOL]
       pyebpf --version

Traces this machine with eBPF programs written in Python, or in bpftrace's
language (-e, - for standard input, and files that end with .bt). `pyebpf list`
names the tools, and with a pattern what probes can be attached to; `pyebpf TOOL
--help` describes a tool, as --help does for each command above. Data goes to
standard output, everything else to standard error.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command with `arguments` (by default those of the process) and return its exit status.

    0 after a run, also one that SIGINT, SIGTERM or a vanished reader ended; 1 after an error; 2 for wrong usage.
    """
    try:
        if arguments is None:
            arguments = sys.argv[1:]
            _end_at_once(arguments)
        from pyebpf.cli.report import guarded

        return guarded(_dispatch, list(arguments))
    except KeyboardInterrupt:
        return 130


def _end_at_once(arguments: Sequence[str]) -> None:
    """Let Ctrl-C end this process as it ends any, until a tool sets a handler of its own: there is nothing to undo.

    Python's KeyboardInterrupt may be raised where nobody can catch it, in a callback while a module is imported.
    Commands that run or attach something without such a handler have it, and who ignores the signal goes on doing so.
    """
    import signal

    is_run = arguments[:1] in (["doctor"], ["exec"], ["run"], ["argdist"], ["trace"])
    options = [each for each in arguments if each.startswith("-")]
    is_script = options[:1] == list(arguments[:1]) and any(each == "-" or "e" in each for each in options)
    wanted = signal.default_int_handler if is_run or is_script else signal.SIG_DFL
    if signal.getsignal(signal.SIGINT) in {signal.default_int_handler, signal.SIG_DFL}:
        signal.signal(signal.SIGINT, wanted)


#: Options that need no others to be read.
_ALONE = frozenset(("--version", "-V", "--help", "-h"))
#: File and function of each command that is no tool, imported when it is given.
COMMANDS = {
    "list": ("catalogue", "print_list"),
    "schema": ("schema", "run_schema"),
    "show": ("show", "run_show"),
    "live": ("live", "run_live"),
    "doctor": ("doctor", "run_doctor"),
    "run": ("script", "run_script"),
    "-e": ("bpftrace", "run_text"),
    **dict.fromkeys(("-l", "--list"), ("bpftrace_list", "run_list")),
    "argdist": ("argdist", "run_argdist"),
    "trace": ("trace", "run_trace"),
    "asm": ("asm", "run_asm"),
    "disasm": ("disasm", "run_disasm"),
    "map": ("map_dump", "run_map"),
    "exec": ("exec", "run_exec"),
    "completion": ("completion", "run_completion"),
    "flamegraph": ("flamegraph", "run_flamegraph"),
}


def _dispatch(arguments: list[str]) -> int:
    from pyebpf.cli.report import UsageError
    from pyebpf.output.sink import Sink

    if arguments and arguments[0].startswith("-") and arguments[0] not in _ALONE:
        from pyebpf.cli.bpftrace_options import apart

        arguments = apart(arguments)
    command, rest = (arguments[0], arguments[1:]) if arguments else ("", [])
    if command in {"--version", "-V"}:
        from pyebpf import __version__

        Sink.of(sys.stdout).line(f"pyebpf {__version__}")
        return 0
    if command == "help" and rest:
        command, rest = rest[0], ["--help"]
    if command in {"--help", "-h", "help"}:
        Sink.of(sys.stdout).write(USAGE)
        return 0
    if command in COMMANDS:
        file, function = COMMANDS[command]
        run: Callable[[list[str]], int] = getattr(import_module(f"pyebpf.cli.{file}"), function)
        return run(rest)
    if not command:
        raise UsageError("pyebpf", "name a tool, or `list` to see them all")
    if command.startswith("-"):
        return _run_as_bpftrace(arguments)
    if command.endswith(".bt"):
        raise UsageError("pyebpf", f"write `pyebpf run {command}`: a script of bpftrace's language is run so")
    # What a start makes stays: looking for garbage in it takes 6 ms. `run_tool` looks again once all is attached.
    gc.disable()
    try:
        from pyebpf.cli.catalogue import find, spelt_out
        from pyebpf.cli.run import run_tool

        command, rest = spelt_out(command, rest)
        return run_tool(find(command), rest)
    finally:
        gc.enable()


def _run_as_bpftrace(arguments: list[str]) -> int:
    """Do what bpftrace does with options that stand before the script: options, then -e PROGRAM, or - for a script."""
    from pyebpf.cli.bpftrace_options import check_known, split_options
    from pyebpf.cli.report import UsageError

    if "-e" in arguments:
        from pyebpf.cli.bpftrace import run_text

        place = arguments.index("-e")
        return run_text([*arguments[place + 1 : place + 2], *arguments[:place], *arguments[place + 2 :]])
    if "-l" in arguments or "--list" in arguments:
        from pyebpf.cli.bpftrace_list import run_list

        return run_list(arguments)
    check_known(arguments[0], "pyebpf")
    rest, _ = split_options(arguments, "pyebpf")
    if rest[:1] == ["-"]:
        from pyebpf.cli.bpftrace import run_file

        return run_file(arguments, "pyebpf -")
    if not rest:
        raise UsageError("pyebpf", f"{arguments[0]} is an option of scripts: give -e PROGRAM, or - for standard input")
    if rest[0].endswith(".bt"):
        raise UsageError(
            "pyebpf", f"write `pyebpf run {' '.join(arguments)}`: a script of bpftrace's language is run so"
        )
    unknown = rest[0] if rest[0].startswith("-") else arguments[0]
    raise UsageError("pyebpf", f"unknown option {unknown}; options of a tool come after its name")
