"""Separate symbols of a stripped file: debug files by build id or .gnu_debuglink, and .gnu_debugdata inside it.

Where debug files lie: https://sourceware.org/gdb/current/onlinedocs/gdb.html/Separate-Debug-Files.html
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from pyebpf.elf.symbols import ElfSymbols
from pyebpf.errors import MalformedData, PyebpfError
from pyebpf.symbols.files import ElfFile, open_regular

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyebpf.elf.dwarf.info import DebugInfo
    from pyebpf.elf.dwarf.types import DebugTypes

_FOLDER = "/usr/lib/debug"
# What a distribution puts into .gnu_debugdata is some 100 kB; a file that claims more is not unpacked.
_MAX_PACKED, _MAX_UNPACKED, _DICTIONARY = 1 << 23, 1 << 24, 1 << 26
# A debug file's checksum is made only of what takes a tenth of a second; those with a build id need none.
_MAX_SUMMED = 1 << 27
_SMALLEST_ID = 2  # bytes: the first is the folder
_CHUNK = 1 << 20
_SHARED = ".gnu_debugaltlink"
_LONGEST_LINK = 1 << 13  # bytes of .gnu_debugaltlink: a path and a build id


def include_debug_symbols(elf: ElfSymbols, *, root: str = "", path: str = "") -> str:
    """Add to `elf`, unless it is unstripped, what there is of symbols for it elsewhere; return where that was.

    `root` is where the file's own file system begins (`/proc/PID/root` for a container's), `path` its name there. A
    debug file counts if it has the same build id, or the CRC-32 that .gnu_debuglink says. Nothing found: "".
    """
    if elf.section(".symtab") is not None:
        return ""
    other = _debug_file(elf, ".symtab", root, path)
    if other is not None:
        elf.include(other)
        return other.path
    return ".gnu_debugdata" if _unpack(elf) else ""


def debug_info_of(elf: ElfSymbols, *, root: str = "", path: str = "") -> DebugInfo | None:
    """The debugging information of a file, its own or that of its debug file; None if it has none."""
    from pyebpf.elf.dwarf.info import DebugInfo

    found = _with_debug_info(elf, root, path)
    if found is None:
        return None
    shared = _shared_file(found, root)
    return DebugInfo(found, shared, incomplete=shared is None and found.section(_SHARED) is not None)


def debug_types_of(elf: ElfSymbols, *, root: str = "", path: str = "") -> DebugTypes | None:
    """The types in a file's debugging information, its own or that of its debug file; None if it has none."""
    from pyebpf.elf.dwarf.types import DebugTypes

    found = _with_debug_info(elf, root, path)
    return None if found is None else DebugTypes(found, _shared_file(found, root))


def _with_debug_info(elf: ElfSymbols, root: str, path: str) -> ElfSymbols | None:
    section = ".debug_info"
    return elf if elf.section(section) is not None else _debug_file(elf, section, root, path)


def _shared_file(elf: ElfSymbols, root: str) -> ElfFile | None:
    """The file that several debug files share (`.gnu_debugaltlink`: its path and its build id)."""
    section = elf.section(_SHARED)
    if section is None or section.size > _LONGEST_LINK:
        return None
    name, _, build_id = elf.contents(section).partition(b"\0")
    folder = elf.path.rpartition("/")[0]
    named = os.fsdecode(name)
    identity = build_id.hex()
    candidates = [f"{top}{_FOLDER}/.build-id/{identity[:2]}/{identity[2:]}.debug" for top in {root: "", "": ""}]
    candidates[:0] = [root + named] if named.startswith("/") else [f"{folder}/{named}"]
    for candidate in candidates:
        other = _read(candidate, elf.budget.seconds)
        if other is not None and identity and other.build_id == identity:
            return other
    return None


def _debug_file(elf: ElfSymbols, section: str, root: str, path: str) -> ElfFile | None:
    """The debug file of a file that has a section; None if there is none."""
    for candidate in _candidates(elf, root, path or elf.path):
        elf.budget.clock()
        other = _read(candidate, elf.budget.seconds)
        if other is not None and other.section(section) is not None and _belongs(elf, other):
            return other
    return None


def _candidates(elf: ElfSymbols, root: str, path: str) -> Iterator[str]:
    build_id = elf.build_id
    # The container's own packages first, then the host's, which may have been installed for its sake.
    roots = (root, "") if root else ("",)
    if len(build_id) >= 2 * _SMALLEST_ID:
        for top in roots:
            yield f"{top}{_FOLDER}/.build-id/{build_id[:2]}/{build_id[2:]}.debug"
    link = elf.debug_link
    if link is not None and "/" not in link[0] and link[0] not in {".", ".."}:
        folder = path.rpartition("/")[0]
        for top in roots:
            yield f"{top}{folder}/{link[0]}"
            yield f"{top}{folder}/.debug/{link[0]}"
            yield f"{top}{_FOLDER}{folder}/{link[0]}"


def _read(path: str, seconds: float) -> ElfFile | None:
    try:
        return ElfFile(path, seconds=seconds)
    except PyebpfError:
        return None  # not there, not readable or something else: the file is traced without its names


def _belongs(elf: ElfSymbols, other: ElfSymbols) -> bool:
    if other.identity == elf.identity:
        return False
    if elf.build_id or other.build_id:
        return elf.build_id == other.build_id
    link = elf.debug_link
    return link is not None and _crc32(other.path) == link[1]


def _crc32(path: str) -> int:
    from zlib import crc32

    value = 0
    try:
        with open_regular(path) as file:
            if os.fstat(file.fileno()).st_size > _MAX_SUMMED:
                return -1
            while chunk := file.read(_CHUNK):
                value = crc32(chunk, value)
    except (PyebpfError, OSError):
        return -1
    return value


def _unpack(elf: ElfSymbols) -> bool:
    section = elf.section(".gnu_debugdata")
    if section is None or section.size > _MAX_PACKED:
        return False
    from lzma import LZMADecompressor, LZMAError

    try:
        unpacker = LZMADecompressor(memlimit=_DICTIONARY)
        data = unpacker.decompress(elf.contents(section), _MAX_UNPACKED)
        if not unpacker.eof:
            return False
        elf.include(ElfSymbols.from_bytes(data, f"{elf.path} .gnu_debugdata", seconds=elf.budget.seconds))
    except (LZMAError, MalformedData):
        return False
    return True
