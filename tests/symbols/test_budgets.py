"""Files that a user made to stall whoever names addresses: each is given up, in time and within memory."""

from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from pyebpf.elf import budget as budgets
from pyebpf.elf.budget import Allowances, OverBudget
from pyebpf.elf.relocations import read_relocatable
from pyebpf.elf.symbol_table import SymbolTable
from pyebpf.errors import MalformedData, PyebpfError
from pyebpf.symbols.debug import include_debug_symbols
from pyebpf.symbols.files import ElfFile
from pyebpf.symbols.libraries import parse_cache
from pyebpf.symbols.mappings import parse_mappings, read_mappings
from pyebpf.symbols.process import Processes
from pyebpf.symbols.user_functions import find_functions
from tests.support.errors import only_own_errors

MIB = 1 << 20
SECTION = struct.Struct("<IIQQQQIIQQ")
SYMBOL = struct.Struct("<IBBHQQ")
STRTAB, SYMTAB, NOTE, PROGBITS, REL, DYNSYM = 3, 2, 7, 1, 9, 11
#: Code of all these files: a page at 0x1000, so that addresses of a mapping lie in a segment.
HEADER = 64 + 56


def write_elf(path, sections, contents, *, size=0, count=None, names=0, entry_size=0):
    """An ELF file: `sections` (name, type, flags, address, offset, size, link, info) after `contents` by offset."""
    table_at = max([HEADER, *(at + len(data) for at, data in contents.items())]) + 7 & ~7
    number = len(sections) if count is None else count
    header = b"\x7fELF\x02\x01\x01".ljust(16, b"\0") + struct.pack(
        "<HHIQQQIHHHHHH", 3, 62, 1, 0, 64, table_at, 0, 64, 56, 1, 64, number if number < 0xFF00 else 0, names
    )
    segment = struct.pack("<IIQQQQQQ", 1, 5, 0, 0, 0, 1 << 20, 1 << 20, 4096)
    with path.open("wb") as file:
        file.write(header + segment)
        for at, data in contents.items():
            file.seek(at)
            file.write(data)
        file.seek(table_at)
        for index, (name, kind, flags, address, offset, length, link, info) in enumerate(sections):
            many = index == 0 and number >= 0xFF00
            file.write(
                SECTION.pack(name, kind, flags, address, offset, number if many else length, link, info, 8, entry_size)
            )
        file.truncate(max(size, file.tell(), 1 << 21))
    return path


NULL = (0, 0, 0, 0, 0, 0, 0, 0)
TEXT = (0, PROGBITS, 6, 0x1000, 0x1000, 0x1000, 0, 0)


def huge_section_table(path):
    """A million section headers, in a hole of the file."""
    return write_elf(path, [NULL], {}, size=128 * MIB, count=1 << 20)


def names_without_end(path):
    """60,000 sections whose names end nowhere in 4 MiB."""
    names = (0, STRTAB, 0, 0, 4096, 4 * MIB, 0, 0)
    return write_elf(path, [NULL, names, *[(7, PROGBITS, 0, 0, 0, 0, 0, 0)] * 60_000], {4096: b"n" * 4 * MIB}, names=1)


def symbols_without_end(path):
    """60,000 functions whose names end nowhere in 24 MiB."""
    symbols = b"".join(SYMBOL.pack(1 + i, 2, 0, 1, 0x1000 + i, 1) for i in range(60_000))
    strings, names = (0, STRTAB, 0, 0, 4 * MIB, 24 * MIB, 0, 0), (0, STRTAB, 0, 0, 4096, 16, 0, 0)
    sections = [NULL, TEXT, (0, SYMTAB, 0, 0, 8192, len(symbols), 3, 0), strings, names]
    return write_elf(path, sections, {4096: bytes(16), 8192: symbols, 4 * MIB: b"n" * 24 * MIB}, names=4)


def tables_over_one(path):
    """2,000 symbol tables over the same 100,000 symbols."""
    symbols = b"".join(SYMBOL.pack(1, 2, 0, 1, 0x1000 + i, 1) for i in range(100_000))
    table = (0, SYMTAB, 0, 0, 8192, len(symbols), 2, 0)
    sections = [NULL, TEXT, (0, STRTAB, 0, 0, 4096, 16, 0, 0), *[table] * 2000]
    return write_elf(path, sections, {4096: b"\0one\0two\0".ljust(16, b"\0"), 8192: symbols}, names=2)


