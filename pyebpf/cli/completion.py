"""`pyebpf completion SHELL`: a script that completes commands, tools, options and attach points in a shell."""

from __future__ import annotations

import re
import sys
from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple

from pyebpf.cli.report import UsageError
from pyebpf.errors import PyebpfError, closest
from pyebpf.output.sink import Sink

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Mapping, Sequence

    from pyebpf.cli.bytecode import Parser
    from pyebpf.tool import AnyTool

DESCRIPTION = """\
Prints a script for a shell, with which Tab completes commands, tools, their
options, and attach points after `pyebpf list` and `pyebpf -l`. It has this
version's tools and options in it: write it to a file again after an update.

  $ pyebpf completion bash > /etc/bash_completion.d/pyebpf
  $ pyebpf completion zsh > /usr/local/share/zsh/site-functions/_pyebpf
  $ pyebpf completion fish > /etc/fish/completions/pyebpf.fish

`pyebpf completion probes WORD` prints the attach points, or their beginnings,
that WORD may become, as `pyebpf list` has them, and script-probes as
`pyebpf -l` has them: the script asks that."""

SHELLS = ("bash", "zsh", "fish")
#: What is asked for attach points as `pyebpf list` names them, and as `pyebpf -l` does.
PROBES, SCRIPT_PROBES = "probes", "script-probes"

#: What an operand or the value of an option is: a file, one of the tools, … in place of a list of words.
FILE, TOOL, PROBE, COMMAND, ANY = "@file", "@tool", "@probe", "@command", "@any"
#: An attach point as `pyebpf -l` names it; a program in PATH.
SCRIPT_PROBE, PROGRAM = "@script-probe", "@program"
#: Operands that are files by the name that their help has for them.
_FILES = {"FILE", "PATH", "PATH|ID"}
#: Words that mean nothing to a shell; others have to be typed.
_WORD = re.compile(r"[\w.:/@+,%=-]+", re.ASCII)


class Option(NamedTuple):
    """An option: its flags, its help, and the words that its value may be (FILE and the like); none without a value."""

    flags: tuple[str, ...]
    help: str
    words: tuple[str, ...]


class Command(NamedTuple):
    """A command or a tool: a line on it, its options, and the words that its operand may be."""

    summary: str
    options: tuple[Option, ...]
    words: tuple[str, ...]


#: A line on each command that is no tool, and its operand.
_COMMANDS = {
    "list": ("name the tools, or the attach points that match", PROBE),
    "schema": ("print the JSON Schema of a tool's output", TOOL),
    "doctor": ("say what this machine supports", TOOL),
    "run": ("run a program or a tool of one's own, or a script of bpftrace's", FILE),
    "argdist": ("count values by bcc's specifications",),
    "trace": ("print events by bcc's specifications",),
    "show": ("print a recording", FILE),
    "live": ("show what a tool sees, in a browser", TOOL),
    "flamegraph": ("draw folded stacks, or compare two", FILE),
    "asm": ("assemble eBPF", FILE),
    "disasm": ("list a program's instructions", FILE),
    "map": ("print a loaded map as JSON", FILE),
    "exec": ("run a program of eBPF", FILE),
    "completion": ("print a script for a shell's completion", *SHELLS),
    "help": ("describe a command or a tool", COMMAND),
}
_HELP = Option(("-h", "--help"), "show this help message and exit", ())


def parser() -> Parser:
    """Declare the operands."""
    from pyebpf.cli.bytecode import Parser

    made = Parser("completion", DESCRIPTION)
    made.add_argument("shell", metavar="SHELL", help=f"{', '.join(SHELLS)}; or `{PROBES}`, `{SCRIPT_PROBES}`")
    made.add_argument("word", metavar="WORD", nargs="?", help=f"after `{PROBES}`: the beginning of an attach point")
    return made


def run_completion(arguments: Sequence[str]) -> int:
    """Print a script, or attach points. Raises UsageError."""
    sink = Sink.of(sys.stdout)
    if len(arguments) == 2 and arguments[0] in (PROBES, SCRIPT_PROBES):
        # Before anything else is imported: somebody waits who has pressed Tab.
        from pyebpf.cli.completion_probes import candidates, script_candidates

        find = candidates if arguments[0] == PROBES else script_candidates
        sink.write("".join(f"{each}\n" for each in find(arguments[1])))
        return 0
    made = parser()
    options = made.parse_args(arguments)
    if options.shell in (PROBES, SCRIPT_PROBES):
        made.error("give the beginning of an attach point, perhaps ''")
    if options.word is not None:
        made.error(f"unexpected argument {options.word!r}")
    if options.shell not in SHELLS:
        hint = closest(options.shell, (*SHELLS, PROBES)) or f": give one of {', '.join(SHELLS)}"
        raise UsageError(made.prog, f"there is no script for {options.shell!r}{hint}")
    from pyebpf.cli.completion_scripts import WRITERS

    sink.write(WRITERS[options.shell](commands(), tools(), unnamed()))
    return 0


