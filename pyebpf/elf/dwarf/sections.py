"""`.debug_…` sections of a file: read where something is asked for, unpacked where they are compressed."""

from __future__ import annotations

import struct
import zlib
from struct import unpack_from
from typing import TYPE_CHECKING

from pyebpf.elf.budget import OverBudget
from pyebpf.elf.headers import raw
from pyebpf.errors import MalformedData

if TYPE_CHECKING:
    from pyebpf.elf.headers import ElfHeaders, Section

#: Bytes of a section that are kept whole; of larger ones parts are read. Compressed ones must be unpacked whole.
_KEPT, _MAX_UNPACKED = 1 << 20, 1 << 26
_WIDE = 0xFFFF_FFFF  # the length follows in eight bytes
_LONGEST = 4096  # bytes of a string
_SHF_COMPRESSED = 0x800
_ELFCOMPRESS_ZLIB = 1


def initial_length(data: bytes, order: str, place: int = 0) -> tuple[int, int, int]:
    """A length, DWARF 5, section 7.4: of what follows, the place behind it, and the size of offsets in what follows."""
    (length,) = unpack_from(order + "I", data, place)
    if length != _WIDE:
        return length, place + 4, 4
    (length,) = unpack_from(order + "Q", data, place + 4)
    return length, place + 12, 8


class Garbled:
    """A context that makes MalformedData of what garbled data leads to; errors that say more pass."""

    def __init__(self, path: str) -> None:
        self._path = path

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, struct.error | LookupError | ValueError) and not isinstance(error, MalformedData):
            raise MalformedData(f"{self._path}: its debugging information is garbled") from error


class DebugSections:
    """The sections of one file. Raises MalformedData for a file that is cut short, OverBudget for what is too large."""

    def __init__(self, elf: ElfHeaders) -> None:
        self.elf = elf
        self._sections = {section.name: section for section in elf.sections if section.name.startswith(".debug_")}
        self._kept: dict[str, bytes] = {}
        self._unpacked = 0

    @property
    def cost(self) -> int:
        """Bytes that are kept."""
        return sum(map(len, self._kept.values()))

    def size(self, name: str) -> int:
        """Bytes of a section, unpacked; 0 if there is none."""
        section = self._sections.get(name)
        if section is None:
            return 0
        return len(self._whole(section)) if section.flags & _SHF_COMPRESSED else section.size

    def read(self, name: str, offset: int, size: int) -> bytes:
        """Bytes of a section from an offset on: as many as asked for, unless the section ends."""
        section = self._sections.get(name)
        if section is None:
            raise MalformedData(f"{self.elf.path}: it has no section {name}, which another one refers to")
        if section.flags & _SHF_COMPRESSED or section.size <= _KEPT:
            return self._whole(section)[offset : offset + size]
        size = max(0, min(size, section.size - offset))
        return self.elf.contents(section._replace(offset=section.offset + offset, size=size))

    def whole(self, name: str) -> bytes:
        """All bytes of a section; none if there is no such section."""
        section = self._sections.get(name)
        return self._whole(section) if section is not None else b""

    def string(self, name: str, offset: int) -> str:
        """The string at an offset."""
        return self.elf.budget.name(raw(self.read(name, offset, _LONGEST), 0))

    def _whole(self, section: Section) -> bytes:
        data = self._kept.get(section.name)
        if data is None:
            data = self.elf.contents(section)
            if section.flags & _SHF_COMPRESSED:
                data = self._unpack(section, data)
            if len(data) <= _KEPT or section.flags & _SHF_COMPRESSED:
                self._kept[section.name] = data
        return data

    def _unpack(self, section: Section, data: bytes) -> bytes:
        """Elf64_Chdr: ch_type, ch_reserved u32, ch_size, ch_addralign u64; Elf32_Chdr: three u32."""
        elf = self.elf
        layout, header = ("IIQ", 24) if elf.wide else ("III", 12)
        if len(data) < header:
            raise MalformedData(f"{elf.path}: section {section.name} is cut short")
        fields = unpack_from(elf.byte_order + layout, data)
        kind, size = fields[0], fields[2] if elf.wide else fields[1]
        self._unpacked += size
        if self._unpacked > _MAX_UNPACKED:
            raise OverBudget(f"{elf.path}: its compressed sections have more than {_MAX_UNPACKED >> 20} MiB")
        if kind != _ELFCOMPRESS_ZLIB:
            raise OverBudget(f"{elf.path}: section {section.name} is compressed in another way than by zlib")
        try:
            unpacked = zlib.decompressobj().decompress(data[header:], size + 1)
        except zlib.error:
            unpacked = b""
        if len(unpacked) != size:
            raise MalformedData(f"{elf.path}: section {section.name} cannot be unpacked")
        return unpacked
