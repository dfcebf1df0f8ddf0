"""From a tool's declaration to its command line: argparse, with the options that all tools share."""

from __future__ import annotations

import argparse
import math
import sys
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, NoReturn

from pyebpf.cli.arguments import Parser
from pyebpf.cli.bcc_options import SINGLE, refuse_absent
from pyebpf.cli.report import UsageError
from pyebpf.dataclass import MISSING, dataclass, fields
from pyebpf.errors import InvalidValue
from pyebpf.tool import EventTool, StackTool, SummaryTool, buffer_size

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pyebpf.dataclass import Field
    from pyebpf.output.columns import Column
    from pyebpf.tool import AnyTool
    from pyebpf.tool.options import OptionSpec

_RECORD_SIZE = "keep the last ones: FILE and FILE.1 together have SIZE at most, such as 100M"
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
    heatmap: str | None = None
    scatter: str | None = None
    bars: str | None = None
    subsecond: str | None = None
    scale: Literal["log", "linear"] = "log"
    delimited: bool = False
    annotated: bool = False
    buffer: int | None = None
    clear: bool = True
    rows: int = 20
    record: str | None = None
    record_size: int | None = None
    overwrite: bool = False

    @property
    def file(self) -> str | None:
        """The file that is written in place of what is printed."""
        files = (self.stack_file and self.stack_file[1], self.heatmap, self.scatter, self.bars, self.subsecond)
        return next((path for path in files if path is not None), None)


_NO_NUMBER = " is not a number"
#: Arguments that are seconds.
_TIMES = ("interval", "seconds")


class _Parser(Parser):
    """A parser that lays out its description when somebody asks for help, and then finds out what the help says."""

    late: tuple[tuple[argparse.Action, Callable[[], str]], ...] = ()
    #: What is said behind an error, and behind one about an argument too many.
    hint = ""
    single = ""

    def error(self, message: str) -> NoReturn:
        _, is_unknown, words = message.partition("unrecognized arguments: ")
        in_place_of_seconds = message.startswith(tuple(f"argument {each}: " for each in _TIMES))
        hint = self.hint
        if is_unknown and words.isdecimal():
            hint = "" if any(each.dest in _TIMES for each in self._actions) else f"; seconds are --duration {words}"
        elif is_unknown and not words.startswith("-"):
            hint = self.single
        elif in_place_of_seconds and message.endswith(_NO_NUMBER):
            hint = self.hint or self.single
        super().error(message + hint)

    def format_help(self) -> str:
        from textwrap import fill

        for action, text in self.late:
            action.help = text()
        paragraphs = (self.description or "").split("\n\n")
        self.description = "\n\n".join(fill(paragraph, 79) for paragraph in paragraphs)
        return super().format_help()


#: Digits of numbers that have 64 bits, and a sign.
_MAX_DIGITS = 21


def integer(text: str) -> int:
    """A decimal integer, as typed: no underscores, no other scripts' digits."""
    if not (text.isascii() and text.removeprefix("-").isdecimal()):
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number")
    if len(text) > _MAX_DIGITS or not -(1 << 63) <= int(text) < 1 << 64:
        shown = text if len(text) <= 2 * _MAX_DIGITS else f"a number of {len(text)} digits"
        raise argparse.ArgumentTypeError(f"{shown} is too large: numbers have 64 bits at most")
    return int(text)


def number(text: str) -> float:
    """A finite decimal number."""
    try:
        value = float(text) if text.isascii() and "_" not in text else math.nan
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise argparse.ArgumentTypeError(f"{text!r}{_NO_NUMBER}")
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
    if value > sys.maxsize:
        raise argparse.ArgumentTypeError(f"{text} is too large: at most {sys.maxsize}")
    return value


def size_bytes(text: str) -> int:
    """Bytes, with K, M or G behind if need be."""
    digits, unit = (text[:-1], text[-1].upper()) if text[-1:].upper() in tuple("KMG") else (text, "")
    if not (digits.isascii() and digits.removeprefix("-").isdecimal() and len(digits) <= 20):
        raise argparse.ArgumentTypeError(f"{text!r} is not a size: give bytes, or a number with K, M or G, such as 16M")
    return int(digits) << _UNITS[unit]


