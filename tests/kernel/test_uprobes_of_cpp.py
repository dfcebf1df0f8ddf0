"""Uprobes at functions by their names in C++, and what scripts print of them."""

from __future__ import annotations

import ctypes
import subprocess
from typing import TYPE_CHECKING

import pytest

from pyebpf import BPF, u32
from pyebpf.errors import CompileError
from pyebpf.script import Script
from tests.support.command import pyebpf
from tests.support.needs import needs

if TYPE_CHECKING:
    from pathlib import Path

CALLS = 7
OF_NUMBER, OF_TEXT, OTHER = "_ZN4Shop5Order3addEi", "_ZN4Shop5Order3addEPKc", "_Z7billingi"
#: What g++ makes of `int Shop::Order::add(int)`, for machines that have a compiler of C only.
SOURCE = f"""
int number(int count) __asm__("{OF_NUMBER}");
int number(int count) {{ return count + 1; }}
int text(const char *name) __asm__("{OF_TEXT}");
int text(const char *name) {{ return name[0]; }}
int other(int x) __asm__("{OTHER}");
int other(int x) {{ return x; }}
#ifdef PROGRAM
#include <unistd.h>
int main(void) {{ for (int i = 0; i < {CALLS}; i++) usleep(50000 + number(i) + text("abc")); }}
#endif
"""


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """A library and a program."""
    needs("attach:uprobe", "command:gcc")
    folder: Path = tmp_path_factory.mktemp("cpp")
    source, library, program = folder / "shop.c", folder / "libshop.so", folder / "shop"
    source.write_text(SOURCE)
    subprocess.run(["gcc", "-g", "-shared", "-fPIC", "-o", library, source], check=True)
    subprocess.run(["gcc", "-g", "-DPROGRAM", "-o", program, source], check=True)
    return str(library), str(program)


def test_in_a_script(files: tuple[str, str]) -> None:
    """All that are overloaded, or one, whose arguments have names; `probe` names the function, as bpftrace's does."""
    path, _ = files
    library = ctypes.CDLL(path)
    text = f"""
        uprobe:{path}:cpp:"Shop::Order::add" {{ @[probe] = count(); }}
        uprobe:{path}:cpp:"Shop::Order::add(int)" {{ @sum = sum(args.count); }}
        uprobe:{path}:_ZN4Shop* {{ @every[probe] = count(); @total = count(); }}
        uretprobe:{path}:cpp:"Shop::*" /retval < 10/ {{ @returned[probe] = count(); }}
        uprobe:{path}:cpp:"Shop::*" {{ @all = count(); }}
    """
    with Script(text) as bpf:
        for at in range(CALLS):
            library[OF_NUMBER](at)
            library[OF_TEXT](b"abc")
            library[OTHER](at)
        found = {name: bpf[name].snapshot() for name in ("@", "@every", "@returned", "@total", "@all", "@sum")}
    assert found["@total"] == found["@all"] == {0: 2 * CALLS}
    assert found["@sum"] == {0: sum(range(CALLS))}
    assert found["@"] == {f"uprobe:{path}:cpp:{name}": CALLS for name in (OF_NUMBER, OF_TEXT)}
    assert found["@every"] == {f"uprobe:{path}:{name}": CALLS for name in (OF_NUMBER, OF_TEXT)}
    assert found["@returned"] == {f"uretprobe:{path}:cpp:{OF_NUMBER}": CALLS}


def test_in_python(files: tuple[str, str]) -> None:
    """As any function's name, `cpp:` before it."""
    path, _ = files
    bpf = BPF()
    calls = bpf.counter(key=u32)

    @bpf.uprobe(path, "cpp:Shop::Order::add")
    def on_add() -> None:
        calls[0].add()

    library = ctypes.CDLL(path)
    with bpf:
        for at in range(CALLS):
            library[OF_NUMBER](at)
            library[OTHER](at)
        assert calls.snapshot() == {0: CALLS}


def test_refused(files: tuple[str, str]) -> None:
    """Functions whose parameters differ have none by name; there is no other language."""
    path, _ = files
    with pytest.raises(CompileError, match="have different parameters: probe them apart"):
        Script(f'uprobe:{path}:cpp:"Shop::Order::add" {{ @ = sum(args.count); }}').load()
    with pytest.raises(CompileError, match="go is no language whose names are known: cpp is"):
        Script(f"uprobe:{path}:go:add {{ @ = count(); }}").load()


def test_functions_of_a_process_that_has_ended(files: tuple[str, str]) -> None:
    """`func` and `usym()` have names, as `ustack` has: the process is looked at while it lives; at a return, too."""
    needs("attach:uprobe_multi")  # with which came bpf_get_func_ip for uretprobes
    _, path = files
    text = f"""
        uprobe:{path}:_ZN4Shop5Order3add* {{ @entered[func, usym(reg("pc"))] = count(); }}
        uretprobe:{path}:cpp:"Shop::Order::add(int)" {{ @left[func] = count(); }}
    """
    done = pyebpf("-e", text, "-q", "-c", path)
    names = ("Shop::Order::add(char const*)", "Shop::Order::add(int)")
    assert sorted(filter(None, done.stdout.split("\n"))) == [
        *(f"@entered[{name}, {name}]: {CALLS}" for name in names),
        f"@left[{names[1]}]: {CALLS}",
    ]


def test_func_is_the_name_that_the_script_gives(files: tuple[str, str]) -> None:
    """A text where all uprobes are at functions by names; with a place of another kind a symbol, at all of them."""
    _, path = files
    named = f'uprobe:{path}:main, uretprobe:{path}:main {{ @[func, func == "main"] = count(); }}'
    assert pyebpf("-e", named, "-q", "-c", path).stdout.split("\n") == ["", "", "@[main, true]: 2", ""]
    for other in (
        f"uprobe:{path}:main+4",
        f"uprobe:{path}:m*",
        f'uprobe:{path}:cpp:"Shop::*"',
        f"uprobe:{path}:_ZN4Shop*",
    ):
        Script(f"uprobe:{path}:main {{ @[func] = count(); }} {other} {{ @[func] = count(); }}").specs()
    Script(f"uprobe:{path}:main {{ @[func] = count(); @[usym(arg0)] = count(); }}").specs()
