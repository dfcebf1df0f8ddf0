"""Files of stacks for viewers and profilers: a declaration for each format, which the command line's options are.

A writer is given all stacks at once and returns the file: its size is bounded by the number of different stacks, which
tools limit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from pyebpf.dataclass import dataclass
from pyebpf.output.stacks import fold

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyebpf.output.flamegraph import Palette
    from pyebpf.output.stacks import Stack

#: What a tool's unit is of, and its name in pprof's and speedscope's files; all other units are of counts.
_QUANTITIES = {
    "ns": ("time", "nanoseconds"),
    "nanoseconds": ("time", "nanoseconds"),
    "us": ("time", "microseconds"),
    "microseconds": ("time", "microseconds"),
    "ms": ("time", "milliseconds"),
    "milliseconds": ("time", "milliseconds"),
    "seconds": ("time", "seconds"),
    "bytes": ("space", "bytes"),
}


@dataclass(frozen=True, slots=True)
class Recording:
    """The circumstances in which stacks were counted, for the files that tell them.

    `period` is the nanoseconds from one sample to the next, where stacks were sampled. `start` counts nanoseconds
    since 1970.
    """

    name: str
    title: str
    unit: str
    period: int | None = None
    start: int = 0
    duration: int = 0
    delimited: bool = False
    annotated: bool = False
    palette: Palette = "samples"

    @property
    def quantity(self) -> tuple[str, str]:
        """The quantity and its unit: ("samples", "count"), ("time", "microseconds"), ("space", "bytes")."""
        return _QUANTITIES.get(self.unit, (self.unit, "count"))


class StackFile(NamedTuple):
    """A format: the help of its option, whether a terminal may show it, and its writer."""

    help: str
    is_text: bool
    write: Callable[[Sequence[Stack], Recording], str | bytes]


def _svg(stacks: Sequence[Stack], recording: Recording) -> str:
    from pyebpf.output.flamegraph import flame_graph

    # Colours go by the marks.
    folded = fold(stacks, delimited=recording.delimited, annotated=True)
    return flame_graph(folded, title=recording.title, unit=recording.unit, palette=recording.palette)


def _speedscope(stacks: Sequence[Stack], recording: Recording) -> str:
    from pyebpf.output.speedscope import speedscope

    folded = fold(stacks, delimited=recording.delimited, annotated=recording.annotated)
    unit = recording.quantity[1]
    return speedscope(folded, name=recording.name, unit="none" if unit == "count" else unit)


def _pprof(stacks: Sequence[Stack], recording: Recording) -> bytes:
    from pyebpf.output.pprof import pprof

    return pprof(stacks, recording)


def _firefox(stacks: Sequence[Stack], recording: Recording) -> str:
    from pyebpf.output.firefox import firefox

    return firefox(stacks, recording)


#: The formats by their options: `--svg FILE`.
STACK_FILES = {
    "svg": StackFile(
        help="write an interactive flame graph; - to standard output",
        is_text=True,
        write=_svg,
    ),
    "speedscope": StackFile(help="write JSON for www.speedscope.app; - as above", is_text=True, write=_speedscope),
    "pprof": StackFile(help="write a profile for `go tool pprof`; - as above", is_text=False, write=_pprof),
    "firefox": StackFile(help="write JSON for profiler.firefox.com; - as above", is_text=True, write=_firefox),
}
