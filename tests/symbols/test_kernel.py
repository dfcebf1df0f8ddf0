"""Kernel symbols: from a text with everything that kallsyms may hold, and this kernel's own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from pyebpf.symbols.kernel import KernelSymbols
from tests.support.needs import unless

TEXT = b"""\
0000000000000000 A fixed_percpu_data
0000000000001000 D per_cpu_thing
ffffffff81000000 T _stext
ffffffff81000000 T startup_64
ffffffff81000100 t __pfx_type_show
ffffffff81000110 t type_show
ffffffff81000200 t type_show
ffffffff81000300 W weak_one
ffffffff81000400 t with.isra.0
ffffffff81000500 D some_data
ffffffff81000600 B jiffies
ffffffffc0001000 t mod_init\t[loop]
ffffffffc0001000 T init_module\t[loop]
ffffffffc0001100 t type_show\t[loop]
ffffffffc0400000 t bpf_prog_6deef7357e7b4530_probe\t[bpf]
"""


@pytest.fixture
def symbols():
    return KernelSymbols(TEXT)


def shown(symbols, address):
    frame = symbols.resolve(address)
    return str(frame), frame.module


def test_addresses(symbols):
    """The first name of an address, with offset and module; data, gaps and padding are not taken for functions."""
    assert shown(symbols, 0xFFFFFFFF81000004) == ("_stext+0x4", "kernel")
    assert shown(symbols, 0xFFFFFFFF81000110) == ("type_show+0x0", "kernel")
    assert shown(symbols, 0xFFFFFFFF810002FF) == ("type_show+0xff", "kernel")
    assert shown(symbols, 0xFFFFFFFF81000410) == ("with.isra.0+0x10", "kernel")
    assert shown(symbols, 0xFFFFFFFFC0001001) == ("mod_init+0x1", "loop")
    assert shown(symbols, 0xFFFFFFFFC0400010) == ("bpf_prog_6deef7357e7b4530_probe+0x10", "bpf")
    for nowhere in (0, 0x1000, 0x7FFF00000000, 0xFFFFFFFF81000510, 0xFFFFFFFFC0600000, 0xFFFFFFFF80FFFFFF):
        assert shown(symbols, nowhere) == (hex(nowhere), "")
        assert symbols.resolve(nowhere).label == "[unknown]"
    assert symbols.hidden == ""


def test_the_order_of_lines_does_not_matter():
    """Modules and programs come after the kernel, in no order; of padding before a function nothing is known."""
    shuffled = KernelSymbols(b"\n".join(reversed(TEXT.splitlines())))
    for address in (0xFFFFFFFF81000110, 0xFFFFFFFF810002FF, 0xFFFFFFFFC0001180, 0xFFFFFFFFC0400001, 0x1004):
        assert shown(shuffled, address) == shown(KernelSymbols(TEXT), address)
    assert shown(shuffled, 0xFFFFFFFF81000104) == ("startup_64+0x104", "kernel")


def test_lists_of_many_pieces():
    """Each address has the same name whether the kernel's list is in order, or a third of it is not."""
    names = {0xFFFFFFFF81000000 + 16 * number: f"function_{number}" for number in range(1009)}
    lines = [b"%016x t %s" % (address, name.encode()) for address, name in names.items()]
    ordered = KernelSymbols(b"\n".join(lines))
    mixed = KernelSymbols(b"\n".join([*lines[:300], *lines[700:], *reversed(lines[300:700])]))
    for address, name in names.items():
        assert shown(ordered, address) == shown(mixed, address) == (f"{name}+0x0", "kernel")
        assert shown(ordered, address + 15) == shown(mixed, address + 15) == (f"{name}+0xf", "kernel")


def test_names(symbols):
    """Duplicates are all found, padding never; a pattern and a module choose."""
    assert [hex(s.address)[-5:] for s in symbols.find("type_show")] == ["00110", "00200", "01100"]
    assert [s.module for s in symbols.find("type_show", "loop")] == ["loop"]
    assert symbols.find("__pfx_type_show") == symbols.find("nothing") == ()
    assert [s.type for s in symbols.find("jiffies")] == ["B"]
    assert "jiffies" not in symbols.names()
    assert symbols.names().count("type_show") == 1
    assert [s.name for s in symbols.functions("*show")] == ["type_show"] * 3
    assert [s.name for s in symbols.functions("with*")] == ["with.isra.0"]
    assert len(symbols.functions("*", "")) == 6
    assert [s.name for s in symbols.functions("*_*", "loop")] == ["mod_init", "init_module", "type_show"]
    assert symbols.modules() == ("bpf", "loop")


def test_hidden_addresses_are_no_data():
    """Zeros in place of addresses: no address gets a name, the reason is one line, and names are still there."""
    lines = [b"0" * 16 + line[16:] for line in TEXT.splitlines()]
    symbols = KernelSymbols(b"\n".join(lines))
    assert symbols.resolve(0).name == symbols.resolve(0xFFFFFFFF81000110).name == ""
    assert symbols.hidden.startswith("the kernel hides the addresses of its symbols (kernel.kptr_restrict is ")
    assert len(symbols.functions("type_show")) == 3
    empty = KernelSymbols(b"")
    assert "CONFIG_KALLSYMS" in empty.hidden
    assert empty.names() == empty.modules() == ()


def test_this_kernel():
    """Every function's first byte is named by one of the names that the kernel gives that address."""
    symbols = KernelSymbols()
    functions = symbols.functions()
    assert len(functions) > 10_000
    assert not any(symbol.name.startswith("__pfx_") for symbol in functions)
    unless(not symbols.hidden, "setting:kptr_restrict=0")
    names = {}
    for symbol in functions:
        names.setdefault(symbol.address, set()).add(symbol.name)
    for address in [*names][::97]:
        frame = symbols.resolve(address)
        assert frame.offset == 0
        assert frame.name in names[address]


def test_nothing_is_read_before_a_question():
    """Making the object costs nothing: the file is read by the first question."""
    symbols = KernelSymbols()
    assert "_text" not in vars(symbols)
    symbols.modules()
    assert "_text" in vars(symbols)


def test_as_an_ordinary_user():
    """Without privileges the names are there and the addresses are not, with the remedy in the reason."""
    unless(os.geteuid() == 0, "user:root")
    unless(int(Path("/proc/sys/kernel/perf_event_paranoid").read_text()) > 1, "setting:perf_event_paranoid>1")
    # Asked once before the privileges go: what Python imports may be where nobody can read.
    program = (
        "import os\nfrom pyebpf.symbols.kernel import KernelSymbols\n"
        "KernelSymbols(b'').hidden, KernelSymbols(b'0000000000000000 T x').hidden\n"
        "os.setgroups([]); os.setgid(65534); os.setuid(65534)\n"
        "symbols = KernelSymbols()\n"
        "print(len(symbols.names()) > 10_000, symbols.hidden)"
    )
    root = Path(__file__).parents[2]
    run = subprocess.run(
        [sys.executable, "-c", program], cwd=root, check=True, capture_output=True, text=True, timeout=60
    )
    assert run.stdout.startswith("True the kernel hides the addresses of its symbols")
    assert run.stdout.count("\n") == 1
