"""`pyebpf -e PROGRAM` and `pyebpf run FILE.bt`: scripts in bpftrace's language."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from pyebpf.cli.report import FAILED, UsageError, describe, note, read_input
from pyebpf.cli.signals import until_signal
from pyebpf.errors import PyebpfError
from pyebpf.output.escape import visible
from pyebpf.output.sink import Sink

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyebpf.script import Script

HELP = """\
usage: pyebpf -e 'PROGRAM' [options] [arguments]
       pyebpf run [options] FILE.bt [arguments]

Runs a script in bpftrace's language until it calls exit(), or Ctrl-C; then
prints its maps. The arguments are its $1, $2 and so on.

options:
  -p PID     probes at functions of processes, samples and events of this
             process only
  -d         print the bytecode, load nothing
  -v         list the attachments, and why they were chosen
  --unsafe   allow system() and signal(), which do more than look
  -h         this help
"""
#: Options of the command that stand before the script's arguments.
_FLAGS = {"-d": "dump", "-v": "verbose", "--unsafe": "unsafe"}


def run_text(arguments: list[str]) -> int:
    """Run `pyebpf -e`: the script is an argument."""
    if not arguments:
        raise UsageError("pyebpf -e", "give a script: -e 'BEGIN { printf(\"hello\\n\"); }'", "pyebpf -e --help")
    if arguments[0] in ("-h", "--help"):
        Sink.of(sys.stdout).write(HELP)
        return 0
    return _run(arguments[0], "<script>", arguments[1:], "pyebpf -e")


def is_script(arguments: list[str]) -> bool:
    """Whether `pyebpf run` was given a script of bpftrace's: its first argument that is no option."""
    rest, _ = _options(arguments, "pyebpf run")
    return bool(rest) and rest[0].endswith(".bt")


def run_file(arguments: list[str]) -> int:
    """Run `pyebpf run FILE.bt`."""
    rest, _ = _options(arguments, "pyebpf run")
    options = arguments[: len(arguments) - len(rest)]
    data, shown = read_input(rest[0])
    return _run(data.decode("utf-8", "surrogateescape"), shown, [*options, *rest[1:]], "pyebpf run")


def _options(arguments: list[str], program: str) -> tuple[list[str], dict[str, object]]:
    """The arguments behind the options, and the options."""
    given: dict[str, object] = {}
    rest = list(arguments)
    while rest and rest[0].startswith("-") and rest[0] != "-":
        option = rest.pop(0)
        if option == "--":
            break
        if option in _FLAGS:
            given[_FLAGS[option]] = True
        elif option == "-p":
            if not rest or not rest[0].isdecimal():
                raise UsageError(program, "-p takes the number of a process", "pyebpf -e --help")
            given["pid"] = int(rest.pop(0))
        elif option in ("-h", "--help"):
            given["help"] = True
        else:
            return arguments, given
    return rest, given


def _run(text: str, file: str, arguments: list[str], program: str) -> int:
    rest, given = _options(arguments, program)
    if given.get("help"):
        Sink.of(sys.stdout).write(HELP)
        return 0
    if rest and rest[0].startswith("-") and len(rest[0]) > 1 and not rest[0][1:].isdecimal():
        raise UsageError(
            program, f"unknown option {rest[0]}: -- stands before arguments that begin so", "pyebpf -e --help"
        )
    from pyebpf.script import Script

    pid = given.get("pid")
    try:
        script = Script(
            text, rest, file=file, pid=pid if isinstance(pid, int) else None, unsafe=bool(given.get("unsafe"))
        )
        for line in script.kernel_changes():
            note("\n".join(map(visible, line.split("\n"))))
        if given.get("dump"):
            return dump(script)
        return print_output(script, verbose=bool(given.get("verbose")))
    except PyebpfError as error:
        note(f"{program}: {describe(error)}")
        return FAILED


def dump(script: Script) -> int:
    """Print the bytecode of a script."""
    from pyebpf.asm import listing

    sink = Sink.of(sys.stdout)
    for each in script.specs().programs:
        sink.line(f"{each.name}: {each.attach}")
        sink.line(listing(each.code.instructions))
    return 0


def tell_attached(script: Script, count: int, *, verbose: bool) -> None:
    """Say that a script traces, and what it could not do."""
    if verbose:
        for line in script.attachments:
            note(line)
    for line in script.warnings:
        note(line)
    note(f"Tracing {count} probe{'s' if count != 1 else ''}... Hit Ctrl-C to end")


def print_output(script: Script, *, verbose: bool) -> int:
    """Run a script and print what it prints; its status."""
    sink = text_sink()
    with until_signal() as stop:
        for text in script.output(stop.is_set, attached=lambda count: tell_attached(script, count, verbose=verbose)):
            sink.write(text)
    tell_dropped(script.last_dropped)
    return script.status


def tell_dropped(dropped: Mapping[str, int]) -> None:
    """Say what was dropped, by reason."""
    for reason, count in dropped.items():
        note(f"dropped: {count} ({reason})")


def text_sink() -> Sink:
    """Standard output, for text with the bytes of processes in it, as bpftrace prints them."""
    sys.stdout.reconfigure(errors="surrogateescape")  # type: ignore[union-attr]  # the process's own
    return Sink(sys.stdout)
