"""Source lines and inlined calls: beside addr2line and llvm-addr2line, which others wrote, and of garbled bytes."""

from __future__ import annotations

import os
import re
import subprocess
import time
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from pyebpf.elf.budget import OverBudget
from pyebpf.elf.dwarf.info import DebugInfo, SourceLine
from pyebpf.elf.dwarf.sections import DebugSections
from pyebpf.elf.symbols import ElfSymbols
from pyebpf.errors import MalformedData, PyebpfError
from tests.support.garbled_dwarf import changed, cut_short, debug_sections, moved
from tests.support.needs import needs

C = """
#include <stdlib.h>
struct item { int key; char name[16]; };
static inline int hash(const char *s) { int h = 5381; while (*s) h = h * 33 + *s++; return h; }
static inline int weigh(const struct item *i) { return hash(i->name) ^ i->key * 3; }
__attribute__((noinline)) int compare(const void *a, const void *b) { return weigh(a) - weigh(b); }
__attribute__((noinline, cold)) void sort(struct item *v, int n) { if (n > 1) qsort(v, n, sizeof *v, compare); }
int main(int argc, char **argv) {
    struct item v[8] = {{3, "three"}, {1, "one"}};
    for (int i = 0; i < argc; i++) v[i & 7].key ^= hash(argv[i]);
    sort(v, 8);
    return weigh(v);
}
"""
HASH, WEIGH, COMPARE, MAIN_LOOP = 4, 5, 6, 10
CPP = """
#include <algorithm>
#include <map>
#include <string>
#include <vector>
namespace app {
struct item { int x; std::string s; int weight() const { return x * 3 + (int)s.size(); } };
template <class T> T twice(T v) { return v + v; }
}
int main(int argc, char **argv) {
    std::vector<app::item> v;
    std::map<std::string, std::vector<int>> m;
    for (int i = 0; i < argc * 1000; i++) {
        v.push_back({i * 7 % 101, std::to_string(i)});
        m[v.back().s].push_back(i);
    }
    std::sort(v.begin(), v.end(), [](auto &a, auto &b) { return a.weight() < b.weight(); });
    int t = 0;
    for (auto &p : v) t += app::twice(p.weight());
    return t + m.size();
}
"""


def compiled(folder, compiler, *options, source=C, name="program"):
    """A program with debugging information."""
    needs(f"command:{compiler}")
    path = folder / name
    text = path.with_suffix(".cc" if "++" in compiler else ".c")
    text.write_text(source)
    subprocess.run(
        [compiler, "-O2", "-g", *options, "-o", path.name, text.name], cwd=folder, check=True, capture_output=True
    )
    return path


def elf_of(path):
    """The file, read at once."""
    return ElfSymbols.from_bytes(path.read_bytes(), str(path))


def instructions(elf):
    """Places in the code, every third."""
    text = elf.section(".text")
    return range(text.address, text.address + text.size, 3)


def told_by(command, path, addresses):
    """Lines by address as addr2line tells them: names of inlined functions, files and lines."""
    process = subprocess.run(
        [command, "-i", "-f", "-a", "-e", path],
        input="\n".join(map(hex, addresses)),
        capture_output=True,
        text=True,
        check=True,
    )
    found, rows = [], process.stdout.splitlines()
    for name, place in zip(*[iter(_pairs(rows, found))] * 2, strict=True):
        file, _, line = place.split(" (discriminator")[0].rpartition(":")
        number = int(line) if line.isdecimal() else 0
        found[-1].append(SourceLine(name, "" if file == "??" else os.path.normpath(file), number))
    assert len(found) == len(addresses)
    return [(*(each for each in calls[:-1]), calls[-1]._replace(name="")) for calls in found]


def _pairs(rows, found):
    """Rows without those of addresses, each of which begins a new list."""
    for row in rows:
        if row.startswith("0x"):
            found.append([])
        elif row:
            yield row


def lines_of(info, address):
    """The lines of an address in the form of `told_by`."""
    return info.lines(address) or (SourceLine("", "", 0),)


def is_known(calls):
    """Whether DWARF has said more than a name: a symbol's file is told even where there is none."""
    return len(calls) > 1 or calls[0].line != 0


@pytest.mark.parametrize("version", [2, 3, 4, 5])
@pytest.mark.parametrize("options", [(), ("-gz",), ("-ffunction-sections",)], ids=" ".join)
def test_all_versions_as_addr2line_tells_them(version, options, tmp_path):
    """Every third byte of a program's code, with what was inlined there."""
    needs("command:addr2line")
    path = compiled(tmp_path, "gcc", f"-gdwarf-{version}", *options)
    elf = elf_of(path)
    info, addresses = DebugInfo(elf), instructions(elf)
    inlined = 0
    for address, expected in zip(addresses, told_by("addr2line", path, addresses), strict=True):
        found = lines_of(info, address)
        if is_known(expected) or is_known(found):
            assert found == expected, hex(address)
        inlined += len(found) > 1
    assert inlined > 20


@pytest.mark.parametrize("options", [("-gdwarf-4",), ("-gdwarf-5",), ("-fdebug-types-section", "-ffunction-sections")])
@pytest.mark.parametrize("compiler", ["g++", "clang++-19"])
def test_cpp_as_llvm_tells_it(compiler, options, tmp_path):
    """Templates, lambdas and the library's headers: hundreds of calls inlined through many levels."""
    needs("command:llvm-addr2line-19")
    path = compiled(tmp_path, compiler, *options, source=CPP)
    elf = elf_of(path)
    info, addresses = DebugInfo(elf), instructions(elf)
    deepest = 0
    for address, expected in zip(addresses, told_by("llvm-addr2line-19", path, addresses), strict=True):
        found = lines_of(info, address)
        if is_known(expected) or is_known(found):
            assert found == expected, hex(address)
        deepest = max(deepest, len(found))
    assert deepest > 5


