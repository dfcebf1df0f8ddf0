"""Programs and libraries: headers, symbols with versions, notes, rules of call frames, debugging information."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from pyebpf.elf.call_frames import call_frames
from pyebpf.elf.dwarf.info import DebugInfo
from pyebpf.elf.dwarf.types import DebugTypes
from pyebpf.elf.symbols import ElfSymbols
from pyebpf.elf.usdt_notes import usdt_probes
from pyebpf.errors import PyebpfError
from pyebpf.symbols.user_functions import find_functions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

COVERS = ("pyebpf/elf", "pyebpf/symbols")
TEXT = False
DICTIONARY = (
    *(
        b"\x7fELF\x02\x01\x01",
        b"\x7fELF\x01\x02\x01",
        b"\xff\xff\xff\xff",
        b"\0\0\0\0\0\0\0\0",
        b"\x01\0\0\0",
        b"\x03\0\0\0",
    ),
    *(b"\x08\0\0\0", b"stapsdt\0", b".note.stapsdt\0", b".stapsdt.base\0", b".dynsym\0", b".symtab\0", b"traced\0"),
)
_SOURCE = """
struct item { int key:3; char text[4]; struct item *next; } item;
int one(int n) { return n + 1; }
int key(struct item *of) { return of->key; }
static inline int add(int n, int m) { return n * m + m; }
int two(int n) { return add(n, 2); }
__asm__(".symver one, f@V1");
__asm__(".symver two, f@@V2");
__asm__(".pushsection .stapsdt.base, \\"a\\"\\n_.stapsdt.base: .space 1\\n.popsection");
void place(void)
{
    __asm__("990: nop\\n.pushsection .note.stapsdt, \\"\\", \\"note\\"\\n.4byte 8, 992f - 991f, 3\\n"
            ".asciz \\"stapsdt\\"\\n991: .8byte 990b, _.stapsdt.base, 0\\n"
            ".asciz \\"p\\"\\n.asciz \\"n\\"\\n.asciz \\"8@%rdi\\"\\n992: .balign 4\\n.popsection");
}
"""


def target(data: bytes) -> None:
    """Any bytes are an ELF file or one of pyebpf's errors; so is every question about what was read."""
    try:
        elf = ElfSymbols.from_bytes(data, "fuzzed")
    except PyebpfError:
        return
    symbols: list[str] = []
    _ask(lambda: symbols.extend(symbol.name for symbol in elf.symbols()))
    _ask(lambda: usdt_probes(elf))
    _ask(elf.table)
    _ask(lambda: list(call_frames(elf)))
    _ask(lambda: elf.build_id)
    _ask(lambda: elf.debug_link)
    lines = DebugInfo(elf)
    for address in (0x1000, 0x1004, 0x1010, 0x101F):
        _ask(lambda address=address: lines.lines(address))
    _ask(lambda: lines.code_of("seed.c", 2))
    _ask(lambda: _look_through(DebugTypes(elf)))
    for name in [*symbols[:10], "f", "f@V1", "f@@V2", "one+1", "0x1000", "[a-z]*"]:
        _ask(lambda name=name: elf.find(name))
        _ask(lambda name=name: find_functions(elf, [name]))
        _ask(lambda name=name: find_functions(elf, [name], returns=True))


def _look_through(types: DebugTypes) -> None:
    """Ask for parameters, and for members of a struct by its name."""
    for address in (0x1000, 0x1004, 0x1010, 0x101F):
        _ask(lambda address=address: types.signature(address))
    found = types.named("struct", "item")
    if found is not None:
        types.by_reference(found)
        types.members(found)


def _ask(question: Callable[[], object]) -> None:
    try:
        question()
    except PyebpfError:
        return


def seeds() -> Iterable[bytes]:
    """A library with versions and a note: as it is, with debugging information, stripped; none without gcc."""
    import shutil
    import subprocess

    compiler, strip = shutil.which("gcc"), shutil.which("strip")
    if compiler is None or strip is None:
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "seed.so"
        path.with_suffix(".c").write_text(_SOURCE)
        path.with_suffix(".map").write_text("V1 { }; V2 { } V1;\n")
        options = ["-shared", "-fPIC", "-nostdlib", "-Wl,-z,noseparate-code,--version-script=seed.map", "-o", "seed.so"]
        subprocess.run([compiler, *options, "seed.c"], cwd=folder, check=True)
        yield path.read_bytes()
        subprocess.run([compiler, "-O2", "-g", *options, "seed.c"], cwd=folder, check=True)
        yield path.read_bytes()
        subprocess.run([strip, "seed.so"], cwd=folder, check=True)
        yield path.read_bytes()
