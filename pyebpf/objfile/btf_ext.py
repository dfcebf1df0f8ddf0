"""Section .BTF.ext: which source line and which function an instruction belongs to, and what CO-RE would change.

struct btf_ext_header { __u16 magic; __u8 version, flags; __u32 hdr_len, func_info_off, func_info_len, line_info_off,
    line_info_len, core_relo_off, core_relo_len; };
Each part is a record size, then for each section its name, a count, and records whose first word is an offset in bytes.
"""

from __future__ import annotations

from struct import (
    error as StructError,  # noqa: N812 - it is a class, spelled as no class is
    unpack_from,
)
from typing import TYPE_CHECKING, NamedTuple

from pyebpf.errors import BtfError, Location
from pyebpf.objfile.core import CoreRelocation

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pyebpf.btf import Btf

_MAGIC = 0xEB9F
_FUNCTION, _LINE, _CORE = 8, 16, 16  # bytes of struct bpf_func_info, bpf_line_info, bpf_core_relo
_COLUMN_BITS = 10


class DebugInfo(NamedTuple):
    """By section name: source lines and FUNC ids by the offset where they begin, and CO-RE relocations."""

    lines: Mapping[str, Mapping[int, Location]]
    functions: Mapping[str, Mapping[int, int]]
    core: Mapping[str, tuple[CoreRelocation, ...]]


def read_debug_info(data: bytes, btf: Btf) -> DebugInfo:
    """Decode .BTF.ext, whose strings are in `btf`. Raises BtfError."""
    order = "<" if btf.byteorder == "little" else ">"
    try:
        magic, version, _, length, *parts = unpack_from(order + "HBBI4I", data)
        core = unpack_from(order + "II", data, 24) if length >= 32 else (0, 0)
    except StructError:
        raise BtfError(".BTF.ext is shorter than its header") from None
    if magic != _MAGIC or version != 1:
        raise BtfError(f".BTF.ext starts with {data[:3].hex()}: only version 1 is known")
    function_info, line_info = parts[:2], parts[2:]
    functions: dict[str, dict[int, int]] = {}
    lines: dict[str, dict[int, Location]] = {}
    relocations: dict[str, list[CoreRelocation]] = {}
    for name, record in _records(data, btf, order, length, function_info, _FUNCTION):
        offset, type_id = unpack_from(order + "II", record)
        functions.setdefault(name, {})[offset] = type_id
    for name, record in _records(data, btf, order, length, line_info, _LINE):
        offset, file, text, place = unpack_from(order + "IIII", record)
        column = max((place & (1 << _COLUMN_BITS) - 1) - 1, 0)
        where = Location(btf.string(file), place >> _COLUMN_BITS, column, None, btf.string(text))
        lines.setdefault(name, {})[offset] = where
    for name, record in _records(data, btf, order, length, list(core), _CORE):
        offset, type_id, access, kind = unpack_from(order + "4I", record)
        found = CoreRelocation(offset, type_id, btf.string(access), kind)
        relocations.setdefault(name, []).append(found)
    return DebugInfo(lines, functions, {name: tuple(found) for name, found in relocations.items()})


def _records(data: bytes, btf: Btf, order: str, start: int, part: list[int], least: int) -> Iterator[tuple[str, bytes]]:
    """Each record of a part with the name of its section."""
    offset, length = part
    if not length:
        return
    at, end = start + offset, start + offset + length
    if end > len(data) or length < 4:
        raise BtfError(".BTF.ext is cut short: its header tells of more than its bytes")
    (size,) = unpack_from(order + "I", data, at)
    if size < least:
        raise BtfError(f".BTF.ext has records of {size} bytes, fewer than {least}")
    at += 4
    while at < end:
        if at + 8 > end:
            raise BtfError(".BTF.ext is garbled: a section's heading is cut short")
        name, count = unpack_from(order + "II", data, at)
        at += 8
        if at + size * count > end:
            raise BtfError(f".BTF.ext is garbled: {count} records of {size} bytes are more than there are")
        section = btf.string(name)
        for first in range(at, at + size * count, size):
            yield section, data[first : first + size]
        at += size * count
