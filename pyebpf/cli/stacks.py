"""Output of stack tools when they end, and the files that they write."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyebpf.cli.report import note
from pyebpf.errors import InvalidValue
from pyebpf.output.escape import visible
from pyebpf.output.stack_files import STACK_FILES, Recording
from pyebpf.output.stacks import fold, write_stacks
from pyebpf.output.timestamps import Timestamps
from pyebpf.tool.files import write_file

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pyebpf.cli.parser import Common
    from pyebpf.output.sink import Sink
    from pyebpf.output.stacks import Stack
    from pyebpf.tool import StackTool, Stop, SummaryTool

STANDARD_OUTPUT = "-"


def check_file(form: str, path: str) -> None:
    """Raise InvalidValue if a file cannot be written: before minutes of tracing, not after."""
    if path == STANDARD_OUTPUT:
        if not STACK_FILES[form].is_text and sys.stdout.isatty():
            raise InvalidValue(f"--{form} writes no text, and standard output is a terminal: name a file")
        return
    if not path:
        raise InvalidValue("name the file to write, or - for standard output")
    place = Path(path)
    if place.is_dir():
        raise InvalidValue(f"{path} cannot be written: it is a directory")
    if not place.parent.is_dir():
        raise InvalidValue(f"{path} cannot be written: there is no directory {place.parent}")
    if not os.access(place if place.exists() else place.parent, os.W_OK):
        raise InvalidValue(f"{path} cannot be written by this user")


def print_stacks(
    tool: StackTool[..., Any, Any], tracer: Any, options: object, common: Common, sink: Sink, stop: Stop
) -> None:
    """Watch until the stop, then print the stacks or write them to a file."""
    # Naming the frames of thousands of files takes a minute, and a signal wants the end.
    tracer.stacks.hurry(stop.patience)
    tracer.stacks.prepare()
    began = _Began()
    stacks = list(tool.collect(tracer, options, stop))
    period = None if tool.period is None else tool.period(options)
    _print(tool, stacks, began, period, tracer, common, sink)


def print_summary_stacks(
    tool: SummaryTool[..., Any, Any, Any],
    tracer: Any,
    options: object,
    common: Common,
    sink: Sink,
    stop: Stop,
    intervals: Iterable[tuple[int, bool]],
) -> None:
    """Watch to the end of the last interval, then print what there is by stack or write it to a file."""
    assert tool.stacks is not None, "only tools with stacks have these options"
    tracer.stacks.hurry(stop.patience)
    began = _Began()
    for done, last in intervals:
        if last or done == common.count:
            break
    _print(tool, list(tool.stacks(tracer, options)), began, None, tracer, common, sink)


class _Began:
    """The time at which watching began, by both clocks."""

    def __init__(self) -> None:
        self.wall, self.monotonic = time.time_ns(), time.monotonic_ns()


def _print(
    tool: StackTool[..., Any, Any] | SummaryTool[..., Any, Any, Any],
    stacks: Sequence[Stack],
    began: _Began,
    period: int | None,
    tracer: Any,
    common: Common,
    sink: Sink,
) -> None:
    duration = time.monotonic_ns() - began.monotonic
    _say_why_names_are_missing(tracer, stacks)
    if common.stack_file is None:
        if not stacks:
            note("No stacks were seen")
        stamps = Timestamps()
        now = stamps.iso(stamps.now())
        write_stacks(stacks, common.form, sink, time=now, delimited=common.delimited, annotated=common.annotated)
        return
    recording = Recording(
        name=f"pyebpf {tool.name}",
        title=f"pyebpf {tool.name}: {tool.tracing}",
        unit=tool.unit,
        period=period,
        start=began.wall,
        duration=duration,
        delimited=common.delimited,
        annotated=common.annotated,
    )
    form, path = common.stack_file
    write_content(path, STACK_FILES[form].write(stacks, recording), sink)
    if path != STANDARD_OUTPUT:
        different = len(fold(stacks))
        note(f"{path}: {sum(stack.count for stack in stacks)} {tool.unit} of {different} different stacks")


def write_content(path: str, content: str | bytes, sink: Sink) -> None:
    """Write a file, or to the sink for `-`. Raises InvalidValue if it cannot be written."""
    if path == STANDARD_OUTPUT:
        sink.write_bytes(content) if isinstance(content, bytes) else sink.write(content)
        return
    try:
        write_file(path, content)
    except OSError as error:
        raise InvalidValue(f"{path} cannot be written: {error.strerror}") from error


def _say_why_names_are_missing(tracer: Any, stacks: Sequence[Stack]) -> None:
    """A note, if there are frames of the kernel and none of them has a name."""
    frames = [frame for stack in stacks for frame in stack.kernel or ()]
    if frames and all(frame.module == "" for frame in frames) and tracer.stacks.hidden:
        note(f"functions of the kernel have no names: {tracer.stacks.hidden}")
    given_up = dict(tracer.stacks.given_up)
    if given_up:
        more = f", and so for others: {len(given_up) - 1}" if len(given_up) > 1 else ""
        note(f"functions of a file have no names: {visible(next(iter(given_up.values())))}{more}")
