"""Debug information of a program: the smallest BTF with its functions, func_info and line_info.

With it the verifier's log and `bpftool prog dump` show Python source, and callbacks (bpf_loop) may be used, which the
kernel refuses without func_info.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from struct import Struct
from typing import TYPE_CHECKING

from pyebpf.asm import slot_starts

if TYPE_CHECKING:
    from pyebpf.errors import Location
    from pyebpf.specs import Code

__all__ = ["DebugInfo", "debug_info", "function_name"]

# struct btf_header { __u16 magic; __u8 version, flags; __u32 hdr_len, type_off, type_len, str_off, str_len; };
_HEADER = Struct("=HBBIIIII")
_MAGIC, _VERSION = 0xEB9F, 1
# struct btf_type { __u32 name_off, info, size_or_type; };
_TYPE = Struct("=III")
_INT, _FUNC, _FUNC_PROTO = 1 << 24, 12 << 24, 13 << 24
_SIGNED_32_BITS = 1 << 24 | 32
# struct bpf_func_info { __u32 insn_off, type_id; };
# struct bpf_line_info { __u32 insn_off, file_name_off, line_off, line_col; };
_FUNC_INFO, _LINE_INFO = Struct("=II"), Struct("=IIII")
_COLUMN_BITS = 10
_MOST_COLUMN, _MOST_LINE = (1 << 10) - 1, (1 << 22) - 1
_MOST_NAME = 128
_INT_ID, _PROTO_ID, _FIRST_FUNC_ID = 1, 2, 3


@dataclass(frozen=True, slots=True)
class DebugInfo:
    """Bytes for BTF_LOAD and PROG_LOAD."""

    btf: bytes
    func_info: bytes
    line_info: bytes


class _Strings:
    """BTF's string section: each string once, the empty one at 0."""

    def __init__(self) -> None:
        self._offsets = {"": 0}
        self._parts = [b"\0"]
        self._size = 1

    def offset(self, text: str) -> int:
        found = self._offsets.get(text)
        if found is None:
            found = self._offsets[text] = self._size
            encoded = text.encode(errors="surrogateescape").replace(b"\0", b" ") + b"\0"
            self._parts.append(encoded)
            self._size += len(encoded)
        return found

    def content(self) -> bytes:
        return b"".join(self._parts)


def function_name(name: str) -> str:
    """`name` as BTF takes it: letters, digits, `_` and `.`, not a digit first (`<lambda>` is refused)."""
    clean = re.sub(r"[^A-Za-z0-9_.]", "_", name)[:_MOST_NAME]
    return clean if clean and not clean[0].isdigit() else f"_{clean}"


def debug_info(code: Code) -> DebugInfo:
    """What the kernel is told about `code`'s functions and source lines."""
    strings = _Strings()
    starts = slot_starts(code.instructions)
    types = [
        _TYPE.pack(strings.offset("int"), _INT, 4) + _SIGNED_32_BITS.to_bytes(4, "little"),
        _TYPE.pack(0, _FUNC_PROTO, _INT_ID),
    ]
    functions = []
    for number, subprogram in enumerate(code.subprograms, _FIRST_FUNC_ID):
        # Static linkage: the arguments are not checked, so one prototype without any serves all.
        types.append(_TYPE.pack(strings.offset(function_name(subprogram.name)), _FUNC, _PROTO_ID))
        functions.append(_FUNC_INFO.pack(starts[subprogram.start], number))
    entries = {subprogram.start for subprogram in code.subprograms}
    lines = []
    before: tuple[int, int, int] | None = None
    for index, instruction in enumerate(code.instructions):
        place = _place(strings, instruction.where)
        # Every function needs a record at its first instruction, also one without a known place.
        if index in entries or (instruction.where is not None and place != before):
            lines.append(_LINE_INFO.pack(starts[index], *place))
            before = place
    type_section, string_section = b"".join(types), strings.content()
    header = _HEADER.pack(
        _MAGIC, _VERSION, 0, _HEADER.size, 0, len(type_section), len(type_section), len(string_section)
    )
    return DebugInfo(header + type_section + string_section, b"".join(functions), b"".join(lines))


def _place(strings: _Strings, where: Location | None) -> tuple[int, int, int]:
    if where is None:
        return 0, 0, 0
    # The log prints one physical line at most: a second one would hide where the first is.
    text = where.text.partition("\n")[0]
    line, column = min(where.line, _MOST_LINE), min(where.column, _MOST_COLUMN)
    return strings.offset(where.file), strings.offset(text), line << _COLUMN_BITS | column
