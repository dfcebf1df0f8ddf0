"""Clang's objects as pyelftools reads them: contents, symbols by number, and relocations."""

from __future__ import annotations

from io import BytesIO

import pytest
from elftools.elf.elffile import ELFFile

from pyebpf.elf.relocations import read_relocatable
from tests.elf.test_oracle import check_sections, our_symbols, their_symbols

SOURCE = """
struct { int (*type)[1]; int (*max_entries)[8]; u32 *key; u64 *value; } counts SEC(".maps");
extern int some_function(void *p) __attribute__((weak));
u64 total, zeros[100]; int limit = 3; const char word[] = "word";
static __attribute__((noinline)) int twice(int x) { return x * 2 + word[x & 3]; }
SEC("xdp") int drop(void *ctx) {
    u32 key = 0;
    u64 *count = bpf_map_lookup_elem(&counts, &key);
    if (count) __sync_fetch_and_add(count, 1);
    total += twice(limit) + zeros[key];
    return some_function ? some_function(ctx) : 1;
}
"""


@pytest.mark.parametrize("order", ["bpfel", "bpfeb"])
def test_an_object_of_clang(compile_c, order):
    """Every byte and every record, in both byte orders."""
    data = compile_c(SOURCE, "-target", order, name=order)
    ours, theirs = read_relocatable(data), ELFFile(BytesIO(data))
    parts = list(theirs.iter_sections())
    check_sections(data, ours.sections)
    assert (ours.byteorder == "little", ours.machine) == (theirs.little_endian, 247)
    for section, part in zip(ours.sections, parts, strict=True):
        if part["sh_type"] not in {"SHT_NULL", "SHT_NOBITS"}:
            assert ours.contents(section) == part.data()
    table = theirs.get_section_by_name(".symtab")
    names = [section.name for section in ours.sections]
    wanted = [(names[s[5]], *s[1:]) if s[3] == "STT_SECTION" else s for s in their_symbols(table)]
    assert our_symbols(ours.symbols) == wanted
    relocated = {part["sh_info"]: part for part in parts if part["sh_type"] == "SHT_REL"}
    assert set(ours.relocations) == {number for number in relocated if ours.sections[number].allocated}
    assert ours.relocations
    for number, found in ours.relocations.items():
        entries = relocated[number].iter_relocations()
        wanted = [(each["r_offset"], ours.symbols[each["r_info_sym"]], each["r_info_type"]) for each in entries]
        assert list(found) == sorted(wanted, key=lambda each: each[0])
