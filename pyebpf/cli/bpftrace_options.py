"""Options of `pyebpf -e` and `pyebpf run FILE.bt`: bpftrace's, by their short and long names."""

from __future__ import annotations

from textwrap import wrap
from typing import TYPE_CHECKING, Any, NamedTuple

from pyebpf.cli.report import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

SEE = "pyebpf -e --help"


class Flag(NamedTuple):
    """An option: its names, the name of its value ("" without one), its key, its help, what its value may be."""

    names: tuple[str, ...]
    value: str
    key: str
    help: str
    choices: tuple[str, ...] = ()


FLAGS = (
    Flag(("-p", "--pid"), "PID", "pid", "events of this process only"),
    Flag(
        ("-c", "--cmd"),
        "COMMAND",
        "command",
        "run a command once all is attached, and end with it; its process is the script's cpid, and uprobes, usdt and "
        "watchpoints are in it",
    ),
    Flag(("-o", "--output"), "FILE", "output", "write the output to a file"),
    Flag(("-f",), "FORMAT", "format", "text, or json: an object a line", ("text", "json")),
    Flag(
        ("-B",),
        "MODE",
        "buffering",
        "when output is written: line (as it comes), full (at the end, or in pieces of 64 KiB), none (as line)",
        ("line", "full", "none"),
    ),
    Flag(("--probe-filter",), "REGEX", "only", "have only those attach points whose names REGEX finds"),
    Flag(
        ("--mode",), "bench", "mode", "attach nothing: run the bench probes, and print how long each takes", ("bench",)
    ),
    Flag(("-q", "--quiet"), "", "quiet", "do not say that it traces"),
    Flag(("-d",), "", "dump", "print the bytecode, load nothing"),
    Flag(("-v", "--verbose"), "", "verbose", "list the attachments, and why they were chosen"),
    Flag(("--dry-run",), "", "dry", "attach, and end at once"),
    Flag(("--no-warnings",), "", "unwarned", "print nothing for warnf()"),
    Flag(("-k", "--warnings"), "", "checks_lookups", "warn where a probe reads an entry of a map that is missing"),
    Flag(
        ("--unsafe",),
        "",
        "unsafe",
        "allow what does more than look: system(), signal(), write_user() and override(), and kprobes at addresses",
    ),
    Flag(("-h", "--help"), "", "help", "this help"),
)
_BY_NAME = {name: flag for flag in FLAGS for name in flag.names}
#: Options of one letter: whether each has a value.
_LETTERS = {name: bool(flag.value) for name, flag in _BY_NAME.items() if len(name) == 2} | {
    "-e": True,
    "-I": True,
    "-l": False,
}
_BESIDE = '#include "FILE" finds files beside the script, and by their paths'
_NO_LLVM = "there is no LLVM here: -d prints the bytecode"
#: What bpftrace's -d takes.
STAGES = ("all", "ast", "types", "codegen", "codegen-opt", "libbpf", "verifier", "parse", "dis")
#: Options of bpftrace's that are not here, and what there is instead.
INSTEAD = {
    "-I": _BESIDE,
    "--include": _BESIDE,
    "--info": "pyebpf doctor says what this machine supports",
    "--debug": "-d prints the bytecode, and takes no stage",
    "--bench": "write --mode bench",
    "--test": "--mode has bench only",
    "--fmt": "scripts are not formatted here",
    "--dwarf-pid": "dw_ustack() finds the programs by itself",
    "--debuginfo": "debug files are found by their build id, and beside their programs",
    "--usdt-file-activation": "the kernel sets the semaphores of all processes that have the probe",
    "--traceable-functions": "the kernel's own list is read",
    "--no-feature": "pyebpf doctor says what this machine supports, and -v what was chosen",
    "--emit-elf": _NO_LLVM,
    "--emit-llvm": _NO_LLVM,
    "--verify-llvm-ir": _NO_LLVM,
}
#: Modes of bpftrace's that are not here.
_MODES = {
    "format": INSTEAD["--fmt"],
    "test": "test: probes are not supported",
    "codegen": _NO_LLVM,
    "compiler-bench": _NO_LLVM,
}


def _help_of(flag: Flag) -> str:
    names = f"  {', '.join(flag.names)}{f' {flag.value}' if flag.value else ''}"
    first, *others = wrap(flag.help, 62)
    lines = [f"{names:<17}{first}"] if len(names) < 17 else [names, f"{'':17}{first}"]
    return "".join(f"{line}\n" for line in [*lines, *(f"{'':17}{line}" for line in others)])