def commands() -> dict[str, Command]:
    """The commands that are no tools."""
    return {
        name: Command(summary, _command_options(name), tuple(words)) for name, (summary, *words) in _COMMANDS.items()
    }


def unnamed() -> dict[str, Command]:
    """Entries for the place of a command: options of scripts, those behind -l, a program of one's own in Python."""
    return {
        "@script": script(),
        "@list": _listing(),
        "@own": Command("run a program or a tool of one's own", (_HELP,), (FILE,)),
    }


def script() -> Command:
    """`pyebpf -e PROGRAM` with its options, which may stand before it, in place of a command."""
    options = (
        Option(("-e",), "run a script of bpftrace's language", (ANY,)),
        Option(("-l", "-lv", "--list"), "list probes as bpftrace does", ()),
        Option(("-V", "--version"), "print the version", ()),
        *_script_options(),
    )
    return Command("run a script of bpftrace's language", options, (FILE,))


def _script_options() -> Iterator[Option]:
    """The options of scripts, before or behind them."""
    from pyebpf.cli.bpftrace_options import FLAGS

    for flag in FLAGS:
        special = PROGRAM if flag.key == "command" else FILE if flag.value in _FILES else ANY
        yield Option(flag.names, flag.help, flag.choices or ((special,) if flag.value else ()))


def _listing() -> Command:
    """`pyebpf -l`."""
    options = (
        Option(("-v", "--verbose"), "print what probes are given there", ()),
        Option(("-p", "--pid"), "files as this process sees them", (ANY,)),
        Option(("-e",), "list the probes of a script", (ANY,)),
        _HELP,
    )
    return Command("list probes as bpftrace does", options, (SCRIPT_PROBE,))


def _command_options(name: str) -> tuple[Option, ...]:
    from pyebpf.cli import COMMANDS

    if name == "exec":
        from pyebpf.cli.exec import KERNEL

        return (_HELP, Option((KERNEL,), "in this kernel, instead of the interpreter", ()))
    if name == "run":
        return tuple(_script_options())
    if name == "list":
        from pyebpf.cli.attach_points import parser as of_list

        return tuple(_options(of_list(), {}))
    declare = getattr(import_module(f"pyebpf.cli.{COMMANDS[name][0]}"), "parser", None) if name in COMMANDS else None
    return (_HELP,) if declare is None else tuple(_options(declare(), {}))


def tools() -> dict[str, Command]:
    """All tools by name, with those of other distributions that can be imported."""
    from pyebpf.cli.catalogue import ALIASES, find, names, other_names, spelt_out

    found = {name: _tool(find(name)) for name in names()}
    for name in filter(_WORD.fullmatch, other_names()):
        try:
            found[name] = _tool(find(name))
        except (UsageError, PyebpfError):
            continue  # `pyebpf list` says what is wrong with it
    found |= {name: found[spelt_out(name, [])[0]] for name in ALIASES}
    return dict(sorted(found.items()))


def _tool(tool: AnyTool) -> Command:
    from pyebpf.cli.parser import build_parser
    from pyebpf.dataclass import fields

    specs = [item.metadata["spec"] for item in fields(tool.options) if "spec" in item.metadata]
    choices = {flag: spec.choices for spec in specs for flag in spec.flags if spec.choices}
    words = next((spec.choices for spec in specs if not spec.flags), ())
    made = build_parser(tool)
    for action, text in made.late:
        action.help = text()
    return Command(tool.summary, tuple(_options(made, choices)), tuple(filter(_WORD.fullmatch, words)))


def _options(declared: argparse.ArgumentParser, choices: Mapping[str, Sequence[str]]) -> Iterator[Option]:
    """The options of a parser. `choices` are those that it does not know itself, by flag."""
    from argparse import SUPPRESS

    for action in declared._actions:
        if not action.option_strings or action.help == SUPPRESS:  # those are refused, with what to write instead
            continue
        words: tuple[str, ...] = ()
        if action.nargs != 0:
            known = action.choices or choices.get(action.option_strings[0], ())
            words = tuple(filter(_WORD.fullmatch, known)) or ((FILE,) if action.metavar in _FILES else (ANY,))
        yield Option(tuple(action.option_strings), (action.help or "").replace("%%", "%"), words)
