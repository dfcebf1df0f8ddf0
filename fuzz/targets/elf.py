"""ELF objects, as clang makes them."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from pyebpf.errors import PyebpfError
from pyebpf.objfile import KernelConfig, list_section, read_object

if TYPE_CHECKING:
    from collections.abc import Iterable

COVERS = ("pyebpf/elf", "pyebpf/objfile")
TEXT = False
DICTIONARY = (
    *(b"\x7fELF", b"\xf7\0", b"\xff\xff\xff\xff", b"\0\0\0\0\0\0\0\0", b"\x01\0\0\0\0\0\0\0", b"\x08\0\0\0"),
    *(b".maps\0", b"maps\0", b"license\0", b".text\0", b".bss\0", b"xdp\0", b"tp_btf/", b".BTF\0", b".BTF.ext\0"),
    *(b".kconfig\0", b".ksyms\0", b".bss.guard\0", b"bpf_spin_lock\0", b"contains:item:node\0"),
)
_SOURCES = (
    """
    struct { int (*type)[1]; int (*max_entries)[8]; u32 *key; u64 *value; } counts SEC(".maps");
    u64 total; int limit = 3; const char word[] = "word";
    static __attribute__((noinline)) int twice(int x) { return x * 2 + word[x & 3]; }
    SEC("xdp") int drop(void *ctx) {
        u32 key = 0;
        u64 *count = bpf_map_lookup_elem(&counts, &key);
        if (count) __sync_fetch_and_add(count, 1);
        total += twice(limit);
        return 1;
    }
    SEC("tp/sched/sched_switch") int other(void *ctx) { return twice(limit); }
    """,
    """
    static long each(u32 index, void *context) { return index > *(u32 *)context; }
    SEC("socket") int loop(void *ctx) { u32 most = 7; return bpf_loop(100, each, &most, 0); }
    """,
    'SEC("xdp") int one(void *ctx) { return 1; }',
    """
    struct bpf_spin_lock { u32 val; };
    struct locked { struct bpf_spin_lock lock; u32 count; };
    struct { int (*type)[2]; int (*max_entries)[1]; u32 *key; struct locked *value; } locks SEC(".maps");
    static struct bpf_spin_lock guard SEC(".bss.guard");
    extern int CONFIG_HZ SEC(".kconfig"); extern char CONFIG_NAME[8] SEC(".kconfig") __attribute__((weak));
    extern int bpf_some_function(void *p) SEC(".ksyms") __attribute__((weak));
    SEC("tc") int lock(void *ctx) {
        u32 key = CONFIG_NAME[1];
        if (bpf_some_function && bpf_some_function(ctx)) return guard.val;
        return bpf_map_lookup_elem(&locks, &key) ? CONFIG_HZ : 0;
    }
    """,
)
_CONFIG = KernelConfig(0x60C29, 'CONFIG_HZ=250\nCONFIG_ON=y\nCONFIG_NAME="name"\n')


def target(data: bytes) -> None:
    """Any bytes are an object or one of pyebpf's errors; so is every question about what was read."""
    try:
        whole = read_object(data)
    except PyebpfError:
        return
    for section in whole.elf.sections:
        _ask(lambda section=section: list_section(whole, section.name))
        _ask(lambda section=section: list_section(whole, section.name, syntax="mnemonic", source=False))
    _ask(lambda: whole.license)
    _ask(lambda: whole.maps)
    _ask(lambda: whole.data)
    _ask(whole.map_specs)
    _ask(lambda: whole.map_specs(_CONFIG))
    _ask(lambda: whole.types)
    _ask(whole.module_spec)
    programs: list[str] = []
    _ask(lambda: programs.extend(program.name for program in whole.programs))
    for name in programs[:50]:
        _ask(lambda name=name: whole.program_spec(name, None, _CONFIG))


def _ask(question: object) -> None:
    assert callable(question)
    try:
        question()
    except PyebpfError:
        return


def seeds() -> Iterable[bytes]:
    """Four small objects, with and without debug information; none where clang-19 is not installed."""
    from tests.objfile.conftest import PRELUDE

    compiler = shutil.which("clang-19")
    if compiler is None:
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "seed.c"
        for source in _SOURCES:
            path.write_text(PRELUDE + source)
            for options in (["-g"], [], ["-g", "-target", "bpfeb"]):
                command = [compiler, "-target", "bpf", "-O2", *options, "-c", "seed.c", "-o", "seed.o"]
                subprocess.run(command, cwd=folder, check=True)
                yield (Path(folder) / "seed.o").read_bytes()