def buffer_bytes(text: str) -> int:
    """Bytes of a ring buffer: the next power of two."""
    try:
        return buffer_size("", size_bytes(text))
    except InvalidValue as error:
        raise argparse.ArgumentTypeError(str(error).removeprefix(": ")) from None


def record_bytes(text: str) -> int:
    """Bytes of both halves of a recording."""
    size = size_bytes(text)
    if size < SMALLEST_RECORDING:
        raise argparse.ArgumentTypeError(f"{size} bytes are too few for a recording: give 64K or more")
    return size


def in_units(size: int) -> str:
    """A size as it is typed: 8M."""
    unit = next((unit for unit in "GMK" if size and not size % (1 << _UNITS[unit])), "")
    return f"{size >> _UNITS[unit]}{unit}"


SMALLEST_RECORDING = 1 << 16
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
        # Of a list each further one adds to it.
        action = "extend" if annotation.startswith("tuple[") else "store"
        parser.add_argument(*spec.flags, dest=dest, action=action, type=reader, metavar=metavar, help=help_text)
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
    add(form, "-j", "--json", "form", action="store_const", const="json", help="print one JSON object per line")
    add(form, "", "--csv", "form", action="store_const", const="csv", help="print CSV, with a heading line")
    if isinstance(tool, StackTool) or (isinstance(tool, SummaryTool) and tool.stacks is not None):
        _add_stack_formats(group, form)
    if isinstance(tool, StackTool):
        _add_stacks(parser)
        taken.add("-d")
    else:
        add(group, "-T", "--timestamps", "timestamps", action="store_true", help="print the time of day (HH:MM:SS)")
        _add_pictures(form, group, tools, taken)
    add(group, "-d", "--duration", "duration", type=seconds, metavar="SECONDS", help="end after this many seconds")
    if tool.prints_events and "--buffer" not in taken:
        buffer = add(group, "", "--buffer", "buffer", type=buffer_bytes, metavar="SIZE")
        parser.late += ((buffer, lambda: _buffer_help(tool)),)
    add(group, "", "--record", "record", metavar="FILE", help="write the records to FILE, for `pyebpf show FILE`")
    add(group, "", "--record-size", "record_size", type=record_bytes, metavar="SIZE", help=_RECORD_SIZE)
    add(group, "", "--overwrite", "overwrite", action="store_true", help="replace the FILE of --record if it is there")
    add(group, "-v", "--verbose", "verbose", action="store_true", help="list the attachments, and why they were chosen")
    add(group, "", "--dump", "dump", action="store_true", help="print the bytecode, load nothing")
    if any(isinstance(each, SummaryTool) and each.screen for each in tools):
        add(group, "-C", "--noclear", "clear", action="store_const", const=False, help="do not clear the screen")
        add(group, "-r", "--rows", "rows", type=positive, metavar="ROWS", help="rows of text at most (default: 20)")
    if any(isinstance(each, SummaryTool) for each in tools):
        add(group, "-i", "--interval", "every", type=seconds, metavar="SECONDS", help="the interval, as bcc has it")
        default = "every second" if isinstance(tool, SummaryTool) and tool.screen else "one, at the end"
        only = "" if isinstance(tool, SummaryTool) else f" with {' or '.join(_summary_flags(tool))}"
        parser.add_argument(
            "interval", nargs="?", type=seconds, help=f"seconds between summaries{only} (default: {default})"
        )
        parser.add_argument("count", nargs="?", type=positive, help=f"how many summaries{only} (default: no limit)")


