"""USDT notes: addresses of a file that was moved after its notes were written."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from pyebpf.elf.symbols import ElfSymbols
from pyebpf.elf.usdt_notes import usdt_probes
from pyebpf.errors import MalformedData
from pyebpf.symbols.files import ElfFile
from tests.support.traced import binary


def test_a_file_that_was_moved():
    """Notes that tell of lower addresses than the file has now mean the same places: .stapsdt.base moved with them."""
    path = binary("library")
    elf = ElfFile(path)
    expected = usdt_probes(elf)
    assert [(probe.provider, probe.name) for probe in expected] == [
        ("traced", name) for name in ("forms", "twice", "twice", "guarded", "deeper", "back")
    ]
    assert [probe.semaphore != 0 for probe in expected] == [False, False, False, True, False, False]
    section = elf.section(".note.stapsdt")
    data = bytearray(Path(path).read_bytes())
    place = section.offset
    while place < section.offset + section.size:
        name, size, _ = struct.unpack_from("<III", data, place)
        at = place + 12 + name
        location, base, counter = struct.unpack_from("<QQQ", data, at)
        struct.pack_into("<QQQ", data, at, location - 0x800, base - 0x800, counter - 0x800 if counter else 0)
        place = at + (size + 3 & ~3)
    assert usdt_probes(ElfSymbols.from_bytes(bytes(data), "moved")) == expected
    struct.pack_into("<I", data, section.offset + 4, 20)
    with pytest.raises(MalformedData, match="garbled"):
        usdt_probes(ElfSymbols.from_bytes(bytes(data), "garbled"))
