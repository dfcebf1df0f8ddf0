"""Functions of CPython processes: their names, files and lines, read from the memory of the process."""

from __future__ import annotations

import os
import re
from struct import unpack
from typing import TYPE_CHECKING, NamedTuple

from pyebpf.elf.budget import Room
from pyebpf.errors import MalformedData, PyebpfError
from pyebpf.symbols.frame import Frame
from pyebpf.symbols.mappings import read_mappings
from pyebpf.symbols.process import mount_namespace, open_mapped
from pyebpf.symbols.python_layout import OFFSETS_SIZE, Layout, layout_of, line_at

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from pyebpf.symbols.mappings import Mapping

MODULE = "[python]"
_EVALUATOR = "_PyEval_EvalFrameDefault"
#: The evaluator, and what calls it, which is seen where the evaluator has no name.
_EVALUATORS = ("_PyEval_", "PyEval_")
_FILE = re.compile(r"(lib)?python3(\.\d+)?[a-z]*(\.so(\.\d+)*)?")
#: Of a process that says anything: characters of a name, bytes of a location table and of a function's code.
_MAX_TEXT, _MAX_TABLE, _MAX_CODE = 1024, 1 << 18, 1 << 24
_MAX_FUNCTIONS = 65_536
#: Bytes of names and tables of all processes that are kept.
ROOM, _COST = 1 << 26, 256
#: Files that are looked at, and for how long each.
_MAX_FILES, _SECONDS = 1024, 1.0


class PythonProcess(NamedTuple):
    """A process that runs CPython: where `_PyRuntime` is, and the layout of this release."""

    runtime: int
    layout: Layout


class PythonCall(NamedTuple):
    """A frame as it was walked: the code object, its location table then, the instruction.

    `entry`: the outermost that one call of the evaluator runs.
    """

    code: int
    table: int
    instruction: int
    entry: bool


class _Function(NamedTuple):
    table: int
    name: str
    file: str
    first_line: int
    lines: bytes
    start: int
    size: int


class Pythons:
    """Which processes run a CPython whose layout is known. What it is mapped from is to be called `python3…`."""

    def __init__(self) -> None:
        self._files: dict[tuple[str, int, str], tuple[int, int] | None] = {}

    def find(self, pid: int) -> PythonProcess | None:
        """That of a living process; None if it runs none."""
        try:
            mappings = [mapping for mapping in read_mappings(pid) if _FILE.fullmatch(os.path.basename(mapping.path))]
        except (OSError, ValueError):
            return None
        # The library has the runtime, if there is one.
        mappings.sort(key=lambda mapping: not os.path.basename(mapping.path).startswith("lib"))
        for mapping in mappings:
            places = self._places(pid, mapping)
            if places is None:
                continue
            version, runtime = (mapping.start + place for place in places)
            try:
                release = int.from_bytes(read_memory(pid, version, 8), "little")
                layout = layout_of(release, read_memory(pid, runtime, OFFSETS_SIZE))
            except (OSError, MalformedData):
                continue
            if layout is not None:
                return PythonProcess(runtime, layout)
        return None

    def _places(self, pid: int, mapping: Mapping) -> tuple[int, int] | None:
        """Where a file has its version and its runtime, relative to a mapping."""
        key = mapping.device, mapping.inode, mapping.path
        if key not in self._files:
            if len(self._files) >= _MAX_FILES:
                return None
            try:
                found = _places_of(pid, mapping)
            except (OSError, PyebpfError):
                found = None
            self._files[key] = found
        return self._files[key]


def _places_of(pid: int, mapping: Mapping) -> tuple[int, int] | None:
    opened = open_mapped(pid, mapping, mount_namespace(pid), _SECONDS)
    if opened is None:
        return None
    elf, _ = opened
    bias = elf.bias(0, mapping.offset)
    version, runtime = elf.find("Py_Version"), elf.find("_PyRuntime")
    if bias is None or not version or not runtime:
        return None
    return version[0].value + bias, runtime[0].value + bias


def read_memory(pid: int, address: int, size: int) -> bytes:
    """Bytes of a living process's memory. Raises OSError, also where there are fewer."""
    if not 0 <= address < 1 << 62:
        raise OSError(f"there is no address {address:#x}")
    descriptor = os.open(f"/proc/{pid}/mem", os.O_RDONLY | os.O_CLOEXEC)
    try:
        data = os.pread(descriptor, size, address)
    finally:
        os.close(descriptor)
    if len(data) != size:
        raise OSError(f"there are no {size} bytes at {address:#x}")
    return data


