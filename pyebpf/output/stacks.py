"""Stacks with what was counted of them, as text, folded lines, JSON or CSV, and as files for viewers."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol

from pyebpf.dataclass import dataclass, replace
from pyebpf.output.cut import is_cut
from pyebpf.output.escape import escaped, json_text, text_of
from pyebpf.output.records import Record

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from pyebpf.output.sink import Sink

StackFormat = Literal["text", "folded", "csv", "json"]
_DELIMITER = "-"
_JIT = "[jit]"
_INLINED = " (inlined)"
_SOURCE = re.compile(rf"(?P<name>.+?):(?P<file>[^:]+):(?P<line>\d{{1,9}})({re.escape(_INLINED)})?", re.DOTALL)
Kind = Literal["user", "kernel", "jit", "mark"]
#: The name of the box between a stack and a further part.
BETWEEN_PARTS = "--"
#: Characters of a function's name at most: more than symbols make, and few enough for each of many stacks to have it.
LONGEST_NAME = 1 << 13
#: Nanoseconds that samples of one time are apart at most: a second has 50 slots.
SLOT = 20_000_000


def first_slot(start: int) -> int:
    """The beginning of the slot of a time: those of a recording count from that of its start."""
    return start - start % SLOT


def cut_name(name: str, most: int = LONGEST_NAME) -> str:
    """A function's name, with `…` in place of its end if it is longer than any may be."""
    return name if len(name) <= most else f"{name[: most - 1]}…"


class Frame(Protocol):
    """An address with its name, as symbols give it."""

    @property
    def label(self) -> str:
        """The function's name, or what stands for it."""

    @property
    def module(self) -> str:
        """The file or kernel module that has it."""


@dataclass(frozen=True, slots=True)
class StackPart(Record):
    """A further stack that belongs to a `Stack`, by its `name`: "waker", of the thread that woke this one."""

    name: str
    comm: str
    pid: int | None = None
    user: tuple[Frame, ...] | None = None
    kernel: tuple[Frame, ...] | None = None