def _add_pictures(
    form: argparse._MutuallyExclusiveGroup, group: argparse._ArgumentGroup, tools: Sequence[AnyTool], taken: set[str]
) -> None:
    """Add pictures of histograms, and of events that have a column of durations."""
    default: object = None
    with suppress(Exception):  # of a tool that needs an argument first: its columns are asked for without
        default = tools[0].options()
    drawn = [each for each in tools if draws(each, default)]
    events = [each for each in drawn if isinstance(each, EventTool)]
    if drawn:
        form.add_argument("--heatmap", metavar="FILE", help="write a heat map over time (SVG); - to standard output")
    if any(isinstance(each, SummaryTool) for each in drawn):
        form.add_argument("--bars", metavar="FILE", help="write histograms side by side (SVG); - as above")
    if events:
        form.add_argument("--scatter", metavar="FILE", help="write a scatter plot of the events (SVG); - as above")
    if events and "--scale" not in taken:
        scale = group.add_argument("--scale", choices=("log", "linear"), help="the scale of these (default: log)")
        scale.metavar = "SCALE"


def draws(tool: AnyTool, options: object) -> bool:
    """Whether there are pictures of what a tool gives with these options."""
    columns: Sequence[Column] = ()
    if not callable(tool.columns) or options is not None:
        columns = tool.columns_for(options)
    if isinstance(tool, EventTool):
        return any(column.drawn for column in columns)
    return isinstance(tool, SummaryTool) and not columns


def _check_pictures(prog: str, tool: AnyTool, options: object, given: Mapping[str, object]) -> None:
    """Raise UsageError for a picture of what these options do not give."""
    flag = next((f"--{name}" for name in ("heatmap", "scatter", "bars") if name in given), None)
    if flag is not None and not draws(tool, options):
        raise UsageError(prog, f"{flag} has nothing to draw with these options: no times, and no histograms")
    if flag == "--scatter" and not isinstance(tool, EventTool):
        raise UsageError(prog, "--scatter is for single events, and with these options there are histograms")
    if flag == "--bars" and isinstance(tool, EventTool):
        raise UsageError(prog, "--bars is for histograms, and with these options there are single events")
    if "scale" in given and (flag is None or not isinstance(tool, EventTool)):
        raise UsageError(prog, "--scale is for --heatmap and --scatter of single events")


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
    form.add_argument(
        "-f", "--folded", dest="form", action="store_const", const="folded", help="print folded stacks, one a line"
    )
    add_stack_files(group)


def add_stack_files(parser: argparse._ActionsContainer) -> None:
    """Add the options for a file of stacks of each format; `one_stack_file` reads them."""
    from pyebpf.output.stack_files import STACK_FILES

    # Not in the group of the others: its usage would be one line, however long.
    for name, each in STACK_FILES.items():
        read = partial(_stack_file, name)
        parser.add_argument(f"--{name}", dest="stack_files", action="append", type=read, metavar="FILE", help=each.help)


def _add_stacks(parser: argparse.ArgumentParser) -> None:
    """Add the further options of stack tools, with bcc's letters."""
    parser.add_argument("-d", "--delimited", action="store_true", help="a line between user and kernel frames")
    parser.add_argument("-a", "--annotated", action="store_true", help="mark the kernel's functions with _[k]")
    parser.add_argument("seconds", nargs="?", type=seconds, help="end after this many seconds (default: at Ctrl-C)")


def _stack_file(name: str, path: str) -> tuple[str, str]:
    return name, path


def one_stack_file(prog: str, files: Sequence[tuple[str, str]] | None, form: str | None) -> tuple[str, str] | None:
    """The format and the path of the file of stacks. Raises UsageError if another form or file is asked for as well."""
    if not files:
        return None
    first, *others = files
    if others or form is not None:
        raise UsageError(prog, f"argument --{first[0]}: not allowed with argument --{others[0][0] if others else form}")
    return first


