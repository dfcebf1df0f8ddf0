"""Names of Python's functions from memory: this process's own, made-up memory, and what is no memory of Python's."""

from __future__ import annotations

import os
import struct

import pytest
from hypothesis import given, strategies as st

from pyebpf.errors import MalformedData
from pyebpf.symbols.frame import Frame
from pyebpf.symbols.python import PythonCall, PythonFunctions, Pythons, read_memory, with_python
from pyebpf.symbols.python_layout import OFFSETS_SIZE, layout_of, line_at

OLD = layout_of(0x030B02F0, b"")


def several_lines(value):
    """A function whose location table has gaps, long forms and lines that go back."""
    total = [
        each
        for each in range(value)
        if each
    ]  # fmt: skip
    for _ in total:
        value = (value +
                 len(total))  # fmt: skip
    return "ä€😀", value


@pytest.mark.parametrize("function", [several_lines, os.walk, os.makedirs, given])
def test_lines(function):
    """Each instruction has the line that CPython itself reads in the table."""
    code = function.__code__
    for start, end, line in code.co_lines():
        for offset in range(start, end, 2):
            assert line_at(code.co_linetable, code.co_firstlineno, offset // 2) == (line or 0)


@given(st.binary(max_size=200), st.integers(0, 500))
def test_any_table(table, unit):
    """What is no table gives a line or 0, and ends."""
    assert 0 <= line_at(table, 7, unit) < 1 << 31


def offsets(release, *, free=0, cookie=b"xdebugpy"):
    """How `_PyRuntime` begins: numbers that are their own index."""
    count = OFFSETS_SIZE // 8 - 2
    return cookie + struct.pack(f"={1 + count}Q", release << 16, free, *range(1, count))


def test_layouts():
    """3.13 and 3.14 say where what is, in sections of different length; others are not known."""
    for release, (threads, frame, entry, table) in {0x030D: (7, 21, 31, 36), 0x030E: (7, 24, 34, 41)}.items():
        layout = layout_of(release << 16, offsets(release))
        assert (layout.threads, layout.current_frame, layout.entry, layout.linetable) == (threads, frame, entry, table)
        assert layout_of(release << 16, offsets(release, free=1)) is None
        with pytest.raises(MalformedData, match="no offsets for debuggers"):
            layout_of(release << 16, offsets(release, cookie=b"anything"))
        with pytest.raises(MalformedData, match="out of bounds"):
            layout_of(release << 16, b"xdebugpy" + bytes(16) + b"\xff" * OFFSETS_SIZE)
    assert layout_of(0x030A0000, b"") is None
    assert layout_of(0x030F0000, offsets(0x030F)) is None


def test_this_process():
    """The name, file and line of a function of this very process; a table that is not its own is refused."""
    code = several_lines.__code__
    found = Pythons().find(os.getpid())
    assert found is not None
    layout = found.layout
    functions = PythonFunctions(layout, lambda address, size: read_memory(os.getpid(), address, size))
    table = int.from_bytes(read_memory(os.getpid(), id(code) + layout.linetable, 8), "little")
    for start, _, line in code.co_lines():
        frame = functions.frame(PythonCall(id(code), table, id(code) + layout.code + start, entry=False))
        assert frame.label == f"py::several_lines:{__file__}:{line or code.co_firstlineno}"
    assert functions.frame(PythonCall(id(code), table + 8, 0, entry=False)).label == "py::?"


@given(st.binary(min_size=64, max_size=64))
def test_any_memory(data):
    """Garbage has no names, and reads are bounded."""

    def read(address, size):
        assert size <= 1 << 24
        return (data * (size // 64 + 1))[:size]

    functions = PythonFunctions(OLD, read)
    table = int.from_bytes((data * 4)[OLD.linetable % 64 :][:8], "little")
    assert functions.frame(PythonCall(0, table, 5, entry=False)).label.startswith("py::")


def test_no_memory():
    """An address that is none is an error of the system, not of Python."""
    for address in (0, 1 << 62, (1 << 64) - 1, -1):
        with pytest.raises(OSError, match=r"."):
            read_memory(os.getpid(), address, 8)


class Named:
    """Functions by the address of their code."""

    def frame(self, call):
        return None if call.code == 0 else Frame(f"py::{call.code}", 0, "[python]", 0)


def native(*names):
    return tuple(Frame(name, 0, "" if name == "?" else "/usr/bin/python3", 0) for name in names)


def calls(*codes):
    """Calls by the addresses of their code; those below 0 are the evaluator's outermost, 0 is a shim."""
    return [PythonCall(abs(code), 0, 0, entry=code <= 0) for code in codes]


EVALUATOR = "_PyEval_EvalFrameDefault"


@pytest.mark.parametrize(
    ("frames", "python", "merged"),
    [
        # Whole: each evaluator is replaced by what it runs.
        (
            ("leaf", EVALUATOR, "call", EVALUATOR, "main"),
            calls(1, 2, 0, 3, -4),
            ["leaf", "py::1", "py::2", "call", "py::3", "py::4", "main"],
        ),
        # The chain went astray behind the evaluator.
        ((EVALUATOR, "?", "?"), calls(1, -2), ["py::1", "py::2"]),
        # Cut: what the functions have called is left.
        (("leaf", "?"), calls(1, 2, 0), ["leaf", "py::1", "py::2"]),
        (("leaf", "PyEval_EvalCode", "?"), calls(1, 0), ["leaf", "py::1"]),
        (("leaf", EVALUATOR, "?"), calls(1, 0, 2, 0), ["leaf", "py::1", "py::2"]),
        ((), calls(1, 2), ["py::1", "py::2"]),
        # No Python.
        (("leaf", "main"), [], ["leaf", "main"]),
        (("leaf", "main"), calls(0), ["leaf", "main"]),
    ],
)
def test_merged(frames, python, merged):
    """Python's functions in place of the evaluators, the innermost first."""
    assert [frame.name for frame in with_python(native(*frames), python, Named())] == merged
