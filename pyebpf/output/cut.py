"""Stacks of processes that end before the function that started the thread: how many, of whom, and what to do.

The kernel follows frame pointers. In code without them the chain breaks, and what is left is one or two functions. A
stack is whole if its outermost frame is where programs and threads start; any other is cut.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from pyebpf.output.escape import escaped

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from pyebpf.output.stacks import Frame, Stack, StackPart

#: Where a chain of calls begins: in C libraries, the dynamic linker, and in Go's runtime.
_STARTS = frozenset(
    (
        *("_start", "_start_c", "main", "__libc_start_main", "__libc_start_call_main", "__libc_start_main_impl"),
        *("libc_start_main_stage2", "_dl_start_user", "_dl_start", "_dlstart", "_dlstart_c"),
        *("start_thread", "clone", "__clone", "clone3", "__clone3", "__start_context"),
        *("runtime.goexit", "runtime.mstart", "runtime.mstart0", "runtime.mstart1", "runtime.rt0_go"),
        *("runtime.mcall", "runtime.systemstack"),  # the stack of a thread of the runtime's begins anew there
    )
)
#: As symbol tables spell them besides: with a version, or as Go's linker marks the calling convention.
_SUFFIX = re.compile(r"(@.*|\.abi0|\.abi0\.args_stackmap|\.constprop\.\d+|\.isra\.\d+)?(:[^:]+:\d+)?$")
_C_LIBRARY = re.compile(r"(libc|libpthread|ld|ld-linux[\w-]*|ld-musl[\w-]*|libc\.musl[\w-]*)([-.][\d.]+)?\.so(\.\d+)*")
_MISSED = ("[missed]",)
#: A stack with so many frames (PERF_MAX_STACK_DEPTH) ends since no more are kept.
_DEPTH = 127
#: The module of frames that an interpreter's own chain gave: it ends where the thread began to run Python.
PYTHON = "[python]"
_PYTHON = "profile, offcputime and stackcount have --python"
_ADVICE = (
    (re.compile(r"(lib)?python\d?[\w.]*"), _PYTHON),
    (re.compile(r"libjvm\.so"), "java -XX:+PreserveFramePointer"),
)
_GENERAL = "build with -fno-omit-frame-pointer"
_UNWIND = "give --unwind (profile, offcputime, stackcount and others have it)"
_PROGRAMS = 3
_UNITS = {"us": "time"}


def is_cut(frames: Sequence[Frame]) -> bool:
    """Whether a process's stack, the innermost frame first, ends although its outermost function was called by another.

    Not for a stack that is empty, was not kept, or has as many frames as are kept. A C library without a symbol table
    starts programs and threads by functions without names: its outermost frame is one if it called another file's. A
    program without one has `_start` without a name: it is what called `__libc_start_main`.
    """
    if not frames or len(frames) >= _DEPTH:
        return False
    outermost = frames[-1]
    label = outermost.label
    if label in _MISSED or outermost.module == PYTHON:
        return False
    if not label.startswith("["):
        return _SUFFIX.sub("", label) not in _STARTS
    if len(frames) > 1 and _SUFFIX.sub("", frames[-2].label) in _STARTS:
        return False
    called = frames[-2].module if len(frames) > 1 else outermost.module
    return called == outermost.module or not _C_LIBRARY.fullmatch(_file(outermost))


def cut_note(stacks: Iterable[Stack], unit: str, *, unwound: bool = False) -> str:
    """A line that says what share is cut, of which programs, and what to do; "" if it is less than a hundredth.

    `unwound`: frame pointers were followed only where files have no `.eh_frame`.
    """
    total = cut = 0
    shows_python = False
    programs: dict[str, int] = {}
    advice: dict[str, None] = {}
    for stack in stacks:
        for one in _sides(stack):
            if not one.user:
                continue
            shows_python = shows_python or any(frame.module == PYTHON for frame in one.user)
            total += stack.count
            if is_cut(one.user):
                cut += stack.count
                programs[one.comm] = programs.get(one.comm, 0) + stack.count
                advice.update(dict.fromkeys(_advice(one.user)))
    if cut == 0 or cut * 100 < total:
        return ""
    first = sorted(programs.items(), key=lambda item: (-item[1], item[0]))
    named = ", ".join(f"{escaped(name)} {count}" for name, count in first[:_PROGRAMS])
    more = f", others {sum(count for _, count in first[_PROGRAMS:])}" if len(first) > _PROGRAMS else ""
    share = f"User stacks of {_percent(cut, total)}% of the {_UNITS.get(unit, unit)} are cut"
    if unwound:
        reason = "by code without frame pointers and .eh_frame, or before its files were read"
        return f"{share}, {reason}: {named}{more}"
    if shows_python:
        advice.pop(_PYTHON, None)
    remedies = "; ".join((_UNWIND, _GENERAL, *advice))
    return f"{share}, by code without frame pointers: {named}{more}. To see their callers: {remedies}"


def _percent(part: int, whole: int) -> int:
    """A share that is not rounded to all of it."""
    return 100 if part == whole else min(99, round(100 * part / whole))


def _sides(stack: Stack) -> Iterator[Stack | StackPart]:
    yield stack
    yield from stack.parts


def _file(frame: Frame) -> str:
    return frame.module.rpartition("/")[2]


def _advice(frames: Sequence[Frame]) -> Iterator[str]:
    """Advice for the interpreters that a stack has passed through."""
    files = {_file(frame) for frame in frames}
    return (text for pattern, text in _ADVICE if any(pattern.fullmatch(file) for file in files))
