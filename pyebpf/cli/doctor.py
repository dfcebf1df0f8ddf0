"""`pyebpf doctor`: what this machine offers, whether and how a tool runs here, and what dead processes left."""

from __future__ import annotations

import json
import os
import sys
from contextlib import suppress
from textwrap import fill
from typing import TYPE_CHECKING, NamedTuple

from pyebpf.cli.bytecode import Parser
from pyebpf.cli.report import FAILED, UsageError, describe, note
from pyebpf.errors import CompileError, PyebpfError
from pyebpf.output.escape import visible
from pyebpf.output.sink import Sink

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyebpf.specs import Choice
    from pyebpf.tool import AnyTool, Example

DESCRIPTION = """\
Lists what this machine supports: kernel, privileges, mounts, limits, and each
kernel feature, by probing it, with three answers (yes, no, could not tell). The
name of a feature has its section's prefix: attach:fentry, map:arena. Nothing
stays attached or mounted.

With --tools: which tools run here, and what the others need. Each is attached
for a moment.

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


def parser() -> Parser:
    """Declare the options."""
    made = Parser("doctor", DESCRIPTION)
    made.add_argument("--all", action="store_true", help="each helper of each kind of program, too")
    made.add_argument("--tools", action="store_true", help="say of each tool whether it runs here")
    made.add_argument("--json", action="store_true", help="print one JSON object per line")
    made.add_argument("--clean", action="store_true", help="remove what dead processes of pyebpf left attached")
    made.add_argument("tool", nargs="?", metavar="TOOL", help="one of `pyebpf list`, or a FILE.py that defines one")
    made.add_argument("options", nargs="...", metavar="...", help="the tool's own options")
    return made


def run_doctor(arguments: Sequence[str]) -> int:
    """Ask, and print the answers. Raises UsageError, PyebpfError and ReaderGone."""
    made = parser()
    options = made.parse_args(arguments)
    printer = _Printer(as_json=options.json)
    if options.clean:
        if options.tool or options.all or options.tools:
            raise UsageError(made.prog, "--clean takes no other arguments")
        return _clean(printer)
    if options.tools:
        if options.tool or options.all:
            raise UsageError(made.prog, "--tools asks about all tools: name none, or leave it out")
        return _tools(printer)
    if options.tool:
        if options.all:
            raise UsageError(made.prog, "--all describes the machine, and takes no tool")
        from pyebpf.cli.catalogue import find, spelt_out

        if options.tool.endswith(".py"):
            from pyebpf.cli.script import run_script

            return run_script([options.tool, *options.options], lambda tool, rest: _tool(tool, rest, printer))
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
        try:
            for each in ask(features):
                printer.finding(section, *each)
        except (PyebpfError, OSError) as error:
            reason = describe(error).partition("\n")[0]
            printer.finding(section, "the rest", "could not tell", reason)
            refusal = refusal or reason
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


def _tools(printer: _Printer) -> int:
    """Say of each tool whether it runs here; some do on every machine that programs can be loaded on."""
    from pyebpf.cli.catalogue import find, names

    status = FAILED
    for name in names():
        tool = find(name)
        answers = [_ask(tool, case.options) for case in _cases(tool, [])[0]]
        runs = any(not answer.refused for answer in answers)
        # Without the candidates that were tried, which `doctor TOOL` prints.
        printer.finding("tools", name, "yes" if runs else "no", "" if runs else answers[0].refused.partition(": @")[0])
        if runs:
            status = 0
    return status


class _Case(NamedTuple):
    """A way to run a tool: its options, and the kind of target and the arguments that they have from an example."""

    options: object
    target: str = ""
    given: str = ""


class _Answer(NamedTuple):
    """The result of attaching a tool for a moment; `refused` is empty if it runs."""

    refused: str
    attachments: list[str]
    choices: Sequence[Choice]
    warnings: list[str]

    def print(self, printer: _Printer, indent: int) -> None:
        """Print what each request takes."""
        space = " " * indent
        for text in self.attachments:
            printer.line(f"{space}{visible(text)}", indent + 2)
            printer.record(attachment=text)
        for choice in self.choices:
            rejected = [{"candidate": name, "reason": reason} for name, reason in choice.rejected]
            printer.record(probe=choice.probe, request=choice.request, candidate=choice.candidate, rejected=rejected)
            for name, reason in choice.rejected:
                printer.line(
                    f"{space}{visible(choice.probe)}: {visible(choice.request)} not by {visible(name)}: "
                    f"{visible(reason)}",
                    indent + 2,
                )
        for text in self.warnings:
            printer.line(f"{space}{visible(text)}", indent + 2)
            printer.record(note=text)


def _tool(tool: AnyTool, arguments: list[str], printer: _Printer) -> int:
    """Attach a tool for a moment, to a target of each kind if none is named; it runs if it does for one of them."""
    cases, stand_in = _cases(tool, arguments)
    if stand_in:
        printer.line(stand_in, 2)
        printer.record(note=stand_in)
    answers = [_ask(tool, case.options) for case in cases]
    runs = any(not answer.refused for answer in answers)
    refused = "" if runs else "; ".join(dict.fromkeys(answer.refused for answer in answers))
    if len(cases) == 1:
        printer.line(f"{tool.name} runs here" if runs else f"{tool.name} does not run here: {refused}", 2)
        answers[0].print(printer, 2)
    else:
        printer.line(f"{tool.name} runs here" if runs else f"{tool.name} does not run here")
        for case, answer in zip(cases, answers, strict=True):
            found = f"no ({answer.refused})" if answer.refused else "yes"
            printer.line(f"  {visible(case.target)}: {found}", 4)
            answer.print(printer, 4)
            printer.record(target=case.target, example=case.given, runs=not answer.refused, error=answer.refused)
    printer.record(tool=tool.name, runs=runs, error=refused)
    return 0 if runs else FAILED


def _ask(tool: AnyTool, options: object) -> _Answer:
    from pyebpf.runtime import BPF

    bpf = tool.build(options)
    if not isinstance(bpf, BPF):  # a protocol allows others
        raise UsageError("pyebpf doctor", f"{tool.name} has no probes to ask about")
    refused = ""
    attachments: list[str] = []
    warnings: list[str] = []
    try:
        tool.check_exists(bpf, options)
        with bpf:
            attachments, warnings = list(bpf.attachments), list(bpf.warnings)
    except PyebpfError as error:
        refused = _reason(error)
    return _Answer(refused, attachments, bpf.choices, warnings)


def _cases(tool: AnyTool, arguments: list[str]) -> tuple[list[_Case], str]:
    """A tool's options; where arguments that it cannot do without were not given, those of examples, and a line on it.

    The examples are the first of each kind of target, else the first. Raises UsageError.
    """
    from pyebpf.cli.parser import parse, parse_example
    from pyebpf.dataclass import MISSING, fields

    every = fields(tool.options)
    items = [item for item in every if "spec" in item.metadata and item.default is MISSING]
    needed = {item.metadata["spec"].metavar or item.name.upper(): item.name for item in items}
    try:
        return [_Case(parse(tool, arguments)[0])], ""
    except UsageError as error:
        if not needed or not tool.examples:
            return _own_process(tool, arguments, error)
        cases = []
        for each in _examples_of_targets(tool):
            example, _ = parse_example(tool, each.command)
            given = [str(getattr(example, name)) for name in needed.values()]
            try:
                options, _ = parse(tool, [*arguments, *given])
            except UsageError:
                raise error from None
            cases.append(_Case(options, each.target, " ".join(map(repr, given))))
    lacks = f"{tool.name} needs {' and '.join(needed)}: asked with"
    if len(cases) > 1:
        return cases, f"{lacks} an example of each kind of target, {', '.join(case.given for case in cases)}"
    wanted = ", ".join(f"{metavar} {value!r}" for metavar, value in zip(needed, given, strict=True))
    return cases, f"{lacks} that of its first example, {wanted}"


def _own_process(tool: AnyTool, arguments: list[str], error: UsageError) -> tuple[list[_Case], str]:
    """The case of this process, for a tool that needs one and was given none. Raises the error for others."""
    from pyebpf.cli.parser import parse

    try:
        case = _Case(parse(tool, [*arguments, "--pid", str(os.getpid())])[0])
    except UsageError:
        raise error from None
    return [case], f"{tool.name} needs a process: asked with --pid of this one"


def _examples_of_targets(tool: AnyTool) -> list[Example]:
    """The first example of each kind of target that the examples name; else the first of all."""
    found: dict[str, Example] = {}
    for example in tool.examples:
        if example.target:
            found.setdefault(example.target, example)
    return list(found.values()) or [tool.examples[0]]


def _reason(error: PyebpfError) -> str:
    """The line that tells what is missing here, without the tool's own source below it."""
    return visible(error.message) if isinstance(error, CompileError) else describe(error).partition("\n")[0]


def _clean(printer: _Printer) -> int:
    from pyebpf.errors import NotPermitted
    from pyebpf.kernel.orphans import orphans
    from pyebpf.kernel.owners import living_owners

    try:
        living_owners()  # who may not ask sees no attachments either
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
