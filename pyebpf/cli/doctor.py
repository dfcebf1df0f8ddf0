"""`pyebpf doctor`: what this machine offers, whether and how a tool runs here, and what dead processes left."""

from __future__ import annotations

import json
import sys
from contextlib import suppress
from textwrap import fill
from typing import TYPE_CHECKING, Any

from pyebpf.cli.bytecode import Parser
from pyebpf.cli.report import FAILED, UsageError, describe, note
from pyebpf.errors import CompileError, PyebpfError
from pyebpf.output.escape import visible
from pyebpf.output.sink import Sink

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyebpf.tool import AnyTool

__all__ = ["run_doctor"]

DESCRIPTION = """\
Lists what this machine supports: kernel, privileges, mounts, limits, and each
kernel feature, by probing it, with three answers (yes, no, could not tell). The
name of a feature has its section's prefix: attach:fentry, map:arena. Nothing
stays attached or mounted.

With a TOOL and its options: says whether it runs here, what each of its probes
is attached to and how, and why earlier candidates were rejected. The tool is
attached for a moment, and prints no data.

Exit status: 0 if programs can be loaded, the tool runs, or everything was
removed; otherwise 1."""

WIDTH = 79
_NAME = 26  # columns; longer names push the value on


class _Printer:
    """Lines for people, or a JSON object each."""

    def __init__(self, *, as_json: bool) -> None:
        self._json = as_json
        self._sink = Sink.of(sys.stdout)
        self._section = ""

    def finding(self, section: str, name: str, value: str, meaning: str = "") -> None:
        """One fact."""
        if self._json:
            self.record(section=section, name=name, value=value, note=meaning)
            return
        if section != self._section:
            self._sink.line(section)
            self._section = section
        text = f"  {visible(name):<{_NAME}} {visible(value)}"
        self.line(f"{text} ({visible(meaning)})" if meaning else text, _NAME + 3)

    def record(self, **fields: object) -> None:
        """A JSON object, where that is wanted."""
        if self._json:
            self._sink.line(json.dumps(fields, ensure_ascii=False))

    def line(self, text: str, indent: int = 0) -> None:
        """A line for people; what does not fit goes on below, indented."""
        if not self._json:
            self._sink.line(
                fill(text, WIDTH, subsequent_indent=" " * indent, break_on_hyphens=False, drop_whitespace=True)
                if len(text) > WIDTH
                else text
            )


def run_doctor(arguments: Sequence[str]) -> int:
    """Ask, and print the answers. Raises UsageError, PyebpfError and ReaderGone."""
    parser = Parser("doctor", DESCRIPTION)
    parser.add_argument("--all", action="store_true", help="each helper of each kind of program, too")
    parser.add_argument("--json", action="store_true", help="print one JSON object per line")
    parser.add_argument("--clean", action="store_true", help="remove what dead processes of pyebpf left attached")
    parser.add_argument("tool", nargs="?", metavar="TOOL", help="one of `pyebpf list`")
    parser.add_argument("options", nargs="...", metavar="...", help="the tool's own options")
    options = parser.parse_args(arguments)
    printer = _Printer(as_json=options.json)
    if options.clean:
        if options.tool or options.all:
            raise UsageError(parser.prog, "--clean takes no other arguments")
        return _clean(printer)
    if options.tool:
        if options.all:
            raise UsageError(parser.prog, "--all describes the machine, and takes no tool")
        from pyebpf.cli.catalogue import find, spelt_out

        name, arguments = spelt_out(options.tool, options.options)
        return _tool(find(name), arguments, printer)
    return _machine(printer, helpers=options.all)


def _machine(printer: _Printer, *, helpers: bool) -> int:
    from pyebpf.features import Features, diagnostics
    from pyebpf.kernel.orphans import orphans
    from pyebpf.runtime.host import kernel_btf

    features = Features(kernel_btf)
    refusal = diagnostics.why_not()
    for section, ask in diagnostics.SECTIONS.items():
        for each in ask(features):
            printer.finding(section, *each)
    if helpers:
        for each in diagnostics.helpers(features):
            printer.finding("helpers", *each)
    with suppress(PermissionError):  # who may not see all owners cannot tell that one is dead
        for left in orphans():
            meaning = "its process has died: pyebpf doctor --clean removes it"
            printer.finding("left behind", left.kind, left.name, meaning)
    printer.record(
        section="summary", name="programs can be loaded", value="no" if refusal else "yes", note=refusal or ""
    )
    if refusal:
        note(f"pyebpf doctor: {refusal}")
        return FAILED
    return 0


