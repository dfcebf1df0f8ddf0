"""Heat maps and scatter plots of recordings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyebpf.cli.files import write_whole
from pyebpf.cli.pictures import Events, event_picture, interval_picture
from pyebpf.cli.report import UsageError
from pyebpf.errors import InvalidValue

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyebpf.cli.parser import Common
    from pyebpf.cli.pictures import Picture
    from pyebpf.output.sink import Sink
    from pyebpf.output.stacks import Stack
    from pyebpf.output.timestamps import Dates
    from pyebpf.recording.reader import Header


def check_picture(header: Header, common: Common) -> None:
    """Raise UsageError for a picture of what a recording does not have."""
    if common.subsecond is not None and header.kind != "stacks":
        raise UsageError("pyebpf show", f"--subsecond is for samples of stacks, and {header.tool} has none")
    if common.heatmap is None and common.scatter is None and common.bars is None:
        return
    flag = "--scatter" if common.scatter is not None else "--bars" if common.bars is not None else "--heatmap"
    reason = _nothing_to_draw(header, flag)
    if reason:
        raise UsageError("pyebpf show", f"{flag} has nothing to draw: {reason}")


def _nothing_to_draw(header: Header, flag: str) -> str:
    """The reason why a recording has nothing for a picture, and what it has; "" if it has."""
    tool = header.tool
    if header.kind == "stacks":
        return f"{tool} recorded stacks: write --svg FILE, or of samples with their times --subsecond FILE"
    if header.kind == "summary":
        if header.summary is not None:
            return f"{tool} recorded rows of a table: it is for histograms, or for events with a latency or the like"
        if flag == "--scatter":
            return f"it draws single events, and {tool} recorded histograms: write --heatmap FILE or --bars FILE"
        return ""
    if header.events is None or not any(column.drawn for column in header.events.columns):
        return f"{tool} recorded no times for it: its events have no latency or the like"
    if flag == "--bars":
        return f"it draws histograms, and {tool} recorded single events: write --heatmap FILE or --scatter FILE"
    return ""


def recorded_picture(header: Header, common: Common, dates: Dates, now: Callable[[], int]) -> Picture | None:
    """The picture that the options ask for; `now` gives the time of the entry that was read last."""

    def date(time: int) -> str:
        return dates.iso(time)[:19].replace("T", " ")

    title = f"pyebpf {header.tool}: {header.tracing}"
    if header.kind == "events" and header.events is not None:
        return event_picture(Events(title, header.events.columns, lambda _: now(), date), common)
    # One summary, of all, is one column.
    return interval_picture(title, common, header.interval or 0, header.start, now, date)


def write_subsecond(path: str, file: str, stacks: Sequence[Stack], header: Header, dates: Dates, sink: Sink) -> None:
    """Write the sub-second offset heat map of a recording: a page if the file's name says so, else SVG.

    Raises InvalidValue for stacks without times.
    """
    from shlex import quote

    from pyebpf.output.subsecond import subsecond_heat_map, subsecond_page

    total = sum(count for stack in stacks for _, count in stack.times)
    if stacks and not total:
        raise InvalidValue("the recording has no times of samples: `pyebpf profile --record` keeps them")
    title, began = f"pyebpf {header.tool}: {header.tracing}", dates.iso(header.start)[:19].replace("T", " ")
    if path.endswith((".html", ".htm")):
        command = f"pyebpf show {quote(file)} --svg out.svg"
        content = subsecond_page(stacks, header.start, title=title, began=began, command=command)
    else:
        content = subsecond_heat_map(stacks, header.start, title=title, began=began)
    write_whole(path, content, f"{total} samples of {len(stacks)} stacks", sink)
