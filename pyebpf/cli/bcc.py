"""Shared parts of `pyebpf argdist` and `pyebpf trace`: bcc's specifications, run as scripts of bpftrace's language."""

from __future__ import annotations

from argparse import ArgumentTypeError, RawDescriptionHelpFormatter
from typing import TYPE_CHECKING

from pyebpf.cli.arguments import Parser
from pyebpf.cli.bcc_options import refuse_absent
from pyebpf.cli.parser import positive
from pyebpf.cli.report import FAILED, describe, note
from pyebpf.errors import CompileError, InvalidValue, PyebpfError, VerifierError, without_decorators

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Callable, Sequence

    from pyebpf.bcc.scripts import ResultType
    from pyebpf.bcc.specs import Distribution, Probe, Trace
    from pyebpf.elf.dwarf.types import DebugType
    from pyebpf.script import Script
    from pyebpf.target import KernelType

WRONG_USAGE = 2


def _string_bytes(text: str) -> int:
    """The most bytes of a text."""
    from pyebpf.bpftrace.translate.settings import MAX_STRLEN

    if (found := positive(text)) > MAX_STRLEN:
        raise ArgumentTypeError(f"{found} bytes are too many: a text has {MAX_STRLEN} at most")
    return found


def declare(name: str, description: str) -> Parser:
    """A parser with the options of both."""
    parser = Parser(f"pyebpf {name}", description=description, formatter_class=RawDescriptionHelpFormatter)
    parser.add_argument("-p", "--pid", type=positive, metavar="PID", help="only this process")
    parser.add_argument(
        "-z",
        "-Z",
        "--string-size",
        type=_string_bytes,
        dest="strings",
        metavar="BYTES",
        help="bytes of a text at most (1024; before Linux 5.11 64)",
    )
    parser.add_argument(
        "-v", "--verbose", action="store_true", help="print the script that is run, and the attachments"
    )
    parser.add_argument("--dump", action="store_true", help="print the bytecode, load nothing")
    refuse_absent(parser, name)
    return parser


def result_types(pid: int | None) -> ResultType:
    """The types of what functions return: of a file by its debugging information, of the kernel by BTF.

    A number's is one of bpftrace's, any other C's; "" where nothing tells it. Raises InvalidValue for several functions
    that return different types.
    """

    def result(probe: Probe) -> str:
        from pyebpf.runtime.loaded import Loaded
        from pyebpf.script_files import ProgramFiles

        found: DebugType | KernelType | None
        disputed = ""
        try:
            if probe.where:
                function = ProgramFiles().function(probe.where, [probe.name], -1 if pid is None else pid)
                found, disputed = function.signature and function.signature.result, function.disputed
            else:
                with Loaded() as loaded:
                    found = loaded.target().function(probe.name).returns
        except PyebpfError:
            return ""  # what is wrong with the function is told when the script is compiled
        if disputed:
            raise InvalidValue(disputed)
        if found is None:
            return ""
        if found.kind in ("int", "enum") and found.size in (1, 2, 4, 8):
            return f"{'' if found.signed else 'u'}int{8 * found.size}"
        return found.c_name

    return result


def act_on(
    name: str,
    given: Namespace,
    specs: Sequence[Distribution | Trace],
    write: Callable[[], str],
    act: Callable[[Script], int],
) -> int:
    """Write the script, and do with it what the options ask for; the exit status.

    What is wrong with a specification is told with its caret. `write` puts them all into `specs`.
    """
    from pyebpf.cli.bpftrace import dump
    from pyebpf.script import Script

    try:
        text = write()
    except InvalidValue as error:
        note(f"pyebpf {name}: {describe(error)}")
        return WRONG_USAGE
    if given.verbose:
        note(text.rstrip("\n"))
    try:
        script = Script(text, file=f"<{name}>", pid=given.pid)
        script.escapes = True
        script.take_bare_arguments()
        return dump(script) if given.dump else act(script)
    except PyebpfError as error:
        from pyebpf.bcc.places import of_probe, of_specification

        found = of_specification(error, specs) if isinstance(error, CompileError | VerifierError) else None
        found = found or of_probe(error, specs) or InvalidValue(without_decorators(error))
        note(f"pyebpf {name}: {describe(found)}")
        return FAILED