def notes_over_one(path):
    """60,000 sections of notes over the same 64 kB, of 5,000 notes."""
    notes = struct.pack("<III", 0, 0, 9) * 5000
    return write_elf(path, [NULL, *[(0, NOTE, 0, 0, 4096, len(notes), 0, 0)] * 60_000], {4096: notes})


def many_symbols(path, count=budgets.MAX_SYMBOLS):
    """As many symbols as are read at most, each of its own, at addresses far from sorted."""
    order = [(i * 7919) % count for i in range(count)]
    symbols = b"".join(SYMBOL.pack(1 + i % 1000, 2, 0, 1, 0x1000 + place, 1) for i, place in enumerate(order))
    strings = b"\0" + b"n" * 2000 + b"\0"
    at = 8192 + len(symbols)
    sections = [NULL, TEXT, (0, SYMTAB, 0, 0, 8192, len(symbols), 3, 0), (0, STRTAB, 0, 0, at, len(strings), 0, 0)]
    return write_elf(path, sections, {8192: symbols, at: strings}, names=3)


def names_over_each_other(path, *, count=400_000, strings=b"N" * (30 * MIB)):
    """Functions whose names begin at every byte of a text that has no end."""
    symbols = b"".join(SYMBOL.pack(i % len(strings), 0x12, 0, 1, 0x1000 + i % 4096, 1) for i in range(count))
    at = 8192 + len(symbols)
    sections = [NULL, TEXT, (0, SYMTAB, 0, 0, 8192, len(symbols), 3, 0), (0, STRTAB, 0, 0, at, len(strings), 0, 0)]
    sections.append((0, STRTAB, 0, 0, 4096, 16, 0, 0))
    return write_elf(path, sections, {4096: bytes(16), 8192: symbols, at: strings}, names=4, entry_size=SYMBOL.size)


ATTACKS = (
    huge_section_table,
    names_without_end,
    symbols_without_end,
    tables_over_one,
    notes_over_one,
    many_symbols,
    names_over_each_other,
)


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.__name__)
def test_a_file_costs_no_more_than_a_second(tmp_path, attack):
    """Of this processor's work, headers, debug files, symbols and all."""
    path = attack(tmp_path / "file")
    start = time.thread_time()
    with suppress(OverBudget):
        elf = ElfFile(str(path), seconds=0.5)
        include_debug_symbols(elf)
        assert elf.table().find(0x1008) is not None
    assert time.thread_time() - start < 1.5


@pytest.mark.parametrize(
    ("attack", "reason"),
    [
        (huge_section_table, "1048576 section headers are more than are read for names, 16384"),
        (names_without_end, "60002 section headers are more"),
        (notes_over_one, "60001 section headers are more"),
    ],
)
def test_what_is_given_up_says_why(tmp_path, attack, reason):
    """The file, what there is too much of, and how much is read."""
    path = attack(tmp_path / "file")
    with pytest.raises(OverBudget, match=f"{path}: .*{reason}"):
        ElfFile(str(path))


def test_limits_are_no_file_that_is_in_use():
    """The largest libraries and programs here are read whole, and fast."""
    files = sorted({Path("/proc/self/exe").resolve(), *Path("/usr/lib").glob("*/lib*.so*")}, key=os.path.getsize)
    for path in files[-20:]:
        elf = only_own_errors(ElfFile, str(path))
        assert not isinstance(elf, OverBudget), path
        if isinstance(elf, PyebpfError):
            continue
        include_debug_symbols(elf)
        elf.table()


# Every reader of symbols, for names that are in the file and that are not; the peak in MiB.
READERS = """
import sys
from contextlib import suppress
from pyebpf.elf.relocations import read_relocatable
from pyebpf.errors import PyebpfError
from pyebpf.symbols.files import ElfFile
from pyebpf.symbols.user_functions import find_functions
reader, path = sys.argv[1:]
with suppress(PyebpfError):
    if reader == "object":
        with open(path, "rb") as file:
            read_relocatable(file.read())
    elif reader == "functions":
        ElfFile(path).functions()
    elif reader == "symbols":
        list(ElfFile(path).symbols())
    else:
        find_functions(ElfFile(path), [reader])
print(next(line for line in open("/proc/self/status") if line.startswith("VmHWM")).split()[1])
"""


