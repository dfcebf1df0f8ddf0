"""Output of stack tools when they end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from pyebpf.cli.files import write_whole
from pyebpf.cli.report import note
from pyebpf.output.escape import visible
from pyebpf.output.stacks import fold, write_stacks

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyebpf.cli.parser import Common
    from pyebpf.cli.printing import Unrecorded
    from pyebpf.output.sink import Sink
    from pyebpf.output.stacks import Stack
    from pyebpf.tool import StackTool, Stop

#: Units of the tools that are units of speedscope's, too; all others are counts to it.
_UNITS = ("nanoseconds", "microseconds", "milliseconds", "seconds", "bytes")


def print_stacks(
    tool: StackTool[..., Any, Any],
    tracer: Any,
    options: object,
    common: Common,
    sink: Sink,
    stop: Stop,
    recorder: Unrecorded,
) -> None:
    """Watch until the stop, then print the stacks or write them to a file."""
    # Naming the frames of thousands of files takes a minute, and a signal wants the end.
    tracer.stacks.hurry(stop.patience)
    tracer.stacks.prepare()
    stacks = list(tool.collect(tracer, options, stop))
    _say_why_names_are_missing(tracer, stacks)
    end = recorder.stamps.now()
    recorder.stacks(end, stacks)
    output_stacks(stacks, common, sink, time=recorder.stamps.iso(end), tool=tool)


class StackSource(Protocol):
    """The tool that counted, as a flame graph names it."""

    @property
    def name(self) -> str:
        """The tool's name."""

    @property
    def tracing(self) -> str:
        """The things that it traced, in a word or two."""

    @property
    def unit(self) -> str:
        """The unit of counts."""


def output_stacks(stacks: Sequence[Stack], common: Common, sink: Sink, *, time: str, tool: StackSource) -> None:
    """Print stacks, or write them to the file that the options name; `time` is when counting ended."""
    path = common.svg or common.speedscope
    if path is None:
        if not stacks:
            note("No stacks were seen")
        write_stacks(stacks, common.form, sink, time=time, delimited=common.delimited, annotated=common.annotated)
        return
    # Colours go by the marks.
    folded = fold(stacks, delimited=common.delimited, annotated=common.annotated or common.svg is not None)
    if common.svg is not None:
        from pyebpf.output.flamegraph import flame_graph

        content = flame_graph(folded, title=f"pyebpf {tool.name}: {tool.tracing}", unit=tool.unit)
    else:
        from pyebpf.output.speedscope import speedscope

        unit = tool.unit if tool.unit in _UNITS else "none"
        content = speedscope(folded, name=f"pyebpf {tool.name}", unit=unit)
    write_whole(path, content, f"{sum(folded.values())} {tool.unit} of {len(folded)} different stacks", sink)


def _say_why_names_are_missing(tracer: Any, stacks: Sequence[Stack]) -> None:
    """A note, if there are frames of the kernel and none of them has a name."""
    frames = [frame for stack in stacks for frame in stack.kernel or ()]
    if frames and all(frame.module == "" for frame in frames) and tracer.stacks.hidden:
        note(f"functions of the kernel have no names: {tracer.stacks.hidden}")
    given_up = dict(tracer.stacks.given_up)
    if given_up:
        more = f", and so for others: {len(given_up) - 1}" if len(given_up) > 1 else ""
        note(f"functions of a file have no names: {visible(next(iter(given_up.values())))}{more}")
