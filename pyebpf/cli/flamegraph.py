"""`pyebpf flamegraph`: folded stacks as a flame graph, or two files of them as a graph of their difference."""

from __future__ import annotations

import sys
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from pyebpf.cli.bytecode import Parser
from pyebpf.cli.files import STANDARD_OUTPUT, check_file, write_content
from pyebpf.cli.report import standard_input
from pyebpf.errors import InvalidValue, MalformedData
from pyebpf.output.flamegraph import PALETTES, difference_graph, flame_graph
from pyebpf.output.folded import read_folded
from pyebpf.output.sink import Sink
from pyebpf.recording.blocks import MAGIC

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

DESCRIPTION = """\
Draws folded stacks as a flame graph: SVG for a browser, which needs nothing
else. Two files are compared, as if both recordings had been equally long: what
takes a larger share than before is red, what takes a smaller one blue.

  $ pyebpf profile -af 30 >a.folded
  $ pyebpf flamegraph a.folded -o a.svg
  $ pyebpf flamegraph a.folded b.folded -o diff.svg    before and after
  $ pyebpf offcputime -df 5 | pyebpf flamegraph -u us -p off-cpu -o off.svg"""


def parser() -> Parser:
    """Declare the options."""
    made = Parser("flamegraph", DESCRIPTION)
    made.add_argument(
        "files",
        metavar="FILE",
        nargs="*",
        help="folded stacks (default: - for standard input); of two the first is before",
    )
    made.add_argument("-o", "--output", metavar="FILE", default=STANDARD_OUTPUT, help="write this file")
    made.add_argument("-i", "--inverted", action="store_true", help="the outermost functions on top (icicle graph)")
    made.add_argument(
        "-p",
        "--palette",
        choices=PALETTES,
        default=PALETTES[0],
        help="colours: of what runs (samples, the default), of what is blocked (off-cpu), of who wakes (wakeups)",
    )
    made.add_argument(
        "--no-comm", action="store_true", help="leave out the processes' names, as to compare programs of two names"
    )
    made.add_argument("-t", "--title", metavar="TEXT", help="the title (default: of the files)")
    made.add_argument("-u", "--unit", default="samples", metavar="TEXT", help="what is counted (default: samples)")
    return made


def run_flamegraph(arguments: Sequence[str]) -> int:
    """Draw. Raises MalformedData for lines that are no folded stacks, InvalidValue for files that can't be used."""
    made = parser()
    options = made.parse_args(arguments)
    files = options.files or [STANDARD_OUTPUT]
    if len(files) > 2:
        made.error("give one file, or two to compare")
    if len(files) == 2 and options.palette != PALETTES[0]:
        made.error("--palette is for one file: of two the colours are the difference")
    if files.count(STANDARD_OUTPUT) > 1:
        made.error("standard input can be one of the files, not both")
    check_file(options.output, *files)
    stacks = [_read(file) for file in files]
    if options.no_comm:
        stacks = [_without_names(each) for each in stacks]
    shown = [Path(file).name if file != STANDARD_OUTPUT else "standard input" for file in files]
    title = ", compared with ".join(reversed(shown)) if options.title is None else options.title
    look = {"title": title, "unit": options.unit, "inverted": options.inverted}
    if len(stacks) == 1:
        content = flame_graph(*stacks, **look, palette=options.palette)
    else:
        content = difference_graph(*stacks, **look)
    write_content(options.output, content, Sink.of(sys.stdout))
    return 0


def _without_names(stacks: dict[tuple[str, ...], int]) -> dict[tuple[str, ...], int]:
    """Stacks without the first name, but for those that have nothing else."""
    found: dict[tuple[str, ...], int] = {}
    for stack, count in stacks.items():
        key = stack[1:] or stack
        found[key] = found.get(key, 0) + count
    return found


def _read(path: str) -> dict[tuple[str, ...], int]:
    # Bytes that are no text stay what they were, for the escapes of the picture.
    if path == STANDARD_OUTPUT:
        return _folded((line.decode(errors="surrogateescape") for line in standard_input()), "<stdin>")
    try:
        with Path(path).open(encoding="utf-8", errors="surrogateescape", newline="\n") as file:
            return _folded(file, path)
    except OSError as error:
        raise InvalidValue(f"{path} cannot be read: {error.strerror}") from error


def _folded(lines: Iterable[str], name: str) -> dict[tuple[str, ...], int]:
    """The stacks of a file. Raises MalformedData, and for a recording says which command draws it."""
    rest = iter(lines)
    first = next(rest, "")
    if first.startswith(MAGIC[:-1].decode()):
        raise MalformedData(
            f"{name}: this is a recording, and flamegraph draws folded stacks: write "
            "`pyebpf show RECORDING --svg FILE`, or have `pyebpf show RECORDING -f` print its folded stacks"
        )
    return read_folded(chain((first,), rest), name)