@pytest.mark.parametrize(
    "reader", ["*", "N", "NNNNNNNNNNNN", "N*N", "Nothing", "N@V", "object", "functions", "symbols"]
)
def test_every_reader_of_symbols_keeps_within_memory(tmp_path, reader):
    """Patterns, names and objects as much as addresses: 1.8 to 3.8 GB were the names of a file of 41 MB."""
    path = names_over_each_other(tmp_path / "file")
    done = subprocess.run(
        [sys.executable, "-c", READERS, reader, str(path)], capture_output=True, text=True, check=True, timeout=60
    )
    assert int(done.stdout) < 256 << 10


@pytest.mark.parametrize("reader", ["*", "name", "n*", "nothing"])
def test_a_name_of_half_a_million_functions_takes_no_memory_for_each(tmp_path, reader):
    """One that stands everywhere, and one name for all of them."""
    path = names_over_each_other(tmp_path / "file", count=budgets.MAX_SYMBOLS, strings=b"name\0" * (3 * MIB))
    done = subprocess.run(
        [sys.executable, "-c", READERS, reader, str(path)], capture_output=True, text=True, check=True, timeout=60
    )
    assert int(done.stdout) < 128 << 10


@pytest.mark.parametrize("read", [lambda elf: elf.functions(), lambda elf: [*elf.symbols()],
                                  lambda elf: [*elf.every_symbol()]])  # fmt: skip
def test_the_names_of_a_file_are_32_mib_together(tmp_path, read):
    """Whichever way they are asked for; and again: a pass begins anew."""
    elf = ElfFile(str(names_over_each_other(tmp_path / "over", count=10_000, strings=b"N" * 20_000)))
    for _ in range(2):
        with pytest.raises(OverBudget, match="its names are longer than are read, 33554432 bytes together"):
            read(elf)
    elf = ElfFile(str(names_over_each_other(tmp_path / "within", count=5_000, strings=b"N" * 20_000)))
    for _ in range(2):
        assert len(read(elf)) in (5_000, 4_999)  # one has no name


def test_both_tables_of_a_file_share_its_limits(tmp_path):
    """The static and the dynamic one: their symbols, and the tables of their names."""
    symbols = SYMBOL.pack(1, 0x12, 0, 1, 0x1000, 1) * 300_000
    both = [(0, kind, 0, 0, 8192, len(symbols), 3, 0) for kind in (SYMTAB, DYNSYM)]
    sections = [NULL, TEXT, both[0], (0, STRTAB, 0, 0, 4096, 16, 0, 0), both[1]]
    path = write_elf(tmp_path / "symbols", sections, {4096: b"\0one\0".ljust(16, b"\0"), 8192: symbols}, names=3)
    with pytest.raises(OverBudget, match="600000 symbols are more than are read for names, 524288"):
        ElfFile(str(path)).table()
    few = [(0, kind, 0, 0, 8192, SYMBOL.size, 3, 0) for kind in (SYMTAB, DYNSYM)]
    text = (0, STRTAB, 0, 0, MIB, 20 * MIB, 0, 0)
    sections = [NULL, TEXT, few[0], text, few[1], (0, STRTAB, 0, 0, 4096, 16, 0, 0)]
    path = write_elf(tmp_path / "names", sections, {4096: bytes(16), 8192: symbols}, size=32 * MIB, names=5)
    with pytest.raises(OverBudget, match=f"{40 * MIB} bytes of names are more"):
        ElfFile(str(path)).find("one")


def test_an_objects_relocations_have_a_limit(tmp_path):
    """16,000 sections of them over the same bytes."""
    symbol = SYMBOL.pack(1, 0x12, 0, 1, 0, 1)
    relocations = struct.pack("<QQ", 0, 1) * 100
    sections = [NULL, TEXT, (0, SYMTAB, 0, 0, 8192, SYMBOL.size, 3, 0), (0, STRTAB, 0, 0, 4096, 16, 0, 0)]
    sections += [(0, REL, 0, 0, 16384, len(relocations), 2, 1)] * 6000
    contents = {4096: b"\0one\0".ljust(16, b"\0"), 8192: symbol, 16384: relocations}
    path = write_elf(tmp_path / "object", sections, contents, names=3, entry_size=16)
    data = bytearray(path.read_bytes())
    table = struct.unpack_from("<Q", data, 40)[0]
    struct.pack_into("<Q", data, table + 2 * SECTION.size + 56, SYMBOL.size)
    with pytest.raises(OverBudget, match="relocations are more than are read for names, 524288"):
        read_relocatable(bytes(data))


