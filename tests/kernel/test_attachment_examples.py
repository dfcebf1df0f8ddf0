"""The examples of docs/attachments.md for functions and events, and of docs/symbols.md, do what they say."""

from __future__ import annotations

import ctypes
import errno
import linecache
import mmap
import os
import re
import resource
import socket
import subprocess
import time
from pathlib import Path

import pytest

import pyebpf
from pyebpf import BPF, char, s32, u64
from pyebpf.elf.symbols import IFUNC
from pyebpf.errors import NotFound
from pyebpf.features import Features, Support
from pyebpf.runtime.host import kernel_btf
from pyebpf.symbols.files import ElfFile
from pyebpf.symbols.libraries import find_binary
from tests.kernel.test_uprobe import take
from tests.support.needs import needs, unless
from tests.support.waiting import PATIENCE

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGE = (DOCS / "attachments.md").read_text("utf-8")
PYTHON = "/usr/bin/python3"
libc = ctypes.CDLL(None, use_errno=True)


def example(section, changes=None, **given):
    """Run a section's first example after `changes` of its text, with names for what it leaves out; its names."""
    (source, *_) = re.findall(
        r"^```python\n(.*?)^```$",
        PAGE.partition(f"\n## {section}\n")[2].partition("\n## ")[0],
        re.MULTILINE | re.DOTALL,
    )
    for old, new in (changes or {}).items():
        assert old in source
        source = source.replace(old, new)
    return run(source, f"<attachments: {section}>", **given)


def run(source, file, **given):
    """Run a program's text; its names."""
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    names = {"__name__": "attachments", **{name: getattr(pyebpf, name) for name in pyebpf.__all__}, **given}
    exec(compile(source, file, "exec", dont_inherit=True), names)
    return names


def test_functions_by_pattern(capsys):
    """17 connections are 17 calls of tcp_v4_connect, under its name; without kprobe.multi among fewer functions."""
    if Features(kernel_btf).ask("attach:kprobe_multi") is Support.NO:
        needs("attach:kprobe")
        changes = {'"tcp_*"': '"tcp_v4_c*"'}
    else:
        changes = {}

    def connections(_):
        with socket.create_server(("127.0.0.1", 0), backlog=64) as server:
            for _ in range(17):
                socket.create_connection(server.getsockname(), timeout=PATIENCE).close()

    example("Functions of the kernel", changes, input=connections)
    assert re.findall(r"^tcp_v4_connect +(\d+)$", capsys.readouterr().out, re.MULTILINE) == ["17"]


def test_kprobe():
    """23 calls of listen() with one backlog, none after it."""
    needs("attach:kprobe")
    names = example("kprobe, kretprobe")
    with names["bpf"] as bpf, socket.socket() as server:
        for _ in range(23):
            server.listen(1013)
        bpf.detach()
        server.listen(1013)
        assert names["backlogs"][1013] == 23


def test_kprobe_session():
    """31 calls of fsync() are 31 latencies."""
    needs("attach:kprobe_session")
    names = example("kprobe.multi, kprobe.session")
    file = os.memfd_create("pyebpf")
    with names["bpf"] as bpf:
        for _ in range(31):
            os.fsync(file)
        bpf.detach()
        os.fsync(file)
        assert sum(row.count for row in names["latency"].interval().rows()) == 31
    os.close(file)


def test_fexit():
    """19 failed calls by backlog and error."""
    needs("attach:fentry")
    names = example("fentry, fexit")
    with names["bpf"]:
        for _ in range(19):
            assert libc.listen(-7, -3003) == -1
        assert names["failures"][names["Failure"](backlog=-3003, error=-errno.EBADF)] == 19


def test_fmod_ret():
    """One backlog is refused, others are not, and nothing is once it is detached."""
    needs("attach:fmod_ret")
    with example("fmod_ret")["bpf"] as bpf, socket.socket() as server:
        for _ in range(3):
            with pytest.raises(PermissionError):
                server.listen(1009)
        server.listen(1010)
        bpf.detach()
        server.listen(1009)


@pytest.mark.parametrize("way", ["uprobe.multi", "uprobe"])
def test_uprobe(way, monkeypatch):
    """23 look-ups of another process and 7 of this one; results are this one's alone."""
    take(way, monkeypatch)
    bpf = BPF()
    names, results = bpf.hash(key=char[80], value=u64), bpf.hash(key=s32, value=u64)
    example("uprobe, uretprobe", {"pid=4711": f"pid={os.getpid()}"}, bpf=bpf, names=names, results=results)
    address = f"127.1.{os.getpid() >> 8 & 255}.{os.getpid() & 255}"  # numeric, so that nobody is asked
    look_up = f"import socket\nfor _ in range({{}}): socket.getaddrinfo({address!r}, 80)"
    with bpf:
        exec(look_up.format(7), {})
        subprocess.run([PYTHON, "-c", look_up.format(23)], check=True, timeout=PATIENCE)
        bpf.detach()
        exec(look_up.format(3), {})
        assert names[address] == 30
        assert dict(results) == {0: 7}


def test_a_function_that_is_chosen_when_a_program_starts():
    """The name memcpy is refused, though an old version of it is code that could be probed, and hardly runs."""
    needs("attach:uprobe")
    bpf = BPF()

    @bpf.uprobe("libc.so.6", "memcpy")
    def on_copy() -> None:
        pass

    unless(ElfFile(find_binary("libc.so.6")).find("memcpy")[0].kind == IFUNC, "setting:IFUNC-memcpy")
    with pytest.raises(NotFound, match=r"^memcpy of libc\.so\.6 is chosen among several when a program starts"), bpf:
        pass


def test_usdt():
    """13 collections of Debian's python3, by generation."""
    needs(f"setting:{PYTHON}", "attach:uprobe")
    unless(ElfFile(PYTHON).notes("stapsdt"), "setting:USDT-probes-of-python3")
    bpf = BPF()
    collections = bpf.hash(key=s32, value=u64)
    example("USDT", bpf=bpf, collections=collections)
    script = "import gc\ngc.disable()\nfor _ in range(13): gc.collect(1)"
    with bpf:
        subprocess.run([PYTHON, "-I", "-S", "-c", script], check=True, timeout=PATIENCE)
        assert collections[1] == 13


def test_page_faults():
    """101 pages that are touched for the first time are a fault each, at their own address."""
    bpf = BPF()
    faults = bpf.hash(key=u64, value=u64)
    example("Perf events and breakpoints", {"pid=42": f"pid={os.getpid()}"}, bpf=bpf, faults=faults)
    size = resource.getpagesize()
    with bpf, mmap.mmap(-1, 101 * size) as memory:
        memory.madvise(mmap.MADV_NOHUGEPAGE)
        start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
        for page in range(101):
            memory[page * size] = 1
        found = dict(faults.items())
    assert [found.get((start + page * size) // 4096) for page in range(101)] == [1] * 101


def test_stacks_with_names(monkeypatch, capsys):
    """The busiest stacks, among them those of a process that computes: frames have names and files."""
    (source,) = re.findall(r"^```python\n(.*?)^```$", (DOCS / "symbols.md").read_text(), re.MULTILINE | re.DOTALL)

    def busy(_):
        ended = time.process_time() + 0.5
        while time.process_time() < ended:
            pass

    monkeypatch.setattr(time, "sleep", busy)
    run(source, "<symbols>")
    assert re.search(
        r"^process \d+, \d+ times, innermost first:\n(    .+\n)*    \w+\+0x[0-9a-f]+ \(.+\)$",
        capsys.readouterr().out,
        re.MULTILINE,
    )
