"""From a tool's declaration to its command line: argparse, with the options that all tools share."""

from __future__ import annotations

import argparse
import math
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from pyebpf.cli.arguments import Parser
from pyebpf.cli.report import UsageError
from pyebpf.dataclass import MISSING, dataclass, fields
from pyebpf.errors import InvalidValue
from pyebpf.tool import StackTool, SummaryTool, buffer_size

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyebpf.dataclass import Field
    from pyebpf.tool import AnyTool
    from pyebpf.tool.options import OptionSpec

LONGEST = 10 * 366 * 86400.0  # seconds; ten years are as good as forever


@dataclass(frozen=True, slots=True)
class Common:
    """The options that every tool takes. Seconds in `duration` and `interval`."""

    form: Literal["text", "csv", "json", "folded"] = "text"
    dump: bool = False
    verbose: bool = False
    timestamps: bool = False
    duration: float | None = None
    interval: float | None = None
    count: int | None = None
    stack_file: tuple[str, str] | None = None  # a format of `STACK_FILES`, and the path
    delimited: bool = False
    annotated: bool = False
    buffer: int | None = None
    clear: bool = True
    rows: int = 20


class _Parser(Parser):
    """A parser that lays out its description when somebody asks for help, and then finds out what the help says."""

    late: tuple[tuple[argparse.Action, Callable[[], str]], ...] = ()

    def format_help(self) -> str:
        from textwrap import fill

        for action, text in self.late:
            action.help = text()
        paragraphs = (self.description or "").split("\n\n")
        self.description = "\n\n".join(fill(paragraph, 79) for paragraph in paragraphs)
        return super().format_help()


def integer(text: str) -> int:
    """A decimal integer, as typed: no underscores, no other scripts' digits."""
    if not (text.isascii() and text.removeprefix("-").isdecimal() and len(text) <= 20):
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number")
    return int(text)


def number(text: str) -> float:
    """A finite decimal number."""
    try:
        value = float(text) if text.isascii() and "_" not in text else math.nan
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number")
    return value


def seconds(text: str) -> float:
    """A positive time in seconds."""
    value = number(text)
    if value <= 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a time above 0, in seconds")
    if value > LONGEST:
        raise argparse.ArgumentTypeError(f"{text!r} is more than ten years, in seconds")
    return value