def test_a_place_of_many_names_is_told_by_a_few(tmp_path):
    """Linkers fold equal code."""
    strings = b"".join(b"\0name%03d" % i for i in range(100)) + b"\0"
    symbols = b"".join(SYMBOL.pack(1 + i * 8, 0x12, 0, 1, 0x1000, 1) for i in range(100))
    sections = [NULL, TEXT, (0, SYMTAB, 0, 0, 8192, len(symbols), 3, 0), (0, STRTAB, 0, 0, 4096, len(strings), 0, 0)]
    path = write_elf(tmp_path / "folded", sections, {4096: strings, 8192: symbols}, names=3)
    (place,) = find_functions(ElfFile(str(path)), ["name*"]).places
    assert place.name == "/".join(f"name{i:03}" for i in range(16)) + "/..."


def test_sections_of_notes_share_one_limit(tmp_path):
    """Many sections, or few with many bytes."""
    notes = struct.pack("<III", 0, 0, 9) * 5000
    few = [NULL, *[(0, NOTE, 0, 0, 4096, len(notes), 0, 0)] * 100]
    with pytest.raises(OverBudget, match="its notes are larger than are read for names"):
        ElfFile(str(write_elf(tmp_path / "bytes", few, {4096: notes})))
    many = [NULL, *[(0, NOTE, 0, 0, 4096, 16, 0, 0)] * 300]
    with pytest.raises(OverBudget, match="300 sections of notes are more"):
        ElfFile(str(write_elf(tmp_path / "sections", many, {4096: notes})))


def test_a_symbol_that_reaches_over_all_others_costs_no_search(tmp_path):
    """An address in none of half a million small ones inside a large one: few are looked at."""
    count = 200_000
    table = SymbolTable([(0, 1 << 40, b"all"), *((16 + i * 16, 1, b"small") for i in range(count))])
    start = time.thread_time()
    for _ in range(100):
        assert table.find(16 + count * 16 + 8) is None
    assert time.thread_time() - start < 0.5


def test_an_allowance_is_one_users_and_comes_back_slowly(monkeypatch):
    """Root's files have none."""
    now = [1000.0]
    monkeypatch.setattr(budgets.time, "monotonic", lambda: now[0])
    allowances = Allowances()
    full = allowances.left(7)
    allowances.spend(7, full + 0.1)
    assert allowances.left(7) == 0
    assert allowances.left(8) == full
    now[0] += 4
    assert allowances.left(7) == pytest.approx(0.1)
    now[0] += 1000
    assert allowances.left(7) == full
    allowances.spend(0, 100)
    assert allowances.left(0) == budgets.ROOT_SECONDS


def test_a_linkers_cache_may_share_no_text():
    """400,000 entries with one long name are as much as 400,000 names; a name without an end is none."""
    magic = b"glibc-ld.so.cache1.1"
    for text in (b"x" * 4000 + b"\0", b"x" * 8000):
        count = 100_000
        entries = struct.pack("<iIIIQ", 0x0303, 48 + count * 24, 48 + count * 24, 0, 0) * count
        data = magic + struct.pack("<IIB3xI12x", count, len(text), 2, 0) + entries + text
        start = time.thread_time()
        with pytest.raises(MalformedData):
            parse_cache(data)
        assert time.thread_time() - start < 0.5


def test_mappings_are_a_few_thousand():
    """Those of a process that has made 65,000."""
    text = "".join(f"{i:x}000-{i:x}800 r-xp 00000000 08:01 {i} /x{i}\n" for i in range(1, 65_000))
    assert 1000 < len(parse_mappings(text)) < 10_000


# Maps the files that it is given as code, becomes another user's (of whom /proc tells only if it is dumpable), waits.
VICTIM = """
import ctypes, mmap, os, sys
maps = []
user = int(sys.argv[1])
for path in sys.argv[2:]:
    with open(path, "rb") as file:
        maps.append(mmap.mmap(file.fileno(), 1 << 20, prot=mmap.PROT_READ | mmap.PROT_EXEC))
if os.geteuid() != user:
    os.setresuid(user, user, user)
    ctypes.CDLL(None).prctl(4, 1, 0, 0, 0)
print("ready", flush=True)
sys.stdin.read()
"""

