"""USDT probes of an ELF file: the notes that <sys/sdt.h> writes into `.note.stapsdt`.

A note's description: addresses of the probe (a nop), of `.stapsdt.base` as it was when the note was written, and of the
semaphore (0: none); then three strings: provider, name, arguments (`pyebpf.arch.operands`).
https://sourceware.org/systemtap/wiki/UserSpaceProbeImplementation
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, NamedTuple

from pyebpf.errors import MalformedData

if TYPE_CHECKING:
    from pyebpf.elf.symbols import ElfSymbols

_OWNER, _NT_STAPSDT = "stapsdt", 3
_BASE_SECTION = ".stapsdt.base"


class UsdtProbe(NamedTuple):
    """One place of a probe: `address` is virtual, `offset` and `semaphore` lie in the file (no semaphore: 0).

    `arguments` is the text of the note. `offset` is None where the file has no code at the address.
    """

    provider: str
    name: str
    address: int
    offset: int | None
    semaphore: int
    arguments: str


def usdt_probes(elf: ElfSymbols) -> tuple[UsdtProbe, ...]:
    """Every place of every probe of a file, in the order of its notes. Raises MalformedData."""
    layout = Struct(elf.byte_order + ("QQQ" if elf.wide else "III"))
    base_now = elf.section(_BASE_SECTION)
    found = []
    for note in elf.notes(_OWNER):
        if note.type != _NT_STAPSDT:
            continue
        strings = note.description[layout.size :].split(b"\0")
        if len(note.description) < layout.size or len(strings) < 4:
            raise MalformedData(f"{elf.path}: a USDT note is garbled")
        address, base, semaphore = layout.unpack_from(note.description)
        # What changed the file's addresses after the notes were written, such as prelink, moved this section, too.
        moved = base_now.address - base if base_now is not None and base else 0
        provider, name, arguments = (text.decode(errors="surrogateescape") for text in strings[:3])
        address += moved
        counter = elf.offset_of(semaphore + moved) if semaphore else 0
        if counter is None:
            raise MalformedData(f"{elf.path}: the semaphore of {provider}:{name} is not in the file")
        offset = elf.offset_of(address)
        code = offset is not None and elf.address_of(offset) is not None
        found.append(UsdtProbe(provider, name, address, offset if code else None, counter, arguments))
    return tuple(found)
