"""Output of stacks when a tool ends."""

from __future__ import annotations

import sys
import time
from itertools import islice
from typing import TYPE_CHECKING, Any

from pyebpf.cli.files import STANDARD_OUTPUT, write_whole
from pyebpf.cli.report import note
from pyebpf.errors import InvalidValue
from pyebpf.output.cut import cut_note
from pyebpf.output.escape import visible
from pyebpf.output.stack_files import STACK_FILES, Recording
from pyebpf.output.stacks import fold, write_stacks
from pyebpf.tool import StackTool
from pyebpf.unwinding import unwinder_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pyebpf.cli.drops import Drops
    from pyebpf.cli.parser import Common
    from pyebpf.cli.printing import Unrecorded
    from pyebpf.output.sink import Sink
    from pyebpf.output.stacks import Stack
    from pyebpf.tool import Stop, SummaryTool


def check_terminal(form: str, path: str) -> None:
    """Raise InvalidValue if a file that is no text would go to a terminal."""
    if path == STANDARD_OUTPUT and not STACK_FILES[form].is_text and sys.stdout.isatty():
        raise InvalidValue(f"--{form} writes no text, and standard output is a terminal: name a file")


def print_stacks(
    tool: StackTool[..., Any, Any],
    tracer: Any,
    options: object,
    common: Common,
    sink: Sink,
    stop: Stop,
    drops: Drops,
    recorder: Unrecorded,
) -> None:
    """Watch until the stop, then print the stacks or write them to a file."""
    # Naming the frames of thousands of files takes a minute, and a signal wants the end.
    tracer.stacks.hurry(stop.patience)
    tracer.stacks.prepare()
    watched = _Watched()
    collected = iter(tool.collect(tracer, options, stop))
    stacks = list(islice(collected, 1))  # all are counted by now; naming the others' frames may take longer than that
    watched.end(drops)
    stacks += collected
    period = None if tool.period is None else tool.period(options)
    _print(tool, stacks, watched, period, tracer, common, sink, recorder)


def print_summary_stacks(
    tool: SummaryTool[..., Any, Any, Any],
    tracer: Any,
    options: object,
    common: Common,
    sink: Sink,
    stop: Stop,
    drops: Drops,
    recorder: Unrecorded,
    intervals: Iterable[tuple[int, bool]],
) -> None:
    """Watch to the end of the last interval, then print what there is by stack or write it to a file."""
    assert tool.stacks is not None, "only tools with stacks have these options"
    tracer.stacks.hurry(stop.patience)
    watched = _Watched()
    for done, last in intervals:
        if last or done == common.count:
            break
    watched.end(drops)
    _print(tool, list(tool.stacks(tracer, options)), watched, None, tracer, common, sink, recorder)


class _Watched:
    """When watching began, in nanoseconds since 1970, and how long it took."""

    def __init__(self) -> None:
        self.start, self._began = time.time_ns(), time.monotonic_ns()
        self.duration = 0

    def end(self, drops: Drops) -> None:
        """End it now: drops that come later are of no stack that is printed."""
        self.duration = time.monotonic_ns() - self._began
        drops.end()


def _print(
    tool: StackTool[..., Any, Any] | SummaryTool[..., Any, Any, Any],
    stacks: Sequence[Stack],
    watched: _Watched,
    period: int | None,
    tracer: Any,
    common: Common,
    sink: Sink,
    recorder: Unrecorded,
) -> None:
    say_why_names_are_missing(tracer, stacks)
    end = recorder.stamps.now()
    recorder.stacks(end, stacks)
    recording = Recording(
        name=f"pyebpf {tool.name}",
        title=f"pyebpf {tool.name}: {tool.tracing}",
        unit=tool.unit,
        period=period,
        start=watched.start,
        duration=watched.duration,
        delimited=common.delimited,
        annotated=common.annotated,
        palette=tool.palette if isinstance(tool, StackTool) else "samples",
    )
    if not stacks and common.stack_file is None and isinstance(tool, StackTool) and tool.unseen:
        note(f"No stacks were seen; {tool.unseen}")
    else:
        output_stacks(stacks, common, sink, time=recorder.stamps.iso(end), recording=recording)
    unwinder = unwinder_of(tracer)
    told = cut_note(stacks, tool.unit, unwound=unwinder is not None)
    if told:
        note(told)
    if unwinder is not None and unwinder.given_up:
        note(f"stacks follow frame pointers in a file: {_first_of(unwinder.given_up)}")


def output_stacks(stacks: Sequence[Stack], common: Common, sink: Sink, *, time: str, recording: Recording) -> None:
    """Print stacks, or write them to the file that the options name; `time` is when counting ended."""
    if common.stack_file is None:
        if not stacks:
            note("No stacks were seen")
        write_stacks(stacks, common.form, sink, time=time, delimited=common.delimited, annotated=common.annotated)
        return
    form, path = common.stack_file
    total, different = sum(stack.count for stack in stacks), len(fold(stacks))
    summary = f"{total} {recording.unit} of {different} different stacks"
    write_whole(path, STACK_FILES[form].write(stacks, recording), summary, sink)


def say_why_names_are_missing(tracer: Any, stacks: Sequence[Stack]) -> None:
    """A note, if there are frames of the kernel and none of them has a name."""
    frames = [frame for stack in stacks for frame in stack.kernel or ()]
    if frames and all(frame.module == "" for frame in frames) and tracer.stacks.hidden:
        note(f"functions of the kernel have no names: {tracer.stacks.hidden}")
    given_up = dict(tracer.stacks.given_up)
    if given_up:
        note(f"some functions have no names: {_first_of(given_up)}")


def _first_of(reasons: Mapping[str, str]) -> str:
    more = f", and so for others: {len(reasons) - 1}" if len(reasons) > 1 else ""
    return f"{visible(next(iter(reasons.values())))}{more}"