class PythonFunctions:
    """Names of one process's calls; a function that was read stays known after the process has ended."""

    def __init__(self, layout: Layout, read: Callable[[int, int], bytes], room: Room | None = None) -> None:
        self._layout = layout
        self._read = read
        self._room = Room(ROOM) if room is None else room
        self._known: dict[tuple[int, int], _Function | None] = {}

    def see(self, call: PythonCall) -> _Function | None:
        """Read a function, unless it is known."""
        key = call.code, call.table
        if key not in self._known:
            if len(self._known) >= _MAX_FUNCTIONS:
                return None
            try:
                self._known[key] = self._function(call.code, call.table)
            except (OSError, MalformedData, OverflowError):
                self._known[key] = None
        return self._known[key]

    def frame(self, call: PythonCall) -> Frame | None:
        """A frame whose name is `py::function:file:line`; None for what is no function.

        A code object that is gone, or was replaced by another, is `py::?`.
        """
        if call.entry and self._layout.shim:
            return None
        found = self.see(call)
        if found is None:
            return Frame("py::?", 0, MODULE, call.instruction)
        offset = max(call.instruction - found.start, 0)
        line = found.first_line
        if offset < found.size:
            line = line_at(found.lines, found.first_line, offset // 2) or line
        return Frame(f"py::{found.name}:{found.file}:{line}", offset, MODULE, call.instruction)

    def _function(self, code: int, table: int) -> _Function:
        layout = self._layout
        if self._pointer(code + layout.linetable) != table:
            raise MalformedData("the function was replaced by another")
        size = self._size(code + 16, _MAX_CODE // 2) * 2
        lines = self._read(table + 32, self._size(table + 16, _MAX_TABLE))
        (first,) = unpack("=i", self._read(code + layout.first_line, 4))
        name = self._text(self._pointer(code + layout.qualname))
        file = self._text(self._pointer(code + layout.filename))
        if self._pointer(code + layout.linetable) != table:  # while it was read
            raise MalformedData("the function was replaced by another")
        if not self._room.take(_COST + len(lines) + 4 * (len(name) + len(file))):
            raise MalformedData("there is no room for more functions")
        return _Function(table, name, file, first, lines, code + layout.code, size)

    def _pointer(self, address: int) -> int:
        return int.from_bytes(self._read(address, 8), "little")

    def _size(self, address: int, most: int) -> int:
        size = self._pointer(address)
        if size > most:
            raise MalformedData("there is no such object")
        return size

    def _text(self, address: int) -> str:
        """A string's first characters."""
        layout = self._layout
        length = min(self._size(address + 16, 1 << 40), _MAX_TEXT)
        state = int.from_bytes(self._read(address + 32, 4), "little")
        kind = state >> 2 & 7
        is_ascii = state >> 6 & 1
        if kind not in (1, 2, 4):
            raise MalformedData("there is no string")
        start = layout.string_size if is_ascii else layout.string_size + (24 if layout.string_size == 48 else 16)
        data = self._read(address + start, length * kind)
        coding = {1: "latin-1", 2: "utf-16-le", 4: "utf-32-le"}[kind]
        return data.decode(coding, "replace")


def with_python(native: Sequence[Frame], calls: Iterable[PythonCall], functions: PythonFunctions) -> tuple[Frame, ...]:
    """A stack with Python's functions, the innermost first.

    Each evaluator of the native stack is replaced by the functions that it runs. If the stack has not all evaluators,
    since it is cut, the functions are above what is left: the innermost frames, up to where the first evaluator or an
    address that is nowhere is.
    """
    groups: list[list[Frame]] = [[]]
    for call in calls:
        frame = functions.frame(call)
        if frame is not None:
            groups[-1].append(frame)
        if call.entry:
            groups.append([])
    if not groups[-1]:
        groups.pop()
    if not any(groups):
        return tuple(native)
    evaluators = sum(frame.name == _EVALUATOR for frame in native)
    merged: list[Frame] = []
    if evaluators == len(groups):
        remaining = iter(groups)
        for frame in native:
            merged += next(remaining) if frame.name == _EVALUATOR else [frame]
        # Addresses that are nowhere are where the chain went astray, behind the evaluator.
        while not merged[-1].module:
            merged.pop()
        return tuple(merged)
    for frame in native:
        if frame.name.startswith(_EVALUATORS) or not frame.module:
            break
        merged.append(frame)
    return (*merged, *(frame for group in groups for frame in group))
