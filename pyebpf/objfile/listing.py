"""A section's instructions as text: functions as labels, source lines, and what each relocation names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyebpf.asm import Form, Instruction, decode, listing, slot_starts
from pyebpf.dataclass import replace
from pyebpf.errors import check_argument
from pyebpf.objfile.core import describe
from pyebpf.objfile.object_file import ElfObject

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyebpf.asm import Raw
    from pyebpf.asm.text import Syntax
    from pyebpf.elf.relocations import RelocatableFile, Relocation


def list_section(whole: ElfObject, name: str, *, syntax: Syntax = "kernel", source: bool = True) -> str:
    """The text of one section, instructions as they are in the file: assembling it gives the same bytes.

    What a relocation will put in place is a comment. Raises MalformedData if there is no such section.
    """
    check_argument("whole", whole, ElfObject, "what read_object() gives")
    elf = whole.elf
    section = elf.code_section(name)
    data = elf.contents(section)
    items = decode(data[: len(data) // 8 * 8], elf.byteorder, raw=True)
    lines = whole.debug.lines.get(section.name, {}) if source else {}
    starts = slot_starts(items)
    located = [
        replace(item, where=lines[8 * start]) if 8 * start in lines else item
        for item, start in zip(items, starts, strict=False)
    ]
    labels = {f.name: f.value // 8 for f in elf.functions(section) if f.value % 8 == 0}
    comments = {
        relocation.offset // 8: _meaning(elf, relocation, dict(zip(starts, items, strict=False)))
        for relocation in elf.relocations.get(section.number, ())
        if relocation.offset % 8 == 0
    }
    if whole.btf is not None:
        for record in whole.debug.core.get(section.name, ()):
            comments.setdefault(record.offset // 8, describe(record, whole.btf))
    return listing(located, labels=labels, syntax=syntax, source=source, comments=comments)


def _meaning(elf: RelocatableFile, relocation: Relocation, items: Mapping[int, Instruction | Raw]) -> str:
    """The name that a relocation puts in: the symbol's name, or that of the function inside a section."""
    symbol = relocation.symbol
    item = items.get(relocation.offset // 8)
    if symbol.kind == "STT_SECTION" and symbol.section is not None and isinstance(item, Instruction):
        offset = 8 * (item.imm + 1) if item.op.form is Form.CALL_LOCAL else item.imm
        for function in elf.functions(elf.sections[symbol.section]):
            if function.value == offset:
                return function.name
        return f"{symbol.name} + {offset}"
    return symbol.name
