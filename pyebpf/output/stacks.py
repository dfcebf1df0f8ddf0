"""Stacks with what was counted of them, as text, folded lines, JSON or CSV, and as files for viewers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, Protocol

from pyebpf.dataclass import dataclass
from pyebpf.output.escape import json_text, visible
from pyebpf.output.folded import folded_lines

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pyebpf.output.sink import Sink

__all__ = ["STACK_FORMATS", "Frame", "Stack", "StackFormat", "fold", "names", "write_stacks"]

StackFormat = Literal["text", "folded", "csv", "json"]
STACK_FORMATS: tuple[StackFormat, ...] = ("text", "folded", "csv", "json")
_DELIMITER = "-"


class Frame(Protocol):
    """An address with its name, as symbols give it."""

    @property
    def label(self) -> str:
        """The function's name, or what stands for it."""

    @property
    def module(self) -> str:
        """The file or kernel module that has it."""


@dataclass(frozen=True, slots=True)
class Stack:
    """Amount counted with one stack of one process.

    Frames are the innermost first. `user` and `kernel` are None where they were not asked for, empty where there is
    no such stack; `pid` is None if processes are not told apart.
    """

    count: int
    comm: str
    pid: int | None = None
    user: tuple[Frame, ...] | None = None
    kernel: tuple[Frame, ...] | None = None


def names(stack: Stack, *, delimited: bool = False, annotated: bool = False) -> tuple[str, ...]:
    """A stack as flame graphs take it: the process's name, then functions, the outermost first.

    `delimited`: a "-" between those of the process and those of the kernel. `annotated`: the kernel's end in `_[k]`,
    those compiled just in time in `_[j]`.
    """
    user = [
        _named(frame, "_[j]" if annotated and frame.module == "[jit]" else "") for frame in reversed(stack.user or ())
    ]
    kernel = [_named(frame, "_[k]" if annotated else "") for frame in reversed(stack.kernel or ())]
    between = [_DELIMITER] if delimited and user and kernel else []
    return (visible(stack.comm), *user, *between, *kernel)


def _named(frame: Frame, mark: str) -> str:
    return visible(frame.label) + mark


def fold(stacks: Iterable[Stack], *, delimited: bool = False, annotated: bool = False) -> dict[tuple[str, ...], int]:
    """Stacks by their names; those that differ in addresses or processes alone are added up."""
    found: dict[tuple[str, ...], int] = {}
    for stack in stacks:
        key = names(stack, delimited=delimited, annotated=annotated)
        found[key] = found.get(key, 0) + stack.count
    return found


def write_stacks(
    stacks: Sequence[Stack], form: StackFormat, sink: Sink, *, delimited: bool = False, annotated: bool = False
) -> None:
    """Write stacks to a sink. As text the most frequent come last, where they are seen; else first."""
    ordered = sorted(stacks, key=lambda stack: (-stack.count, stack.comm, stack.pid or 0))
    if form == "folded":
        lines = folded_lines(fold(stacks, delimited=delimited, annotated=annotated))
        sink.write("".join(f"{line}\n" for line in lines))
    elif form == "json":
        sink.write("".join(f"{_json(stack)}\n" for stack in ordered))
    elif form == "csv":
        sink.write(_csv(ordered, delimited=delimited, annotated=annotated))
    else:
        sink.write("".join(_text(stack, delimited=delimited) for stack in reversed(ordered)))


def _text(stack: Stack, *, delimited: bool) -> str:
    kernel = [_named(frame, "") for frame in stack.kernel or ()]
    user = [_named(frame, "") for frame in stack.user or ()]
    between = ["--"] if delimited and user and kernel else []
    who = visible(stack.comm) + (f" ({stack.pid})" if stack.pid is not None else "")
    frames = "".join(f"    {name}\n" for name in (*kernel, *between, *user))
    return f"{frames}    {_DELIMITER:<16} {who}\n        {stack.count}\n\n"


def _json(stack: Stack) -> str:
    import json

    # ASCII only, as all JSON of the tools.
    record: dict[str, object] = {"COMM": json_text(stack.comm)}
    if stack.pid is not None:
        record["PID"] = stack.pid
    for key, frames in (("USER", stack.user), ("KERNEL", stack.kernel)):
        if frames is not None:
            record[key] = [json_text(frame.label) for frame in frames]
    record["COUNT"] = stack.count
    return json.dumps(record)


def _csv(stacks: Sequence[Stack], *, delimited: bool, annotated: bool) -> str:
    import csv
    import io

    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["COMM", "PID", "COUNT", "STACK"])
    for stack in stacks:
        _, *frames = names(stack, delimited=delimited, annotated=annotated)
        pid = "" if stack.pid is None else stack.pid
        writer.writerow([visible(stack.comm), pid, stack.count, ";".join(name.replace(";", ":") for name in frames)])
    return out.getvalue()
