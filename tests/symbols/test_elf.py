"""ELF files that gcc made and the system's own: symbols, versions, offsets, notes; and garbled ones."""

from __future__ import annotations

import ctypes.util
import os
import re
import subprocess
from pathlib import Path

import pytest

from pyebpf.elf.headers import Segment, bias as bias_of
from pyebpf.elf.symbols import ElfSymbols
from pyebpf.errors import MalformedData, NotFound
from pyebpf.symbols.files import ElfFile
from tests.support.native import build_native
from tests.support.needs import needs

LIBRARY = """
int first_version(void) { return 1; }
int second_version(void) { return 2; }
__asm__(".symver first_version,answer@OLD_1");
__asm__(".symver second_version,answer@@NEW_2");
static int hidden_helper(int n) { return n * 3; }
int visible(int n) { return hidden_helper(n) + 1; }
static int (*choose(void))(int) { return visible; }
int chosen(int n) __attribute__((ifunc("choose")));
int counter = 17;
int zeros[1000];
"""
VERSIONS = (
    "OLD_1 { global: answer; local: *_version; };\nNEW_2 { global: answer; visible; chosen; counter; zeros; } OLD_1;"
)


@pytest.fixture(scope="session")
def library(tmp_path_factory):
    folder = tmp_path_factory.mktemp("elf")
    (folder / "versions").write_text(VERSIONS)
    script = f"-Wl,--version-script={folder / 'versions'}"
    return build_native(
        LIBRARY, folder / "library.so", "-shared", "-fPIC", "-fno-inline", script, "-Wl,--build-id=0x1234567890abcdef"
    )


def readelf(path, *options):
    needs("command:readelf")
    return subprocess.run(["readelf", *options, path], check=True, capture_output=True, text=True).stdout


def test_versions_of_one_name(library):
    """A name finds all its versions, the default one first; with a version or @@ only that one."""
    elf = ElfFile(str(library))
    assert [str(symbol) for symbol in elf.find("answer")] == ["answer@@NEW_2", "answer@OLD_1"]
    assert [str(symbol) for symbol in elf.find("answer@OLD_1")] == ["answer@OLD_1"]
    assert [str(symbol) for symbol in elf.find("answer@NEW_2")] == ["answer@@NEW_2"]
    assert elf.find("answer@@OLD_1") == elf.find("answer@NEWER") == elf.find("answe") == elf.find("") == ()
    new, old = elf.find("answer")
    assert new.value != old.value
    assert new.kind == old.kind == "STT_FUNC"


def test_kinds_and_local_functions(library):
    """An IFUNC is marked, an object is not a function, a static function is found, .bss has no place in the file."""
    elf = ElfFile(str(library))
    (chosen,) = elf.find("chosen")
    (counter,) = elf.find("counter")
    (zeros,) = elf.find("zeros")
    (helper,) = elf.find("hidden_helper")
    assert (chosen.kind, chosen.is_function) == ("STT_GNU_IFUNC", True)
    assert (counter.kind, counter.size, counter.is_function) == ("STT_OBJECT", 4, False)
    assert (helper.kind, helper.version) == ("STT_FUNC", "")
    assert (zeros.size, zeros.offset) == (4000, None)
    content = library.read_bytes()
    assert content[counter.offset : counter.offset + 4] == (17).to_bytes(4, "little")
    assert [symbol.name for symbol in elf.functions("*_helper")] == ["hidden_helper"]


def test_the_symbols_are_those_of_readelf(library):
    """Name, version, value, size and type of every defined symbol, as binutils' readelf prints them."""
    libc = next(Path("/usr/lib").rglob(ctypes.util.find_library("c")))
    for path in map(os.path.realpath, (library, "/proc/self/exe", libc)):
        expected = set()
        kinds = {"FUNC": "STT_FUNC", "IFUNC": "STT_GNU_IFUNC", "OBJECT": "STT_OBJECT", "NOTYPE": "STT_NOTYPE"}
        for line in readelf(path, "--syms", "--wide").splitlines():
            fields = line.split()
            if len(fields) == 8 and fields[0][:-1].isdigit() and fields[3] in kinds and fields[6] != "UND":
                size = int(fields[2], 0)
                expected.add((fields[7].partition("@")[0], int(fields[1], 16), size, kinds[fields[3]]))
        found = list(ElfFile(path).symbols())
        assert {(s.name, s.value, s.size, s.kind) for s in found} == expected
        assert len(found) > 4


def test_offsets_hold_the_same_bytes(library):
    """The file offset of a function has its code, and leads back to its address; data is no code."""
    for path in (str(library), "/proc/self/exe"):
        elf = ElfFile(path)
        for symbol in elf.functions():
            assert symbol.offset is not None
            assert elf.address_of(symbol.offset) == symbol.value
        assert elf.offset_of(1 << 60) is elf.address_of(1 << 60) is None
    elf = ElfFile(str(library))
    (counter,) = elf.find("counter")
    assert elf.address_of(counter.offset) is None
    assert elf.address_of(counter.offset, executable=False) == counter.value