class _Formatter(argparse.RawDescriptionHelpFormatter):
    """Keeps to 80 columns; asking for the terminal's width would load the archive formats of shutil."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, width=78)


#: The command of a tool that has none of its own: that of a file.
CALLED: dict[str, str] = {}


def program(tool: AnyTool) -> str:
    """The command that runs a tool."""
    return CALLED.get(tool.name, f"pyebpf {tool.name}")


def build_parser(tool: AnyTool) -> _Parser:
    """The parser of one tool's command line."""
    paragraphs = (tool.doc or "").strip().split("\n\n")
    if tool.section:
        paragraphs.append(f"BPF Performance Tools, section {tool.section}.")
    prog = program(tool)
    commands = [f"{prog}{example.command.removeprefix(tool.name)}" for example in tool.examples]
    width = max(map(len, commands), default=0)
    shown = zip(commands, tool.examples, strict=True)
    examples = [f"  {command:<{width}}  # {example.meaning}" for command, example in shown]
    parser = _Parser(
        prog=prog,
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
    if program(tool) == f"pyebpf {tool.name}":  # and no file of that name
        refuse_absent(parser, tool.name)
        parser.single = SINGLE.get(tool.name, "")
    return parser


def _delimited_hint(arguments: Sequence[str]) -> str:
    """The meaning of -d in a stack tool, for who gave it a number, as other tools take it."""
    after = [arguments[place + 1] for place, each in enumerate(arguments[:-1]) if each == "-d"]
    if any(each.replace(".", "", 1).isdecimal() for each in after):
        return "; -d is --delimited here, which has no value: seconds are --duration"
    return ""


def _disk_hint(tool: AnyTool, arguments: Sequence[str]) -> str:
    """The option for a disk, for who gave -d one, as bcc's tools take it."""
    flags = {flag for item in fields(tool.options) if "spec" in item.metadata for flag in item.metadata["spec"].flags}
    after = [arguments[place + 1] for place, each in enumerate(arguments[:-1]) if each == "-d"]
    named = next((each for each in after if each[:1].isalpha()), "")
    return f"; a disk is --disk {named}" if "--disk" in flags and named else ""


def parse(tool: AnyTool, arguments: Sequence[str]) -> tuple[Any, Common]:
    """A tool's options, an instance of its dataclass, and the common ones. Raises UsageError."""
    parser = build_parser(tool)
    parser.hint = _disk_hint(tool, arguments) or (_delimited_hint(arguments) if isinstance(tool, StackTool) else "")
    given = {name: value for name, value in vars(parser.parse_args(arguments)).items() if value is not None}
    own = {name.removeprefix("option."): given.pop(name) for name in list(given) if name.startswith("option.")}
    own = {name: tuple(value) if isinstance(value, list) else value for name, value in own.items()}
    if "seconds" in given:
        if "duration" in given:
            raise UsageError(parser.prog, "give the seconds once: by themselves or with --duration")
        given["duration"] = given.pop("seconds")
    if "every" in given:
        if "interval" in given:
            raise UsageError(parser.prog, "give the interval once: by itself or with --interval")
        given["interval"] = given.pop("every")
    if given.get("record") is None and ("record_size" in given or given.get("overwrite")):
        raise UsageError(parser.prog, "--record-size and --overwrite are about the file of --record FILE")
    if given.get("record") is not None and isinstance(tool, StackTool):
        own |= tool.recorded
    given["stack_file"] = one_stack_file(parser.prog, given.pop("stack_files", None), given.get("form"))
    of_stacks = given["stack_file"] is not None or given.get("form") == "folded"
    if given.get("record") is not None and isinstance(tool, SummaryTool) and of_stacks:
        raise UsageError(
            parser.prog,
            "--record is for intervals: leave out --folded and files of stacks, which `pyebpf show FILE` makes of them",
        )
    try:
        options = tool.options(**own)
        tool.check(options, command=True)
    except InvalidValue as error:
        raise UsageError(parser.prog, str(error)) from None
    mode = tool.mode(options)
    if "interval" in given and not isinstance(mode, SummaryTool):
        flags = " or ".join(_summary_flags(tool))
        raise UsageError(parser.prog, f"an interval is for summaries, which {flags} asks for")
    _check_pictures(parser.prog, mode, options, given)
    if isinstance(mode, SummaryTool) and (mode.screen or "heatmap" in given):
        given.setdefault("interval", 1.0)
    return options, Common(**given)


def parse_example(tool: AnyTool, command: str) -> tuple[Any, Common]:
    """The options of an `Example`'s command. Raises UsageError if it would be refused, or names another tool."""
    from shlex import split

    name, *arguments = split(command)
    if name != tool.name:
        raise UsageError(f"pyebpf {tool.name}", f"an example calls {name}")
    return parse(tool, arguments)