@dataclass(frozen=True, slots=True)
class Stack(Record):
    """Amount counted with one stack of one process.

    Frames are the innermost first. `user` and `kernel` are None where they were not asked for, empty where there is
    no such stack; `pid` is None if processes are not told apart. `parts` are further stacks, the nearest first: who
    woke this thread, who woke that one. In folded lines and flame graphs they come on top, the innermost frame first,
    so that both ends of a wakeup meet. `times` are those of samples, where they were kept: each time at which a slot of
    SLOT nanoseconds begins, since 1970, with how often this stack was seen in it.
    """

    count: int
    comm: str
    pid: int | None = None
    user: tuple[Frame, ...] | None = None
    kernel: tuple[Frame, ...] | None = None
    parts: tuple[StackPart, ...] = ()
    times: tuple[tuple[int, int], ...] = ()

    def within(self, first: float, last: float) -> Stack | None:
        """The part of what was counted from one time to another, to the nearest slots; None if there is none."""
        kept = tuple((time, count) for time, count in self.times if first <= time + SLOT // 2 < last)
        total = sum(count for _, count in kept)
        return replace(self, count=total, times=kept) if total else None


def names(stack: Stack, *, delimited: bool = False, annotated: bool = False) -> tuple[str, ...]:
    """A stack as flame graphs take it: the process's name, then functions, the outermost first.

    `delimited`: a "-" between those of the process and those of the kernel. `annotated`: the kernel's end in `_[k]`,
    those compiled just in time in `_[j]`. Each further part comes behind a `--`, with its process's name last.
    """
    found = _outermost_first(stack, delimited=delimited, annotated=annotated)
    for part in stack.parts:
        found += [BETWEEN_PARTS, *reversed(_outermost_first(part, delimited=delimited, annotated=annotated))]
    return tuple(found)


class Function(NamedTuple):
    """A function, and the place in its source where a frame is; "" and 0 where that is not known."""

    name: str
    file: str = ""
    line: int = 0


class Entry(NamedTuple):
    """A line of a stack for other profilers; a "mark" is no function: it separates parts, or names a process."""

    name: str
    module: str
    kind: Kind

    @property
    def function(self) -> Function:
        """The function apart from the file and line at the end of its name, as `--source` and `--python` give them."""
        return Function(self.name) if self.kind == "mark" else function_of(self.name)


def function_of(name: str) -> Function:
    """The function of a frame's name: `work:a.c:7 (inlined)` and `py::work:/srv/a.py:7` have their place in it."""
    match = _SOURCE.fullmatch(name)
    if match is not None:
        return Function(match["name"], match["file"], int(match["line"]))
    return Function(name.removesuffix(_INLINED))


def entries(stack: Stack) -> list[Entry]:
    """The frames of a stack and of its parts, the outermost first, as `names` has them, without the process's name.

    A stack without frames has that name in their place: a sample is not to be lost for want of a function.
    """
    found = _entries(stack)
    for part in stack.parts:
        ends = [*reversed(_entries(part)), Entry(text_of(part.comm), "", "mark")]
        found += [Entry(BETWEEN_PARTS, "", "mark"), *ends]
    return found or [Entry(text_of(stack.comm), "", "mark")]


def _entries(stack: Stack | StackPart) -> list[Entry]:
    user = [
        Entry(frame.label, frame.module, "jit" if frame.module == _JIT else "user")
        for frame in reversed(stack.user or ())
    ]
    return user + [Entry(frame.label, frame.module, "kernel") for frame in reversed(stack.kernel or ())]


def _outermost_first(stack: Stack | StackPart, *, delimited: bool, annotated: bool) -> list[str]:
    user = [_named(frame, "_[j]" if annotated and frame.module == _JIT else "") for frame in reversed(stack.user or ())]
    kernel = [_named(frame, "_[k]" if annotated else "") for frame in reversed(stack.kernel or ())]
    between = [_DELIMITER] if delimited and user and kernel else []
    return [text_of(stack.comm), *user, *between, *kernel]


def _named(frame: Frame, mark: str) -> str:
    return frame.label + mark


def fold(stacks: Iterable[Stack], *, delimited: bool = False, annotated: bool = False) -> dict[tuple[str, ...], int]:
    """Stacks by their names; those that differ in addresses or processes alone are added up.

    A name with its mark is kept once, however many stacks have it.
    """
    found: dict[tuple[str, ...], int] = {}
    known: dict[str, str] = {}
    for stack in stacks:
        key = tuple([known.setdefault(name, name) for name in names(stack, delimited=delimited, annotated=annotated)])
        found[key] = found.get(key, 0) + stack.count
    return found


def merged(stacks: Iterable[Stack]) -> list[Stack]:
    """Stacks that differ in what is shown of them: those that differ in addresses alone are one, with their sum."""
    found: dict[object, Stack] = {}
    for stack in stacks:
        key = (_read(stack), *(_read(part) for part in stack.parts))
        before = found.get(key)
        found[key] = stack if before is None else replace(before, count=before.count + stack.count)
    return list(found.values())


def _read(stack: Stack | StackPart) -> object:
    """Return what a reader can tell two stacks by, in any form and with any mark."""
    found: list[object] = [getattr(stack, "name", ""), stack.comm, stack.pid]
    for frames in (stack.user, stack.kernel):
        # Numbers of the few, not a pair for each frame: there may be millions of frames.
        found.append(None if frames is None else tuple([frame.label for frame in frames]))
        found.append(tuple([number for number, frame in enumerate(frames or ()) if frame.module == _JIT]))
    return tuple(found)


def folded_lines(stacks: Mapping[tuple[str, ...], int]) -> Iterator[str]:
    """A line a stack, as flame-graph programs read them: `python3;main;work;compute 41`, the most frequent first.

    Stacks are tuples of names, outermost first. Semicolons in names become colons, what is not printable an escape.
    """
    for stack, count in sorted(stacks.items(), key=lambda item: (-item[1], item[0])):
        yield f"{';'.join(escaped(name).replace(';', ':') for name in stack)} {count}"


def write_stacks(
    stacks: Sequence[Stack],
    form: StackFormat,
    sink: Sink,
    *,
    time: str = "",
    delimited: bool = False,
    annotated: bool = False,
) -> None:
    """Write stacks to a sink, those that read the same as one. As text the most frequent come last, else first.

    CSV and JSON have the `time` at which counting ended.
    """
    ordered = sorted(merged(stacks), key=lambda stack: (-stack.count, stack.comm, stack.pid or 0))
    pieces: Iterator[str]
    if form == "folded":
        lines = folded_lines(fold(stacks, delimited=delimited, annotated=annotated))
        pieces = (f"{line}\n" for line in lines)
    elif form == "json":
        pieces = (f"{_json(stack, time)}\n" for stack in ordered)
    elif form == "csv":
        pieces = _csv(ordered, time, delimited=delimited, annotated=annotated)
    else:
        pieces = (_text(stack, delimited=delimited) for stack in reversed(ordered))
    # A piece at a time: thousands of stacks with long names are more text than memory should hold.
    held, sink.holds = sink.holds, True
    try:
        for piece in pieces:
            sink.write(piece)
    finally:
        sink.holds = held
        sink.flush()


def _text(stack: Stack, *, delimited: bool) -> str:
    lines: list[str] = []
    for part in reversed(stack.parts):
        lines += [*reversed(_lines(part, part.name, delimited=delimited)), BETWEEN_PARTS]
    lines += _lines(stack, _DELIMITER, delimited=delimited)
    return "".join(f"    {line}\n" for line in lines) + f"        {stack.count}\n\n"


def _lines(stack: Stack | StackPart, name: str, *, delimited: bool) -> list[str]:
    """The frames, the innermost first, and the process."""
    kernel = [escaped(_named(frame, "")) for frame in stack.kernel or ()]
    user = [escaped(_named(frame, "")) for frame in stack.user or ()]
    between = ["--"] if delimited and user and kernel else []
    who = escaped(stack.comm) + (f" ({stack.pid})" if stack.pid is not None else "")
    return [*kernel, *between, *user, f"{name:<16} {who}"]


def _json(stack: Stack, time: str) -> str:
    import json

    # ASCII only, as all JSON of the tools.
    return json.dumps({"time": time, **stack_object(stack)})


def stack_object(stack: Stack) -> dict[str, object]:
    """A stack as JSON has it, without the time."""
    parts = [{"name": part.name, **_object(part)} for part in stack.parts]
    return {**_object(stack), **({"parts": parts} if parts else {}), "count": stack.count}


def _object(stack: Stack | StackPart) -> dict[str, object]:
    found: dict[str, object] = {"comm": json_text(stack.comm)}
    if stack.pid is not None:
        found["pid"] = stack.pid
    for key, frames in (("user", stack.user), ("kernel", stack.kernel)):
        if frames is not None:
            found[key] = [json_text(frame.label) for frame in frames]
    if stack.user is not None:
        found["cut"] = is_cut(stack.user)
    return found


def _csv(stacks: Sequence[Stack], time: str, *, delimited: bool, annotated: bool) -> Iterator[str]:
    import csv
    import io

    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["time", "comm", "pid", "count", "stack"])
    yield out.getvalue()
    for stack in stacks:
        out.seek(0)
        out.truncate()
        _, *frames = names(stack, delimited=delimited, annotated=annotated)
        pid = "" if stack.pid is None else stack.pid
        writer.writerow(
            [time, escaped(stack.comm), pid, stack.count, ";".join(escaped(name).replace(";", ":") for name in frames)]
        )
        yield out.getvalue()
