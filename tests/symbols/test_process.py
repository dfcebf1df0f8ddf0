"""Addresses in processes: every kind of file, and files and processes that are gone."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from pyebpf.elf.budget import for_ever
from pyebpf.elf.symbols import ElfSymbols
from pyebpf.symbols import process as module
from pyebpf.symbols.files import ElfFile
from pyebpf.symbols.mappings import parse_mappings
from pyebpf.symbols.stacks import Symbols
from tests.support.native import build_native
from tests.support.needs import needs

# Tells where its functions are, then opens libraries and becomes other programs as it is told.
PROGRAM = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>
static __attribute__((noinline)) int inner_function(int n) { return n * 7 + getpid(); }
__attribute__((noinline)) int outer_function(int n) { return inner_function(n) + 1; }
int main(void) {
    char line[4096];
    printf("%p %p %lx\n", (void *)inner_function, (void *)outer_function, getauxval(AT_SYSINFO_EHDR));
    fflush(stdout);
    while (fgets(line, sizeof line, stdin)) {
        line[strcspn(line, "\n")] = 0;
        if (line[0] == 'x') {
            execl(line + 1, line + 1, NULL);
        } else {
            void *library = dlopen(line, RTLD_NOW);
            printf("%p\n", library ? dlsym(library, "in_the_library") : NULL);
        }
        fflush(stdout);
    }
    return outer_function(0) == 12345;
}
"""
LIBRARY = "int in_the_library(int n) { return n + 1; }"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The program as position-independent file, as one at fixed addresses, and stripped; a library."""
    folder = tmp_path_factory.mktemp("programs")
    build_native(PROGRAM, folder / "moving")
    build_native(PROGRAM, folder / "fixed", "-no-pie")
    build_native(LIBRARY, folder / "library.so", "-shared", "-fPIC")
    needs("command:objcopy")
    subprocess.run(["objcopy", "--strip-all", folder / "moving", folder / "stripped"], check=True, timeout=60)
    return folder


class Running:
    """A running program, and where it says that its functions are."""

    def __init__(self, process):
        self.process = process
        self.pid = process.pid
        self.introduce()

    def introduce(self):
        self.inner, self.outer, self.vdso = (int(word, 16) for word in self.process.stdout.readline().split())

    def say(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def end(self):
        self.process.stdin.close()
        assert self.process.wait(30) == 0


@contextlib.contextmanager
def started(*command):
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    with process:
        try:
            yield Running(process)
        finally:
            if not process.stdin.closed:
                process.stdin.close()
            process.wait(30)


def named(symbols, pid, *addresses):
    return [str(symbols.processes.resolve(pid, address)) for address in addresses]


@pytest.mark.parametrize("name", ["moving", "fixed"])
def test_functions_of_the_program(folder, name):
    """Global and static functions by name and offset, with the file; a stack has where calls are, not return to."""
    symbols = Symbols()
    with started(folder / name) as program:
        assert named(symbols, program.pid, program.inner, program.outer + 3) == [
            "inner_function+0x0",
            "outer_function+0x3",
        ]
        assert symbols.processes.resolve(program.pid, program.inner).module == str(folder / name)
        (size,) = (s.size for s in ElfFile(str(folder / name)).find("inner_function"))
        stack = [program.outer, program.inner + size, 0x10]
        assert [str(frame) for frame in symbols.user_frames(program.pid, stack)] == [
            "outer_function+0x0", f"inner_function+{size:#x}", "0x10"
        ]  # fmt: skip


def test_a_process_that_has_ended(folder):
    """What was seen stays known, even of a file that is gone since; a process that nobody saw has no names."""
    shutil.copy(folder / "moving", folder / "leaving")
    symbols, late = Symbols(), Symbols()
    with started(folder / "leaving") as program:
        (folder / "leaving").unlink()
        assert symbols.processes.see(program.pid)
        program.end()
        assert not symbols.processes.see(program.pid)
        assert named(symbols, program.pid, program.inner) == ["inner_function+0x0"]
        assert named(late, program.pid, program.inner) == [hex(program.inner)]


def test_a_file_that_was_replaced(folder):
    """Symbols of another file under the same name are never taken, whether it was replaced before or after."""
    shutil.copy(folder / "moving", folder / "changing")
    before, after = Symbols(), Symbols()
    with started(folder / "changing") as program:
        assert before.processes.see(program.pid)  # its headers; the symbols are read when they are asked for
        shutil.copy(folder / "library.so", folder / "other")
        (folder / "other").rename(folder / "changing")
        assert named(after, program.pid, program.inner) == ["inner_function+0x0"]
        (frame,) = before.user_frames(program.pid, [program.inner])
        assert (frame.name, frame.label) == ("", "[changing]")


def test_another_mount_namespace(folder, tmp_path):
    """A program on a file system that only its own namespace has, during its life and after."""
    needs("command:unshare")
    script = (
        f"mount -t tmpfs none {tmp_path} && cp {folder / 'moving'} {tmp_path / 'inside'} && exec {tmp_path / 'inside'}"
    )
    symbols = Symbols()
    with started("unshare", "--mount", "sh", "-c", script) as program:
        assert not (tmp_path / "inside").exists()
        assert symbols.processes.see(program.pid)
        program.end()
        frame = symbols.processes.resolve(program.pid, program.outer)
        assert (str(frame), frame.module) == ("outer_function+0x0", str(tmp_path / "inside"))


def test_libraries_that_come_later_and_programs_that_change(folder, monkeypatch):
    """dlopen(3) is noticed when an address is unknown, and after exec(2) the old addresses keep their names."""
    monkeypatch.setattr(module, "_LOOK_AGAIN", 0.0)
    symbols = Symbols()
    with started(folder / "moving") as program:
        assert named(symbols, program.pid, program.inner) == ["inner_function+0x0"]
        program.say(str(folder / "library.so"))
        address = int(program.process.stdout.readline(), 16)
        assert named(symbols, program.pid, address) == ["in_the_library+0x0"]
        old = program.outer
        program.say(f"x{folder / 'fixed'}")
        program.introduce()
        assert named(symbols, program.pid, program.outer, old) == ["outer_function+0x0"] * 2
        assert symbols.processes.resolve(program.pid, old).module.endswith("/moving")
        assert symbols.processes.resolve(program.pid, program.outer).module.endswith("/fixed")


def test_the_vdso(folder):
    """The kernel's own library is read from the process's memory, and named when the process has ended."""
    symbols = Symbols()
    with started(folder / "moving") as program:
        assert symbols.processes.see(program.pid)
        with Path(f"/proc/{program.pid}/mem").open("rb", buffering=0) as memory:
            memory.seek(program.vdso)
            vdso = ElfSymbols.from_bytes(memory.read(4096 * 2), "[vdso]")
        program.end()
        (symbol,) = vdso.find("__vdso_clock_gettime")
        frame = symbols.processes.resolve(program.pid, program.vdso + symbol.value + 1)
        assert frame.name in {"__vdso_clock_gettime", "clock_gettime"}
        assert (frame.offset, frame.module) == (1, "[vdso]")


def test_a_perf_map(folder):
    """Code that no file has is named by /tmp/perf-PID.map, which grows; another user's file is not believed."""
    symbols = Symbols()
    with started(folder / "moving") as program:
        path = Path(f"/tmp/perf-{program.pid}.map")
        try:
            path.write_text("10000 40 LazyCompile:~first one x.js:1\nnonsense\n10040 zz bad\n")
            assert named(symbols, program.pid, 0x10008, 0x10040) == ["LazyCompile:~first one x.js:1+0x8", "0x10040"]
            with path.open("a") as file:
                file.write("10040 40 second\n10000 20 again\n")
            time.sleep(0.15)  # it is looked at ten times a second at most
            assert named(symbols, program.pid, 0x10041) == ["second+0x1"]
            assert symbols.processes.resolve(program.pid, 0x10041).module == "[jit]"
            if os.geteuid() == 0:
                os.chown(path, 65534, 65534)
                assert named(Symbols(), program.pid, 0x10041) == ["0x10041"]
        finally:
            path.unlink()


