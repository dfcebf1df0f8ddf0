"""Libraries by name: the linker's cache in both formats, and what else a name may mean."""

from __future__ import annotations

import os
import re
import struct
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from pyebpf.errors import MalformedData, NotFound
from pyebpf.symbols import libraries as search
from pyebpf.symbols.libraries import CachedLibrary, find_binary, parse_cache
from tests.support.needs import needs

LIBC6_X86_64, LIBC6_I386 = 0x0303, 0x0003


def old_format(libraries):
    """A cache as ldconfig of glibc 2.1 wrote it: offsets of strings count from the end of the entries."""
    strings, entries = b"", b""
    for library in libraries:
        key = len(strings)
        strings += os.fsencode(library.name) + b"\0"
        entries += struct.pack("<iII", library.flags, key, len(strings))
        strings += os.fsencode(library.path) + b"\0"
    return b"ld.so-1.7.0\0" + struct.pack("<I", len(libraries)) + entries, strings


def new_format(libraries, *, byte_order="<", flags=None):
    """A cache of glibc 2.2 and later: offsets of strings count from the start of the header."""
    start = 48 + 24 * len(libraries)
    strings, entries = b"", b""
    for library in libraries:
        key = start + len(strings)
        strings += os.fsencode(library.name) + b"\0"
        entries += struct.pack(byte_order + "iIIIQ", library.flags, key, start + len(strings), 0, 0)
        strings += os.fsencode(library.path) + b"\0"
    mark = {"<": 2, ">": 3}[byte_order] if flags is None else flags
    header = b"glibc-ld.so.cache1.1" + struct.pack(
        byte_order + "IIB3x4I", len(libraries), len(strings), mark, 0, 0, 0, 0
    )
    return header + entries + strings


def both_formats(libraries):
    """The new format inside the old one, as ldconfig wrote it until glibc 2.32."""
    header, strings = old_format(libraries)
    inner = new_format(libraries)
    return header + bytes(-len(header) % 8) + inner + strings


names = st.text(st.characters(min_codepoint=33, max_codepoint=0x2FF), min_size=1, max_size=20)
libraries_ = st.lists(
    st.builds(CachedLibrary, names, names, st.sampled_from([LIBC6_X86_64, LIBC6_I386, -1])), max_size=9
)


@given(libraries_)
def test_each_format_is_read_as_it_was_written(libraries):
    """Old, new, both in one file, and of the other byte order."""
    header, strings = old_format(libraries)
    for data in (
        header + strings,
        new_format(libraries),
        new_format(libraries, byte_order=">"),
        new_format(libraries, flags=0),
        both_formats(libraries),
    ):
        assert parse_cache(data) == tuple(libraries)


def test_a_garbled_cache():
    """Cut anywhere it is refused, and so is one with another magic, or that calls itself invalid."""
    library = CachedLibrary("libc.so.6", "/lib/libc.so.6", LIBC6_X86_64)
    header, strings = old_format([library])
    for whole in (header + strings, new_format([library])):
        for length in range(len(whole)):
            with pytest.raises(MalformedData):
                parse_cache(whole[:length])
    with pytest.raises(MalformedData, match="run ldconfig"):
        parse_cache(new_format([library], flags=1))


def test_as_ldconfig_prints_it():
    """The machine's own cache: the names and paths of `ldconfig -p`."""
    needs("command:ldconfig", "setting:/etc/ld.so.cache")
    printed = subprocess.run(["ldconfig", "-p"], check=True, capture_output=True, text=True, timeout=60).stdout
    expected = re.findall(r"^\t(\S+) \(.*\) => (\S+)$", printed, re.MULTILINE)
    found = parse_cache(Path("/etc/ld.so.cache").read_bytes())
    assert sorted((library.name, library.path) for library in found) == sorted(expected)


def test_what_a_name_means(tmp_path, monkeypatch):
    """A library in full or in short, a program but no script of its name, a path; with pid= what it has mapped."""
    libc = find_binary("libc.so.6")
    for found in (find_binary("c"), find_binary("libc.so.6", pid=os.getpid()), find_binary("c", pid=os.getpid())):
        assert Path(libc).samefile(found)
    assert find_binary(libc) == find_binary(libc, pid=os.getpid()) == libc
    script = tmp_path / "true"
    script.write_text("#!/bin/sh\n")
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    assert Path(find_binary("true")).read_bytes()[:4] == b"\x7fELF"
    for missing in ("", "no-such-thing", "/no/such/thing", f"{tmp_path}/x"):
        with pytest.raises(NotFound):
            find_binary(missing)
    with pytest.raises(NotFound, match="did you mean libc"):
        find_binary("libc.so.66")
    with pytest.raises(NotFound, match="there is no process"):
        find_binary("c", pid=4_194_304)


def test_a_linkers_script_beside_a_library(monkeypatch, tmp_path):
    """Without a cache `c` is the library, not the text libc.so that -lc finds; who names that text means it."""
    monkeypatch.setattr(search, "_FOLDERS", (str(tmp_path),))
    monkeypatch.setattr(search, "_cached", lambda *_: ())
    (tmp_path / "libshape.so").write_text("/* GNU ld script */\nGROUP ( libshape.so.6 )\n")
    (tmp_path / "libshape.so.6").write_bytes(Path(find_binary("true")).read_bytes())
    assert find_binary("shape") == find_binary("libshape") == find_binary("libshape.so.6")
    assert find_binary("shape") == str(tmp_path / "libshape.so.6")
    assert find_binary("libshape.so") == str(tmp_path / "libshape.so")
