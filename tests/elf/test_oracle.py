"""The reader against pyelftools, which was written by others: sections, symbols and relocations, one by one."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile

from pyebpf.elf.relocations import read_relocatable
from pyebpf.elf.symbols import ElfSymbols
from tests.support.native import build_native

THEIRS = (*("sh_flags", "sh_addr", "sh_offset", "sh_size", "sh_link", "sh_info", "sh_addralign", "sh_entsize"),)

SOURCE = """
extern int elsewhere(int) __attribute__((weak));
extern int other(int);
static int kept = 3;
int zeros[1000];
static __attribute__((noinline)) int twice(int n) { return 2 * n + kept; }
int called(int n) { kept = n; return twice(n) + other(n) + (elsewhere ? elsewhere(n) : zeros[n]); }
"""


def their_symbols(table):
    """Name, value, size, kind, binding and section of each."""
    for symbol in table.iter_symbols():
        place, info = symbol["st_shndx"], symbol["st_info"]
        home = place if isinstance(place, int) and place else None
        yield symbol.name, symbol["st_value"], symbol["st_size"], info["type"], info["bind"], home


def our_symbols(symbols):
    return [(s.name, s.value, s.size, s.kind, s.binding, s.section) for s in symbols]


@pytest.fixture(scope="module")
def compiled(tmp_path_factory):
    """An object of this machine, by gcc."""
    return build_native(SOURCE, tmp_path_factory.mktemp("oracle") / "made.o", "-c", "-O1").read_bytes()


def check_sections(data, sections):
    theirs = list(ELFFile(BytesIO(data)).iter_sections())
    assert [section.name for section in sections] == [section.name for section in theirs]
    assert [section.number for section in sections] == list(range(len(theirs)))
    assert [tuple(section)[3:] for section in sections] == [tuple(map(each.__getitem__, THEIRS)) for each in theirs]


def check_table(data, elf):
    (table,) = [part for part in ELFFile(BytesIO(data)).iter_sections() if part["sh_type"] == "SHT_SYMTAB"]
    ours = our_symbols(elf.every_symbol())
    assert ours == list(their_symbols(table))
    return ours


def test_an_object_of_this_machine(compiled):
    """Everything that its headers and its symbol table say; of the relocations those with addends are left out."""
    elf = ElfSymbols.from_bytes(compiled, "made.o")
    check_sections(compiled, elf.sections)
    kinds = {(name, kind, binding, home is None) for name, _, _, kind, binding, home in check_table(compiled, elf)}
    assert ("elsewhere", "STT_NOTYPE", "STB_WEAK", True) in kinds
    assert ("twice", "STT_FUNC", "STB_LOCAL", False) in kinds
    assert read_relocatable(compiled).relocations == {}  # x86-64 and arm64 have SHT_RELA


def test_the_c_library():
    """Libraries have dynamic symbols, thousands of them, some of one name with several versions."""
    mapped = {line.split()[-1] for line in Path("/proc/self/maps").read_text().splitlines()}
    data = Path(next(path for path in mapped if Path(path).name.startswith("libc.so"))).read_bytes()
    elf = ElfSymbols.from_bytes(data, "libc")
    check_sections(data, elf.sections)
    (table,) = [part for part in ELFFile(BytesIO(data)).iter_sections() if part["sh_type"] == "SHT_DYNSYM"]
    wanted = {
        each[:5] for each in their_symbols(table) if each[3] in {"STT_FUNC", "STT_OBJECT"} and each[5] is not None
    }
    assert len(wanted) > 1000
    assert wanted <= {each[:5] for each in our_symbols(elf.symbols())}