def test_a_perf_map_that_is_read_in_part(folder):
    """The reason is told that frames have no names; once it is read to its end, they have, and there is none."""
    processes = Symbols().processes
    with started(folder / "moving") as program:
        path = Path(f"/tmp/perf-{program.pid}.map")
        try:
            path.write_text("10000 40 made\n")
            processes.hurry(lambda: 1e-9)
            assert processes.resolve(program.pid, 0x10008).name == ""
            assert "read in part, 0 of 14 bytes" in processes.given_up[str(path)]
            processes.hurry(for_ever)
            time.sleep(0.15)
            assert processes.resolve(program.pid, 0x10008).name == "made"
            assert str(path) not in processes.given_up
        finally:
            path.unlink()


def test_stripped_files(folder, tmp_path):
    """Debug files by .gnu_debuglink and by build id, and .gnu_debugdata; the file of another build is refused."""

    def objcopy(*arguments):
        subprocess.run(["objcopy", *arguments], check=True, timeout=60, capture_output=True)

    whole, stripped = folder / "moving", folder / "stripped"

    def inner(path, debug=""):
        from pyebpf.symbols.debug import include_debug_symbols

        elf = ElfFile(str(path))
        assert elf.find("inner_function") == ()
        where = include_debug_symbols(elf, root=debug)
        return where, [symbol.name for symbol in elf.find("inner_function")]

    assert inner(stripped) == ("", [])
    objcopy("--only-keep-debug", whole, tmp_path / "moving.debug")
    objcopy(f"--add-gnu-debuglink={tmp_path / 'moving.debug'}", stripped, tmp_path / "linked")
    assert inner(tmp_path / "linked") == (str(tmp_path / "moving.debug"), ["inner_function"])
    with started(tmp_path / "linked") as program:
        symbols = Symbols()
        assert named(symbols, program.pid, program.inner + 1) == ["inner_function+0x1"]
    build_id = ElfFile(str(whole)).build_id
    place = tmp_path / "root/usr/lib/debug/.build-id" / build_id[:2]
    place.mkdir(parents=True)
    shutil.copy(tmp_path / "moving.debug", place / f"{build_id[2:]}.debug")
    assert inner(stripped, str(tmp_path / "root")) == (str(place / f"{build_id[2:]}.debug"), ["inner_function"])
    objcopy("--only-keep-debug", folder / "fixed", tmp_path / "moving.debug")
    assert inner(tmp_path / "linked") == ("", [])
    import lzma

    objcopy("--strip-debug", whole, tmp_path / "mini")
    (tmp_path / "mini.xz").write_bytes(lzma.compress((tmp_path / "mini").read_bytes()))
    objcopy("--add-section", f".gnu_debugdata={tmp_path / 'mini.xz'}", stripped, tmp_path / "packed")
    assert inner(tmp_path / "packed") == (".gnu_debugdata", ["inner_function"])
    (tmp_path / "mini.xz").write_bytes(b"garbage")
    objcopy("--add-section", f".gnu_debugdata={tmp_path / 'mini.xz'}", stripped, tmp_path / "garbled")
    assert inner(tmp_path / "garbled") == ("", [])


def test_kernel_threads_and_nobody():
    """What has no memory has no names, and asking is not an error."""
    symbols = Symbols()
    for pid in (2, 1 << 22):
        assert not symbols.processes.see(pid)
        assert named(symbols, pid, 0x1000) == ["0x1000"]


def test_lines_of_maps():
    """Paths with blanks, newlines and "(deleted)" in their name; only code counts."""
    text = (
        "400000-401000 r-xp 00001000 fe:00 12                  /a b/c (deleted)\n"
        "401000-402000 rw-p 00000000 00:00 0                   [heap]\n"
        "402000-403000 r-xp 00000000 00:00 0 \n"
        "403000-404000 --xp 00000000 fe:00 13                  /new\\012line\n"
        "nonsense\n"
    )
    first, anonymous, newline = parse_mappings(text)
    assert (first.path, first.deleted, first.inode, first.offset) == ("/a b/c", True, 12, 0x1000)
    assert (anonymous.path, anonymous.is_file) == ("", False)
    assert (newline.path, newline.deleted) == ("/new\nline", False)
