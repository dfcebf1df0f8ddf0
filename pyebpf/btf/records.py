"""func_info and line_info for BPF_PROG_LOAD: the function and the source line that an instruction belongs to.

Offsets count instruction slots of 8 bytes: `lddw` has two.
"""

from __future__ import annotations

from itertools import pairwise
from struct import pack
from typing import TYPE_CHECKING, Literal, NamedTuple

from pyebpf.errors import InvalidValue

if TYPE_CHECKING:
    from collections.abc import Sequence

MAX_COLUMN = 0x3FF
MAX_LINE = (1 << 22) - 1


class FuncInfo(NamedTuple):
    """struct bpf_func_info: the function that begins at a slot, by its FUNC's id."""

    insn_off: int
    type_id: int


class LineInfo(NamedTuple):
    """struct bpf_line_info: from this slot on, code of that line; file and line text are BTF string offsets."""

    insn_off: int
    file_name_off: int
    line_off: int
    line: int
    column: int


def encode_func_info(records: Sequence[FuncInfo], byteorder: Literal["little", "big"] = "little") -> bytes:
    """8 bytes a record. The kernel wants one at slot 0 and at each subprogram. Raises InvalidValue."""
    _check_rising([record.insn_off for record in records], "func_info")
    order = "<II" if byteorder == "little" else ">II"
    return b"".join(pack(order, *record) for record in records)


def encode_line_info(records: Sequence[LineInfo], byteorder: Literal["little", "big"] = "little") -> bytes:
    """16 bytes a record. The kernel wants one at slot 0 and at each subprogram, none on lddw's second slot.

    Columns beyond 1023, which the format can't hold, become 1023. Raises InvalidValue.
    """
    _check_rising([record.insn_off for record in records], "line_info")
    order = "<IIII" if byteorder == "little" else ">IIII"
    encoded = []
    for insn_off, file_name_off, line_off, line, column in records:
        if not 0 <= line <= MAX_LINE or column < 0:
            raise InvalidValue(f"line_info can't hold line {line}, column {column}")
        position = line << 10 | min(column, MAX_COLUMN)
        encoded.append(pack(order, insn_off, file_name_off, line_off, position))
    return b"".join(encoded)


def _check_rising(offsets: list[int], what: str) -> None:
    if any(later <= earlier for earlier, later in pairwise(offsets)):
        raise InvalidValue(f"{what} records must rise strictly by instruction slot")