def _tool(tool: AnyTool, arguments: list[str], printer: _Printer) -> int:
    """Attach a tool for a moment; what each probe's request takes."""
    from pyebpf.runtime import BPF

    options, stand_in = _options(tool, arguments)
    bpf = tool.build(options)
    if not isinstance(bpf, BPF):  # a protocol allows others
        raise UsageError("pyebpf doctor", f"{tool.name} has no probes to ask about")
    error: PyebpfError | None = None
    attachments: list[str] = []
    warnings: list[str] = []
    try:
        tool.check_exists(bpf, options)
        with bpf:
            attachments, warnings = list(bpf.attachments), list(bpf.warnings)
    except PyebpfError as refusal:
        error = refusal
    refused = _reason(error) if error is not None else ""
    if stand_in:
        printer.line(stand_in, 2)
        printer.record(note=stand_in)
    printer.line(f"{tool.name} does not run here: {refused}" if refused else f"{tool.name} runs here", 2)
    for text in attachments:
        printer.line(f"  {visible(text)}", 4)
        printer.record(attachment=text)
    for choice in bpf.choices:
        rejected = [{"candidate": name, "reason": reason} for name, reason in choice.rejected]
        printer.record(probe=choice.probe, request=choice.request, candidate=choice.candidate, rejected=rejected)
        for name, reason in choice.rejected:
            printer.line(
                f"  {visible(choice.probe)}: {visible(choice.request)} not by {visible(name)}: {visible(reason)}",
                4,
            )
    for text in warnings:
        printer.line(f"  {visible(text)}", 4)
        printer.record(note=text)
    printer.record(tool=tool.name, runs=error is None, error=refused)
    return FAILED if error is not None else 0


def _options(tool: AnyTool, arguments: list[str]) -> tuple[Any, str]:
    """A tool's options; where one that it cannot do without was not given, that of its first example, and a line on it.

    Raises UsageError.
    """
    from pyebpf.cli.parser import parse, parse_example
    from pyebpf.dataclass import MISSING, fields

    every = fields(tool.options)
    items = [item for item in every if "spec" in item.metadata and item.default is MISSING]
    needed = {item.metadata["spec"].metavar or item.name.upper(): item.name for item in items}
    try:
        return parse(tool, arguments)[0], ""
    except UsageError as error:
        if not needed or not tool.examples:
            raise
        example, _ = parse_example(tool, tool.examples[0].command)
        given = [str(getattr(example, name)) for name in needed.values()]
        try:
            options, _ = parse(tool, [*arguments, *given])
        except UsageError:
            raise error from None
    wanted = ", ".join(f"{metavar} {value!r}" for metavar, value in zip(needed, given, strict=True))
    return options, f"{tool.name} needs {' and '.join(needed)}: asked with that of its first example, {wanted}"


def _reason(error: PyebpfError) -> str:
    """The line that tells what is missing here, without the tool's own source below it."""
    return visible(error.message) if isinstance(error, CompileError) else describe(error).partition("\n")[0]


def _clean(printer: _Printer) -> int:
    from pyebpf.errors import NotPermitted
    from pyebpf.kernel.orphans import orphans

    try:
        found = orphans()
    except PermissionError as error:
        raise NotPermitted(
            "whether the owner of an attachment has died can only be determined with CAP_SYS_ADMIN of the host's user "
            "namespace: run --clean as root there",
            error.errno,
        ) from error
    status = 0
    for each in found:
        result = "removed"
        try:
            each.remove()
        except OSError as error:
            status, result = FAILED, f"not removed: {describe(error)}"
        printer.finding("left behind", each.kind, each.name, f"its process has died; {result}")
    return status