HELP = f"""\
usage: pyebpf -e 'PROGRAM' [options] [arguments]
       pyebpf run [options] FILE.bt [arguments]
       pyebpf [options] - [arguments]

Runs a script in bpftrace's language, - for one on standard input, until it
calls exit(), or Ctrl-C; then prints its maps. The arguments are its $1, $2 and
so on; options may stand among them. Behind -- all are arguments: those that
begin with --, as --name=value, are what getopt("name", 0) gives.

options:
{"".join(map(_help_of, FLAGS))}"""


def is_option(word: str) -> bool:
    """Whether a word is an option: `-` is standard input, and `-5` an argument."""
    return len(word) > 1 and word[0] == "-" and not word[1:].isdecimal()


def apart(arguments: Sequence[str]) -> list[str]:
    """The arguments with options of one letter apart, as getopt(3) takes them: `-qe PROGRAM`, `-p123`."""
    found: list[str] = []
    left = list(arguments)
    while left:
        word = left.pop(0)
        first = word[:2]
        if word == "--":
            return [*found, word, *left]
        if len(word) > 2 and first in _LETTERS:
            left.insert(0, word[2:] if _LETTERS[first] else f"-{word[2:]}")
            word = first
        found.append(word)
        if _LETTERS.get(word) and left:
            found.append(left.pop(0))
    return found


def check_known(option: str, program: str) -> None:
    """Raise UsageError for an option of bpftrace's that is not here, or not among others, with what is."""
    name = option.partition("=")[0]
    if name in ("-V", "--version"):
        raise UsageError(program, f"{name} stands alone: write pyebpf --version", SEE)
    if name in INSTEAD:
        raise UsageError(program, f"{name} is bpftrace's and not here: {INSTEAD[name]}", SEE)


def split_options(arguments: list[str], program: str) -> tuple[list[str], dict[str, Any]]:
    """The arguments behind the first options, and these options by their keys. Raises UsageError.

    An option that there is not ends them: it may be of another kind of file.
    """
    given: dict[str, Any] = {}
    rest = list(arguments)
    while rest and is_option(rest[0]):
        if rest[0] == "--":
            rest.pop(0)
            break
        if not _take(rest, given, program):
            break
    return rest, given


def all_options(arguments: list[str], program: str) -> tuple[list[str], dict[str, Any]]:
    """The script's own arguments, and the options, which may stand among them and end at `--`. Raises UsageError."""
    given: dict[str, Any] = {}
    rest, own = list(arguments), []
    while rest and rest[0] != "--":
        if not is_option(rest[0]):
            own.append(rest.pop(0))
        elif not _take(rest, given, program):
            raise UsageError(program, f"unknown option {rest[0]}: -- stands before arguments that begin so", SEE)
    if "pid" in given and "command" in given:
        raise UsageError(program, "-p and -c: give one of them; with -c it is the command's process", SEE)
    return own + rest[1:], given


def _take(rest: list[str], given: dict[str, Any], program: str) -> bool:
    """Take the first option off, with its value; False if there is none of this name."""
    name, equals, value = rest[0].partition("=") if rest[0].startswith("--") else (rest[0], "", "")
    flag = _BY_NAME.get(name)
    if flag is None or (equals and not flag.value):
        check_known(name, program)
        return False
    rest.pop(0)
    if equals:
        rest.insert(0, value)
    if flag.key == "dump" and rest and rest[0] in STAGES:
        raise UsageError(program, f"-d {rest[0]}: -d prints the bytecode, and takes no stage: leave out {rest[0]}", SEE)
    given[flag.key] = _value(flag, name, rest, program) if flag.value else True
    return True


def _value(flag: Flag, name: str, rest: list[str], program: str) -> str | int:
    """The value of an option, which is taken off the arguments."""
    if flag.key == "pid":
        if not rest or not rest[0].isdecimal():
            raise UsageError(program, f"{name} takes the number of a process", SEE)
        number = rest.pop(0)
        from pathlib import Path  # four milliseconds, with what it imports, of every start

        if not Path(f"/proc/{number}").exists():
            raise UsageError(program, f"{name} {number}: there is no such process", SEE)
        return int(number)
    choices = flag.choices
    if flag.key == "mode" and rest and rest[0] in _MODES:
        mode = rest[0]
        raise UsageError(program, f"{name} {mode} is bpftrace's and not here, {name} bench is: {_MODES[mode]}", SEE)
    if not rest or (choices and rest[0] not in choices):
        what = " or ".join([*filter(None, [", ".join(choices[:-1])]), choices[-1]]) if choices else "a value"
        raise UsageError(program, f"{name} takes {what}", SEE)
    return rest.pop(0)
