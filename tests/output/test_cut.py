"""Cut stacks: which ones are, and the line that says so."""

from __future__ import annotations

import pytest

from pyebpf.output.cut import cut_note, is_cut
from pyebpf.output.stacks import Stack, StackPart
from pyebpf.symbols.frame import Frame

LIBC = "/usr/lib/x86_64-linux-gnu/libc.so.6"


def chain(*names, module="/bin/app"):
    """Frames, the innermost first: a name, or a name and its file."""
    pairs = ((name, module) if isinstance(name, str) else name for name in names)
    return tuple(Frame(name, 0, file, index) for index, (name, file) in enumerate(pairs))


WHOLE = chain("leaf", "main", ("__libc_start_call_main", LIBC))
PIECE = chain("leaf", ("", ""))


@pytest.mark.parametrize(
    "frames",
    [
        (),
        WHOLE,
        chain("main"),
        chain("work", "start_thread", "clone3@@GLIBC_2.34"),
        chain("main.work", "runtime.goexit.abi0"),
        chain("", ("", LIBC)),  # a stripped program, started by a stripped C library
        chain("", ("", "/lib/ld-musl-x86_64.so.1")),
        chain("work", "", ("__libc_start_main", LIBC), ""),  # a stripped program's `_start`
        chain("work", ("__start_context", LIBC)),
        chain(*["again"] * 127),
        chain(("", "missed")),
        chain("leaf", ("py::<module>:/a.py:1", "[python]")),
    ],
)
def test_whole(frames):
    """It begins where programs and threads do, or is not known to go on."""
    assert not is_cut(frames)


@pytest.mark.parametrize(
    "frames",
    [
        PIECE,
        chain("leaf"),
        chain("leaf", "caller"),
        chain(("read", LIBC)),
        chain(("", LIBC)),
        chain(("", LIBC), ("", LIBC)),
        chain("leaf", ("", "/usr/lib/libssl.so.3")),
        chain(*["again"] * 126),
        chain("compare", ("qsort_r", LIBC)),
    ],
)
def test_cut(frames):
    """The outermost function is called by others; the C library's own functions are not where it begins."""
    assert is_cut(frames)


def test_note():
    """Shares are of what was counted; the programs with most come first, three of them, and what helps follows."""
    stacks = [
        Stack(50, "whole", 1, WHOLE, ()),
        Stack(20, "a\n", 2, PIECE, ()),
        Stack(15, "b", 3, PIECE, None),
        Stack(8, "c", 4, chain(("_PyEval_EvalFrameDefault", "/usr/lib/libpython3.13.so.1.0")), ()),
        Stack(4, "d", 5, PIECE, ()),
        Stack(3, "d", 6, PIECE, ()),
        Stack(1000, "kworker", 0, (), ()),
    ]
    assert cut_note(stacks, "samples") == (
        "User stacks of 50% of the samples are cut, by code without frame pointers: a\\x0a 20, b 15, c 8, others 7. "
        "To see their callers: give --unwind (profile, offcputime, stackcount and others have it); build with "
        "-fno-omit-frame-pointer; profile, offcputime and stackcount have --python"
    )
    python = Stack(1, "py", 7, chain(("py::f:/a.py:1", "[python]")), ())
    assert "--python" not in cut_note([*stacks, python], "samples")  # it was given
    assert cut_note(stacks, "samples", unwound=True) == (
        "User stacks of 50% of the samples are cut, by code without frame pointers and .eh_frame, or before its files "
        "were read: a\\x0a 20, b 15, c 8, others 7"
    )
    assert "99% of the time are cut" in cut_note([Stack(1, "w", 1, WHOLE), Stack(9999, "p", 2, PIECE)], "us")


def test_no_note():
    """Nothing is said of less than a hundredth, nor where no user stacks are."""
    assert cut_note([], "samples") == ""
    assert cut_note([Stack(1, "a", 1, None, ())], "samples") == ""
    assert cut_note([Stack(1, "a", 1, PIECE), Stack(100, "b", 2, WHOLE)], "samples") == ""


def test_parts():
    """A waker's stack counts, too, and is its own program's."""
    part = StackPart("waker", "timer", 3, PIECE)
    assert "50% of the time are cut" in cut_note([Stack(7, "a", 1, WHOLE, (), (part,))], "us")
    assert "timer 7." in cut_note([Stack(7, "a", 1, WHOLE, (), (part,))], "us")