# What profile does with a process: look at it, name its addresses; again and again, as samples come.
TRACER = """
import json, sys, time
from pyebpf.symbols.stacks import Symbols
from pyebpf.symbols.libraries import find_binary
from pyebpf.symbols.mappings import read_mappings
pid, names = int(sys.argv[1]), sys.argv[2:]
symbols = Symbols()
longest, end = 0.0, time.monotonic() + 4
while time.monotonic() < end:
    start = time.thread_time()
    symbols.processes.see(pid)
    mappings = [m for m in read_mappings(pid) if m.path in names]
    for mapping in mappings:
        for step in range(50):
            symbols.user_frames(pid, [mapping.start + 0x1000 + step * 8, 0x7000_0000_0000 + step])
    longest = max(longest, time.thread_time() - start)
    time.sleep(0.2)
peak = next(line for line in open("/proc/self/status") if line.startswith("VmHWM"))
print(json.dumps({"longest": longest, "peak": int(peak.split()[1]) // 1024, "mapped": len(mappings),
                  "given up": symbols.processes.given_up}))
"""


def test_all_attacks_at_once(tmp_path):
    """By a user who is not root, on a process of his own: under 256 MiB, and no step above a second."""
    user = os.geteuid() or 65534
    files = []
    for attack in ATTACKS:
        files.append(attack(tmp_path / attack.__name__))
        os.chown(files[-1], user, -1)
    arguments = [sys.executable, "-c", VICTIM, str(user), *map(str, files)]
    with subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as victim:
        assert victim.stdout.readline() == b"ready\n"
        perf_map = Path(f"/tmp/perf-{victim.pid}.map")
        try:
            perf_map.write_bytes(b"7000000000%02x 1 name\n" * 100)
            os.chown(perf_map, user, -1)
            with perf_map.open("r+b") as file:
                file.truncate(256 * MIB)
            tracer = subprocess.run(
                [sys.executable, "-c", TRACER, str(victim.pid), *map(str, files)],
                capture_output=True, text=True, check=True, timeout=120,
            )  # fmt: skip
        finally:
            perf_map.unlink()
        victim.stdin.close()
    found = json.loads(tracer.stdout)
    assert found["mapped"] >= len(ATTACKS)
    assert found["peak"] < 256
    assert found["longest"] < 1.0
    assert any("perf-" in path for path in found["given up"])


def test_a_file_that_another_thread_has_opened_is_read(monkeypatch, tmp_path):
    """The seconds that it may take are counted by the clock of the thread that reads, from when it begins."""
    import pyebpf.symbols.process as module

    clock = [0.0]
    monkeypatch.setattr(budgets.time, "thread_time", lambda: clock[0])
    monkeypatch.setattr(module, "include_debug_symbols", lambda elf, **_: elf.budget.clock())
    path = tmp_path / "program"
    many_symbols(path, 100)
    processes = Processes()
    arguments = [sys.executable, "-c", VICTIM, str(os.geteuid()), str(path)]
    with subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as victim:
        assert victim.stdout.readline() == b"ready\n"
        assert processes.see(victim.pid)
        clock[0] = 100.0
        place = next(m for m in read_mappings(victim.pid) if m.path == str(path))
        assert processes.resolve(victim.pid, place.start + 0x1010).name
        victim.stdin.close()


def test_executables_that_never_end_take_no_memory_for_ever(tmp_path, monkeypatch):
    """Symbols, files, processes and mappings that were asked for least lately are forgotten."""
    import pyebpf.symbols.process as module

    monkeypatch.setattr(module, "_MAX_FILES", 3)
    monkeypatch.setattr(module, "_SYMBOLS_ROOM", 4000)
    monkeypatch.setattr(module, "_MAX_MAPPINGS", 60)
    processes = Processes()
    source = tmp_path / "source"
    many_symbols(source, 100)
    for number in range(10):
        path = tmp_path / f"program{number}"
        path.write_bytes(source.read_bytes())
        arguments = [sys.executable, "-c", VICTIM, str(os.geteuid()), str(path)]
        with subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as victim:
            assert victim.stdout.readline() == b"ready\n"
            assert processes.see(victim.pid)
            place = next(m for m in module.read_mappings(victim.pid) if m.path == str(path))
            assert processes.resolve(victim.pid, place.start + 0x1010).name
            victim.stdin.close()
        modules = processes._files
        assert len(modules._known) <= 3
        assert len(modules._tables) == 1 or sum(modules._tables.values()) <= 4000
        assert processes._mappings <= 60 or len(processes._processes) == 1
        assert processes._mappings == sum(each.size for each in processes._processes.values())
