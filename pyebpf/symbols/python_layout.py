"""Layout of CPython's structures, 3.11 to 3.14: where a thread's frames are, and the names of their functions.

3.13 and later have the offsets in memory, at the beginning of `_PyRuntime` (`_Py_DebugOffsets`). Those of 3.11 and 3.12
are a table: within one of these releases they do not change.
"""

from __future__ import annotations

from struct import unpack_from
from typing import NamedTuple

from pyebpf.errors import MalformedData

#: Bytes of `_Py_DebugOffsets` that have all that is read here.
OFFSETS_SIZE = 512
_COOKIE = b"xdebugpy"
#: No structure is larger; other offsets are not what a runtime says.
_LARGEST = 1 << 22
_NONE = 0


class Layout(NamedTuple):
    """Offsets in bytes. `cframe` is that of a pointer in between to what has the current frame, 0 for none.

    `entry` is a byte of a frame: from `entry_from` on the frame is the outermost that one call of the evaluator runs,
    and where `shim` is 1 it is no function. `string_size` is that of an ASCII string's header.
    """

    interpreters: int
    next_interpreter: int
    threads: int
    next_thread: int
    native_id: int
    cframe: int
    current_frame: int
    previous: int
    executable: int
    instruction: int
    entry: int
    entry_from: int
    shim: int
    filename: int
    qualname: int
    linetable: int
    first_line: int
    code: int
    string_size: int


_TABLES = {
    (3, 11): Layout(
        40, 0, 16, 8, 160, 56, 8, 48, 32, 56, 68, 1, 0, 112, 128, 136, 72, 184, 48
    ),
    (3, 12): Layout(
        40, 0, 72, 8, 144, 56, 0, 8, 0, 56, 70, 3, 1, 112, 128, 136, 68, 192, 40
    ),
}  # fmt: skip
#: Index of the first number of each structure in `_Py_DebugOffsets`, behind cookie and version.
_SECTIONS = {(3, 13): (1, 4, 17, 26, 32), (3, 14): (1, 4, 20, 29, 37)}


def layout_of(version: int, data: bytes) -> Layout | None:
    """The layout of a release (`PY_VERSION_HEX`), where `data` is how `_PyRuntime` begins; None if it is not known.

    Not for interpreters without the global lock. Raises MalformedData for what is no such beginning.
    """
    release = (version >> 24, version >> 16 & 0xFF)
    if release in _TABLES:
        return _TABLES[release]
    if release not in _SECTIONS:
        return None
    if len(data) < OFFSETS_SIZE or data[:8] != _COOKIE:
        raise MalformedData("there are no offsets for debuggers at _PyRuntime")
    numbers = unpack_from(f"={OFFSETS_SIZE // 8 - 2}Q", data, 16)
    if numbers[0] != _NONE:
        return None
    runtime, interpreter, thread, frame, code = _SECTIONS[release]
    found = Layout(
        interpreters=numbers[runtime + 2],
        next_interpreter=numbers[interpreter + 2],
        threads=numbers[interpreter + 3],
        next_thread=numbers[thread + 2],
        native_id=numbers[thread + 6],
        cframe=0,
        current_frame=numbers[thread + 4],
        previous=numbers[frame + 1],
        executable=numbers[frame + 2],
        instruction=numbers[frame + 3],
        entry=numbers[frame + 5],
        entry_from=3,
        shim=1,
        filename=numbers[code + 1],
        qualname=numbers[code + 3],
        linetable=numbers[code + 4],
        first_line=numbers[code + 5],
        code=numbers[code + 9],
        string_size=40,
    )
    if max(found) >= _LARGEST:
        raise MalformedData("the offsets for debuggers at _PyRuntime are out of bounds")
    return found


def line_at(table: bytes, first_line: int, unit: int) -> int:
    """The line of a code unit by a location table (PEP 626's successor, `co_linetable`); 0 if it has none.

    Any bytes will do: what is not a table gives some line, or none.
    """
    line, start, index = first_line, 0, 0
    while index < len(table):
        head = table[index]
        index += 1
        kind, start = head >> 3 & 15, start + (head & 7) + 1
        if kind in (13, 14):
            delta, index = _signed(table, index)
            line += delta
            for _ in range(3 if kind == 14 else 0):
                _, index = _number(table, index)
        elif 10 <= kind <= 12:
            line += kind - 10
            index += 2
        elif kind < 10:
            index += 1
        if unit < start:
            return line if kind != 15 and 0 < line < 1 << 31 else 0
    return 0


def _number(table: bytes, index: int) -> tuple[int, int]:
    """A number of six bits a byte, the lowest first, and where the next begins; of what is too long the beginning."""
    value = shift = 0
    while index < len(table):
        byte = table[index]
        index += 1
        if shift < 36:
            value |= (byte & 63) << shift
        shift += 6
        if not byte & 64:
            break
    return value, index


def _signed(table: bytes, index: int) -> tuple[int, int]:
    value, index = _number(table, index)
    return (-(value >> 1) if value & 1 else value >> 1), index
