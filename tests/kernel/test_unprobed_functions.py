"""Functions that no probe can be put on: of instructions that the kernel refuses, and IFUNCs."""

from __future__ import annotations

import ctypes
import os
import re

import pytest

from pyebpf import BPF, u64
from pyebpf.elf.symbols import IFUNC
from pyebpf.errors import KernelError, NotFound
from pyebpf.features import Support, _remembered
from pyebpf.kernel.libraries import loaded_function
from pyebpf.symbols.files import ElfFile
from pyebpf.symbols.libraries import find_binary
from pyebpf.symbols.user_functions import find_functions
from tests.support.native import build_native
from tests.support.needs import needs, unless

CALLS = 23
SOURCE = """
int plain_first(int number) { return number + 1; }
int plain_second(int number) { return number + 2; }
__asm__(".globl plain_locked; .type plain_locked, @function; plain_locked: lock incl (%rdi); ret;"
        ".size plain_locked, .-plain_locked");
"""


CHOSEN = """
int plain_first(int number) { return number + 1; }
int __plain_chosen_fast(int number) { return number + 2; }
static int (*plain_chosen_ifunc(void))(int) { return __plain_chosen_fast; }
int plain_chosen(int number) __attribute__((ifunc("plain_chosen_ifunc")));
"""


def at(path, function):
    """A module that counts calls of this process."""
    bpf = BPF()
    counts = bpf.array(value=u64)

    @bpf.uprobe(path, function, pid=os.getpid())
    def on_call() -> None:
        counts[0] += 1

    return bpf, counts


@pytest.mark.parametrize("way", ["uprobe.multi", "uprobe"])
def test_an_instruction_that_the_kernel_refuses(tmp_path, way, monkeypatch):
    """Of a pattern such a function is left out with a warning; alone it is an error with its name."""
    needs("attach:uprobe" if way == "uprobe" else "attach:uprobe_multi")
    needs("arch:x86_64")
    if way == "uprobe":
        monkeypatch.setitem(_remembered, "attach:uprobe_multi", Support.NO)
    path = str(build_native(SOURCE, tmp_path / "unprobed.so", "-shared", "-fPIC"))
    library = ctypes.CDLL(path)
    bpf, counts = at(path, "plain_*")
    with bpf:
        for _ in range(CALLS):
            assert (library.plain_first(1), library.plain_second(1)) == (2, 3)
        (warning,) = bpf.warnings
        assert counts[0] == 2 * CALLS
    assert warning == "left out: plain_locked: the kernel has no probes for the instruction that begins there"
    bpf, counts = at(path, "plain_locked")
    message = "^uprobe .*plain_locked.*: the kernel has no probes for the instruction that begins plain_locked: probe"
    with pytest.raises(KernelError, match=message), bpf:
        pass


def test_an_ifunc_names_the_function_in_use():
    """Of the C library's memcpy, if that has symbols: neither the resolver, nor a variant that this machine leaves."""
    library = ElfFile(find_binary("libc.so.6"))
    unless(library.find("memcpy")[0].kind == IFUNC, "setting:IFUNC-memcpy")
    with pytest.raises(NotFound, match=r"\(IFUNC\): ") as refused:
        find_functions(library, ["memcpy"])
    names = re.findall(r": probe (\S+), which this machine uses$", str(refused.value))
    if names:
        (place,) = find_functions(library, names).places
        assert place.offset == loaded_function(library.path, "memcpy")
        assert "ifunc" not in names[0]
    else:  # as arm64's of Debian
        assert os.uname().machine != "x86_64"
        assert "no symbols" in str(refused.value)


def test_a_pattern_leaves_out_ifuncs(tmp_path):
    """Neither the symbol nor its resolver, which runs when a program starts, is counted; a warning says what is."""
    path = str(build_native(CHOSEN, tmp_path / "chosen.so", "-shared", "-fPIC"))
    bpf, counts = at(path, "plain_*")
    with bpf:
        library = ctypes.CDLL(path)
        for _ in range(CALLS):
            assert (library.plain_first(1), library.plain_chosen(1)) == (2, 3)
        assert counts[0] == CALLS
        (warning,) = bpf.warnings
    what = "1 function that is chosen among several when a program starts (IFUNC): plain_chosen (probe "
    assert warning == f"plain_* of {path} leaves out {what}__plain_chosen_fast)"
    bpf, _ = at(path, "plain_c*")
    only = f"plain_c* of {path} matches nothing but {what}__plain_chosen_fast)"
    with pytest.raises(NotFound, match=f"^{re.escape(only)}(?m:$)"), bpf:
        pass


def test_a_pattern_leaves_out_older_versions_of_an_ifunc():
    """The C library's memcpy@GLIBC_2.2.5 is a function, but what programs call is chosen: the pattern says so."""
    library = ElfFile(find_binary("libc.so.6"))
    unless(library.find("memcpy")[0].kind == IFUNC, "setting:IFUNC-memcpy")
    with pytest.raises(
        NotFound, match=r"^memcp\* of .* matches nothing but 1 function that is .* \(IFUNC\): memcpy \("
    ):
        find_functions(library, ["memcp*"])
    found = find_functions(library, ["str*"])
    assert not {"strlen", "strlen_ifunc"} & {place.name for place in found.places}
    (warning,) = found.warnings
    # arm64's C library has one, and no symbols of its variants.
    remedy = r"str\w+ \((probe \S+|its variants have no symbols)\)"
    chosen = r"functions? that (is|are) chosen among several when a program starts \(IFUNC\)"
    assert re.match(rf"str\* of .* leaves out [0-9]+ {chosen}: {remedy}(, .* and \d+ more)?$", warning)
