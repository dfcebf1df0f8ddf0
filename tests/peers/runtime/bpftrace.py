"""The command `bpftrace` of bpftrace's run-time tests: its options given to `pyebpf`, by which it is told apart.

A test knows when the probes are attached by a line that this command writes, and its number from a file. How many there
are it says in bpftrace's words, behind pyebpf's own.
"""

from __future__ import annotations

import os
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

from pyebpf import cli
from pyebpf.cli import bpftrace as command

ATTACHED = "__BPFTRACE_NOTIFY_PROBES_ATTACHED"
#: Their long options that are ours in short; those that have no meaning here; those with a value.
_NAMES = {"--cmd": "-c", "--output": "-o", "--pid": "-p", "--quiet": "-q", "--list": "-l", "--verbose": "-v"}
_DROPPED = {"--verify-llvm-ir"}
_INCLUDE = "--include"  # of C's headers, which pyebpf does not read: it knows what is in them
_WITH_VALUE = {"-c", "-o", "-p", "-f", "-B", "--mode", "--probe-filter"}


def arguments(given: list[str]) -> list[str]:
    """Arguments of `pyebpf` for those of bpftrace."""
    options, words, script = [], [], None
    left = [_NAMES.get(each, each) for each in given if each not in _DROPPED]
    while left:
        each = left.pop(0)
        if each == "-e" and left:
            script = left.pop(0)
        elif each == _INCLUDE and left:
            left.pop(0)
        elif each == "--":
            words += ["--", *left]
            break
        elif each in _WITH_VALUE and left:
            options += [each, left.pop(0)]
        elif each.startswith("-") and len(each) > 1 and not (each[1:].isdecimal() and (script or words)):
            options.append(each)
        else:
            words.append(each)
    if "-l" in options or "-lv" in options:
        rest = ["-v"] if "-v" in options or "-lv" in options else []
        rest += [each for name, each in pairwise([*options, ""]) if name == "-p" for each in (name, each)]
        return ["-l", *rest, *(words if script is None else ["-e", script])]
    if script is not None:
        return ["-e", script, *options, *words]
    if words[:1] == ["-"]:
        return ["-e", sys.stdin.read(), *options, *words[1:]]
    return ["run", *options, *words] if words else options


def main() -> int:
    """Run the command."""
    place = os.environ.get("PYEBPF_PEER_NUMBER")
    if place:
        Path(place).write_text(str(os.getpid()))
    tell = command.print_output

    def print_output(script: Any, **options: Any) -> int:
        output = script.output

        def told(stop: Any, *, attached: Any, **form: Any) -> Any:
            def announced(count: int) -> None:
                attached(count)
                sys.stdout.flush()
                if "-q" not in sys.argv:
                    os.write(2, f"Attached {count} probe{'s' if count != 1 else ''}\n".encode())
                os.write(1, f"{ATTACHED}\n".encode())

            return output(stop, attached=announced, **form)

        script.output = told
        return tell(script, **options)

    command.print_output = print_output
    return cli.main(arguments(sys.argv[1:]))


if __name__ == "__main__":
    sys.exit(main())