def test_dwarf_of_64_bits(tmp_path):
    """Offsets of eight bytes: the calls are those of the usual form."""
    wide = elf_of(compiled(tmp_path, "gcc", "-gdwarf-5", "-gdwarf64", name="wide"))
    usual = elf_of(compiled(tmp_path, "gcc", "-gdwarf-5", name="usual"))
    one, other = DebugInfo(wide), DebugInfo(usual)
    lines = [[(each.name, each.line) for each in one.lines(address)] for address in instructions(wide)]
    assert lines == [[(each.name, each.line) for each in other.lines(address)] for address in instructions(usual)]
    assert [("hash", HASH), ("weigh", WEIGH), ("", COMPARE)] in lines
    assert any(each[-1] == ("", MAIN_LOOP) for each in lines if each)


@pytest.mark.parametrize("version", [2, 3, 4, 5])
def test_code_of_lines(version, tmp_path):
    """Each line of the table is found where objdump has it first; inlined calls have a place in each function."""
    needs("command:objdump")
    path = compiled(tmp_path, "gcc", f"-gdwarf-{version}")
    info = DebugInfo(elf_of(path))
    rows = {}
    text = subprocess.run(["objdump", "--dwarf=decodedline", path], capture_output=True, text=True, check=True).stdout
    for line, address in re.findall(r"^program\.c +(\d+) +(0x[0-9a-f]+)", text, re.MULTILINE):
        rows.setdefault(int(line), []).append(int(address, 16))
    assert {HASH, WEIGH, COMPARE, MAIN_LOOP} <= rows.keys()
    for line, addresses in rows.items():
        found = info.code_of("program.c", line).addresses
        assert found[0] == min(addresses)
        assert set(found) <= set(addresses)
    assert len(info.code_of(f"{tmp_path.name}/program.c", HASH).addresses) == 2
    nothing = info.code_of("program.c", 1)
    assert (nothing.addresses, nothing.following) == ((), min(rows))
    assert [Path(file).name for file in nothing.files] == ["program.c"]
    assert info.code_of("rogram.c", HASH).files == ()


def test_more_than_is_read_is_said(tmp_path, monkeypatch):
    """A limit is named, and not taken for garbled data."""
    monkeypatch.setattr("pyebpf.elf.dwarf.lines._MAX_ROWS", 7)
    info = DebugInfo(elf_of(compiled(tmp_path, "gcc")))
    for question in (lambda: info.code_of("program.c", HASH), lambda: info.lines(info.elf.section(".text").address)):
        with pytest.raises(OverBudget, match="rows of a line table are more than are read"):
            question()


def test_an_address_outside(tmp_path):
    """Nothing is known of what is no code."""
    info = DebugInfo(elf_of(compiled(tmp_path, "gcc")))
    for address in (0, 1, 0x10, 1 << 40, (1 << 64) - 1):
        assert info.lines(address) == ()


# -- of garbled bytes --------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Bytes of programs, and addresses of functions there."""
    folder = tmp_path_factory.mktemp("dwarf")
    found = []
    for version in (3, 4, 5):
        path = compiled(folder, "gcc", f"-gdwarf-{version}", name=f"v{version}")
        elf = elf_of(path)
        found.append((path.read_bytes(), debug_sections(elf), list(instructions(elf))[::4]))
    return found


def asked(data, addresses):
    """Ask for lines of all addresses: each is answered, or refused by an error of ours."""
    try:
        info = DebugInfo(ElfSymbols.from_bytes(data, "garbled", seconds=2))
    except PyebpfError:
        return
    for address in addresses:
        answered(info, address)
    with suppress(PyebpfError):
        info.code_of("program.c", MAIN_LOOP)


def answered(info, address):
    """Ask for the lines of an address."""
    try:
        found = info.lines(address)
    except PyebpfError:
        return
    assert all(isinstance(each, SourceLine) for each in found)


@given(which=st.integers(0, 2), choices=st.randoms(use_true_random=False), number=st.integers(1, 8))
def test_any_bytes_are_lines_or_an_error(files, which, choices, number):
    """Bytes changed anywhere in the debugging information, the rest as it was."""
    data, sections, addresses = files[which]
    asked(changed(data, sections, choices, number), addresses[:40])


def test_each_section_cut_short(files):
    """A section may end anywhere."""
    for data, sections, addresses in files:
        elf = ElfSymbols.from_bytes(data, "cut")
        for _ in cut_short(elf, sections):
            info = DebugInfo(elf)
            for address in addresses[:10]:
                answered(info, address)


def test_sections_that_claim_too_much(files, tmp_path):
    """A compressed section that says it is large, and one that says it is larger than it is."""
    path = compiled(tmp_path, "gcc", "-gz")
    data = bytearray(path.read_bytes())
    elf = elf_of(path)
    section = elf.section(".debug_info")
    for size in (1 << 40, (1 << 64) - 1, 1 << 20, 1):
        data[section.offset + 8 : section.offset + 16] = size.to_bytes(8, "little")
        sections = DebugSections(ElfSymbols.from_bytes(bytes(data), "large"))
        with pytest.raises(MalformedData, match=r"compressed sections have more|cannot be unpacked"):
            sections.whole(".debug_info")


def test_entries_that_refer_to_each_other(files):
    """Names lead from entry to entry: in a circle they end, and quickly."""
    data, sections, addresses = files[2]
    for garbled in moved(data, sections):
        start = time.process_time()
        asked(garbled, addresses[:5])
        assert time.process_time() - start < 5
