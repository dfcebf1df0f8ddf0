"""Programs whose debugging information is garbled: bytes changed, sections cut short, entries moved."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import random
    from collections.abc import Iterator, Sequence

    from pyebpf.elf.headers import Section
    from pyebpf.elf.symbols import ElfSymbols


def debug_sections(elf: ElfSymbols) -> list[Section]:
    """The sections of debugging information."""
    return [each for each in elf.sections if each.name.startswith(".debug_")]


def changed(data: bytes, sections: Sequence[Section], choices: random.Random, number: int) -> bytes:
    """Bytes changed anywhere in the debugging information, the rest as it was."""
    found = bytearray(data)
    for _ in range(number):
        section = choices.choice(sections)
        if section.size:
            found[section.offset + choices.randrange(section.size)] = choices.choice((0, 1, 0x7F, 0x80, 0xFF))
    return bytes(found)


def moved(data: bytes, sections: Sequence[Section]) -> Iterator[bytes]:
    """Entries moved by some bytes: what refers to one of them refers to another place, or to itself."""
    section = next(each for each in sections if each.name == ".debug_info")
    for shift in range(0, 64, 3):
        found = bytearray(data)
        area = found[section.offset + 12 : section.offset + section.size]
        found[section.offset + 12 : section.offset + section.size] = area[shift:] + area[:shift]
        yield bytes(found)


def cut_short(elf: ElfSymbols, sections: Sequence[Section]) -> Iterator[None]:
    """Let each section of a file end too early, in turn."""
    whole = elf.sections
    for section in sections:
        for size in (0, 1, 3, 11, section.size // 2, section.size - 1):
            elf.sections = tuple(
                each._replace(size=max(size, 0)) if each.number == section.number else each for each in whole
            )
            yield
    elf.sections = whole