def test_addresses_have_names(library):
    """Each byte of a function is named by it, with its offset; what lies in none has no name."""
    elf = ElfFile(str(library))
    table = elf.table()
    for name in ("visible", "hidden_helper"):
        (symbol,) = elf.find(name)
        for offset in (0, 1, symbol.size - 1):
            found = table.find(symbol.value + offset)
            assert (found.name, found.start, found.offset) == (name, symbol.value, offset)
    assert table.find(0) is None
    assert table.find(1 << 60) is None


def test_notes_and_the_build_id(library, tmp_path):
    """The build id is what the linker was told; a file without one has "", and notes are found by owner."""
    assert ElfFile(str(library)).build_id == "1234567890abcdef"
    bare = build_native("int x;", tmp_path / "bare.so", "-shared", "-Wl,--build-id=none")
    assert ElfFile(str(bare)).build_id == ""
    elf = ElfFile("/proc/self/exe")
    assert f"Build ID: {elf.build_id}" in readelf(os.path.realpath("/proc/self/exe"), "--notes", "--wide")
    (note,) = [note for note in elf.notes("GNU") if note.type == 3]
    assert note.description.hex() == elf.build_id
    assert note.section == ".note.gnu.build-id"
    assert elf.notes("nobody") == ()


def test_positions_and_32_bits(tmp_path):
    """A static file at fixed addresses, and one for 32 bits, where the compiler makes them."""
    static = build_native("int known(void){return 7;} int main(void){return known();}", tmp_path / "static", "-static")
    elf = ElfFile(str(static))
    (known,) = elf.find("known")
    assert elf.type == "ET_EXEC"
    assert 0 < known.offset < known.value
    source = tmp_path / "narrow.c"
    source.write_text("int known(void){return 7;}")
    options = ["-m32", "-shared", "-nostdlib", "-fPIC"]
    command = ["gcc", *options, "-o", tmp_path / "narrow.so", source]
    assert subprocess.run(command, check=False, capture_output=True).returncode == 0
    narrow = ElfFile(str(tmp_path / "narrow.so"))
    (known,) = narrow.find("known")
    assert (known.kind, narrow.address_of(known.offset)) == ("STT_FUNC", known.value)


def test_what_is_no_elf_file(tmp_path):
    """A missing file, a directory, a FIFO, a text and a device are one line each."""
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "text").write_text("not ELF, but long enough to be one" * 10)
    (tmp_path / "empty").write_bytes(b"")
    with pytest.raises(NotFound, match=r"there is no file .*/missing$"):
        ElfFile(str(tmp_path / "missing"))
    for name in ("fifo", "", "/dev/null"):
        with pytest.raises(MalformedData, match=r"is not a regular file$"):
            ElfFile(str(tmp_path / name))
    for name in ("text", "empty"):
        with pytest.raises(MalformedData, match=r"is not an ELF file$"):
            ElfFile(str(tmp_path / name))


def test_garbled_files_are_refused_or_read(library):
    """Cut anywhere or with bytes overwritten, a file is refused as malformed or read, and never fails otherwise."""
    good = library.read_bytes()
    variants = [good[:size] for size in [*range(200), *range(200, len(good), 97)]]
    for place in [*range(16, 64), *range(len(good) - 64 * 36, len(good), 7)]:
        variants += [good[:place] + bytes([value]) + good[place + 1 :] for value in (0x00, 0x7F, 0xFF)]
    refused = []
    for data in variants:
        try:
            elf = ElfSymbols.from_bytes(data, "garbled")
            list(elf.symbols())
            elf.table()
            elf.notes()
            _ = elf.build_id, elf.debug_link
        except MalformedData as error:
            refused.append(str(error))
    assert all(re.fullmatch(r"garbled[ :].*", message) for message in refused)
    assert 300 < len(refused) < len(variants)


@pytest.mark.parametrize(
    ("segment", "offset", "expected"),
    [
        (Segment(1, 5, 0x1000, 0x1000, 0x360, 0x360, 0x1000), 0x1000, -0x1000),
        # As lld makes them: the segment begins inside of a page, which the mapping has whole.
        (Segment(1, 5, 0x760, 0x1760, 0x360, 0x360, 0x1000), 0, -0x1000),
        # A position that is fixed, and pages of 64 KiB, of which the mapping begins with any.
        (Segment(1, 5, 0, 0x400000, 0x9000, 0x9000, 0x1000), 0, -0x400000),
        (Segment(1, 5, 0x12340, 0x22340, 0x9000, 0x9000, 0x10000), 0x10000, -0x20000),
        (Segment(1, 5, 0x12340, 0x22340, 0x9000, 0x9000, 0x10000), 0x12000, -0x22000),
        (Segment(1, 5, 0x12340, 0x22340, 0x9000, 0x9000, 0x1000), 0x1C000, None),
        (Segment(1, 4, 0, 0, 0x9000, 0x9000, 0x1000), 0, None),  # no code
    ],
)
def test_where_a_mapping_puts_a_file(segment, offset, expected):
    """How far above its own addresses a file's code is, by the mapping that has it."""
    start = 0x7F00_0000_0000
    bias = bias_of((Segment(4, 4, 0, 0, 0x9000, 0x9000, 8), segment), start, offset)
    assert bias == (None if expected is None else start + expected)