def positive(text: str) -> int:
    """An integer from 1 on."""
    value = integer(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not above 0")
    return value


def buffer_bytes(text: str) -> int:
    """Bytes of a ring buffer, with K, M or G behind if need be: the next power of two."""
    digits, unit = (text[:-1], text[-1].upper()) if text[-1:].upper() in tuple("KMG") else (text, "")
    if not (digits.isascii() and digits.removeprefix("-").isdecimal() and len(digits) <= 20):
        raise argparse.ArgumentTypeError(f"{text!r} is not a size: give bytes, or a number with K, M or G, such as 16M")
    try:
        return buffer_size("", int(digits) << _UNITS[unit])
    except InvalidValue as error:
        raise argparse.ArgumentTypeError(str(error).removeprefix(": ")) from None


def in_units(size: int) -> str:
    """A size as it is typed: 8M."""
    unit = next((unit for unit in "GMK" if size and not size % (1 << _UNITS[unit])), "")
    return f"{size >> _UNITS[unit]}{unit}"


_UNITS = {"": 0, "K": 10, "M": 20, "G": 30}
SCALARS: dict[str, Callable[[str], object]] = {"int": integer, "float": number, "str": str}


def _reader(annotation: str) -> Callable[[str], object]:
    """The function that reads a value of an annotated type, which is text: `int`, `str | None`, `tuple[int, ...]`."""
    name = annotation.removesuffix(" | None")
    scalar = SCALARS.get(name.removeprefix("tuple[").removesuffix(", ...]"))
    if scalar is None:
        raise InvalidValue(
            f"an option cannot be of type {annotation}: write bool, int, float, str or tuple[int, ...], perhaps | None"
        )
    if not name.startswith("tuple["):
        return scalar
    return lambda text: tuple(scalar(item.strip()) for item in text.split(","))


def _declared(item: Field) -> str:
    """The choices and the default of an option, for its help."""
    spec: OptionSpec = item.metadata["spec"]
    parts = []
    if spec.choices and not all(each in spec.help for each in spec.choices):
        parts.append(f"one of {', '.join(spec.choices)}")
    default = item.default
    if default is not MISSING and default not in (None, False, (), ""):
        shown = ",".join(map(str, default)) if isinstance(default, tuple | list) else str(default)
        parts.append(f"default: {shown}")
    return f" ({'; '.join(parts)})" if parts else ""


def _add_option(parser: argparse.ArgumentParser, item: Field) -> None:
    spec: OptionSpec = item.metadata["spec"]
    annotation = item.type
    help_text = f"{spec.help}{_declared(item)}".replace("%", "%%")
    dest = f"option.{item.name}"
    if annotation == "bool":
        parser.add_argument(*spec.flags, dest=dest, action="store_const", const=True, help=help_text)
        return
    metavar = spec.metavar or item.name.upper()
    reader = _reader(annotation)
    if spec.flags:
        parser.add_argument(*spec.flags, dest=dest, type=reader, metavar=metavar, help=help_text)
    else:
        nargs = None if item.default is MISSING else "?"
        parser.add_argument(dest, type=reader, metavar=metavar, help=help_text, nargs=nargs)


def _add_common(parser: _Parser, tool: AnyTool, taken: set[str]) -> None:
    """The shared options; where a tool has a letter for itself, only the long name is left."""

    def add(to: argparse._ActionsContainer, letter: str, long: str, dest: str, **rest: Any) -> argparse.Action:
        return to.add_argument(*[flag for flag in (letter, long) if flag and flag not in taken], dest=dest, **rest)

    tools = [tool, *tool.modes.values()]
    group = parser.add_argument_group("options of every tool")
    form = group.add_mutually_exclusive_group()
    add(form, "", "--json", "form", action="store_const", const="json", help="print one JSON object per line")
    add(form, "", "--csv", "form", action="store_const", const="csv", help="print CSV, with a heading line")
    if isinstance(tool, StackTool) or (isinstance(tool, SummaryTool) and tool.stacks is not None):
        _add_stack_formats(group, form)
    if isinstance(tool, StackTool):
        _add_stacks(parser)
        taken.add("-d")
    else:
        add(group, "-T", "--timestamps", "timestamps", action="store_true", help="print the time of day (HH:MM:SS)")
    add(group, "-d", "--duration", "duration", type=seconds, metavar="SECONDS", help="end after this many seconds")
    if tool.prints_events and "--buffer" not in taken:
        buffer = add(group, "", "--buffer", "buffer", type=buffer_bytes, metavar="SIZE")
        parser.late += ((buffer, lambda: _buffer_help(tool)),)
    add(group, "-v", "--verbose", "verbose", action="store_true", help="list the attachments, and why they were chosen")
    add(group, "", "--dump", "dump", action="store_true", help="print the bytecode, load nothing")
    if any(isinstance(each, SummaryTool) and each.screen for each in tools):
        add(group, "-C", "--noclear", "clear", action="store_const", const=False, help="do not clear the screen")
        add(group, "-r", "--rows", "rows", type=positive, metavar="ROWS", help="rows of text at most (default: 20)")
    if any(isinstance(each, SummaryTool) for each in tools):
        default = "every second" if isinstance(tool, SummaryTool) and tool.screen else "one, at the end"
        only = "" if isinstance(tool, SummaryTool) else f" with {' or '.join(_summary_flags(tool))}"
        parser.add_argument(
            "interval", nargs="?", type=seconds, help=f"seconds between summaries{only} (default: {default})"
        )
        parser.add_argument("count", nargs="?", type=positive, help=f"how many summaries{only} (default: no limit)")


def _summary_flags(tool: AnyTool) -> list[str]:
    """The flags with which a tool prints summaries in place of its own output."""
    modes = [name for name, mode in tool.modes.items() if isinstance(mode, SummaryTool)]
    return [item.metadata["spec"].flags[0] for item in fields(tool.options) if item.name in modes]


def _buffer_help(tool: AnyTool) -> str:
    """The help of --buffer: the tool's own sizes are its maps', which it declares without a kernel."""
    sizes: set[int] = set()
    with suppress(Exception):  # of a tool that needs an argument first
        sizes = set(tool.build(tool.options()).buffer_sizes())
    default = f"; default: {', '.join(map(in_units, sorted(sizes)))}" if sizes else ""
    return f"memory for events that wait to be printed, in bytes, or such as 64K, 16M (4K to 1G{default})"


def _add_stack_formats(group: argparse._ArgumentGroup, form: argparse._MutuallyExclusiveGroup) -> None:
    """Add the options for folded lines, and for a file of each format."""
    from pyebpf.output.stack_files import STACK_FILES

    form.add_argument(
        "-f", "--folded", dest="form", action="store_const", const="folded", help="print folded stacks, one a line"
    )
    # Not in the group of the others: its usage would be one line, however long. `_check_stack_file` looks.
    for name, each in STACK_FILES.items():
        read = partial(_stack_file, name)
        group.add_argument(f"--{name}", dest="stack_files", action="append", type=read, metavar="FILE", help=each.help)


def _add_stacks(parser: argparse.ArgumentParser) -> None:
    """Add the further options of stack tools, with bcc's letters."""
    parser.add_argument("-d", "--delimited", action="store_true", help="a line between user and kernel frames")
    parser.add_argument("-a", "--annotated", action="store_true", help="mark the kernel's functions with _[k]")
    parser.add_argument("seconds", nargs="?", type=seconds, help="end after this many seconds (default: at Ctrl-C)")


def _stack_file(name: str, path: str) -> tuple[str, str]:
    return name, path


def _check_stack_file(prog: str, given: dict[str, Any]) -> None:
    """Put the file of stacks in its place. Raises UsageError if another form or file is asked for as well."""
    first, *others = given.pop("stack_files")
    if others or "form" in given:
        other = others[0][0] if others else given["form"]
        raise UsageError(prog, f"argument --{first[0]}: not allowed with argument --{other}")
    given["stack_file"] = first


class _Formatter(argparse.RawDescriptionHelpFormatter):
    """Keeps to 80 columns; asking for the terminal's width would load the archive formats of shutil."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, width=78)


def build_parser(tool: AnyTool) -> _Parser:
    """The parser of one tool's command line."""
    paragraphs = (tool.doc or "").strip().split("\n\n")
    if tool.section:
        paragraphs.append(f"BPF Performance Tools, section {tool.section}.")
    width = max((len(example.command) for example in tool.examples), default=0)
    examples = [f"  pyebpf {example.command:<{width}}  # {example.meaning}" for example in tool.examples]
    parser = _Parser(
        prog=f"pyebpf {tool.name}",
        description="\n\n".join(paragraphs),
        epilog="\n".join(["examples:", *examples]) if examples else None,
        formatter_class=_Formatter,
        allow_abbrev=False,
    )
    taken: set[str] = set()
    for item in fields(tool.options):
        if "spec" in item.metadata:
            _add_option(parser, item)
            taken.update(item.metadata["spec"].flags)
    _add_common(parser, tool, taken)
    return parser


def parse(tool: AnyTool, arguments: Sequence[str]) -> tuple[Any, Common]:
    """A tool's options, an instance of its dataclass, and the common ones. Raises UsageError."""
    parser = build_parser(tool)
    given = {name: value for name, value in vars(parser.parse_args(arguments)).items() if value is not None}
    own = {name.removeprefix("option."): given.pop(name) for name in list(given) if name.startswith("option.")}
    if "seconds" in given:
        if "duration" in given:
            raise UsageError(parser.prog, "give the seconds once: by themselves or with --duration")
        given["duration"] = given.pop("seconds")
    if "stack_files" in given:
        _check_stack_file(parser.prog, given)
    try:
        options = tool.options(**own)
        tool.check(options, command=True)
    except InvalidValue as error:
        raise UsageError(parser.prog, str(error)) from None
    mode = tool.mode(options)
    if "interval" in given and not isinstance(mode, SummaryTool):
        flags = " or ".join(_summary_flags(tool))
        raise UsageError(parser.prog, f"an interval is for summaries, which {flags} asks for")
    if isinstance(mode, SummaryTool) and mode.screen:
        given.setdefault("interval", 1.0)
    return options, Common(**given)


def parse_example(tool: AnyTool, command: str) -> tuple[Any, Common]:
    """The options of an `Example`'s command. Raises UsageError if it would be refused, or names another tool."""
    from shlex import split

    name, *arguments = split(command)
    if name != tool.name:
        raise UsageError(f"pyebpf {tool.name}", f"an example calls {name}")
    return parse(tool, arguments)
