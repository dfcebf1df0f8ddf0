"""Uprobes of scripts at functions of several files: a pattern of a process's files, or of paths."""

from __future__ import annotations

import ctypes
import os
import shutil
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from pyebpf.errors import CompileError
from pyebpf.script import Script
from pyebpf.symbols.libraries import matching_binaries
from tests.support.command import pyebpf
from tests.support.needs import needs
from tests.support.told import let, waiting

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Iterator
    from pathlib import Path

#: Of functions that nothing else calls meanwhile.
CALLS = 7
LIBRARY = "int told_{0}(int x) {{ return x + 1; }}\nint told_by_all(int x) {{ return x + 2; }}\n"


@pytest.fixture
def libraries(tmp_path: Path) -> list[Path]:
    """Two libraries, which this process has loaded."""
    import subprocess

    needs("attach:uprobe", "command:gcc")
    made = []
    for name in ("one", "two"):
        source, library = tmp_path / f"{name}.c", tmp_path / f"lib{name}.so"
        source.write_text(LIBRARY.format(name))
        subprocess.run(["gcc", "-shared", "-fPIC", "-o", library, source], check=True)
        made.append(library)
    return made


def counted(script: str, libraries: list[Path], pid: int | None) -> dict[str, int]:
    """What it counts by function while each library's functions are called CALLS times, the second's twice that."""
    loaded = [ctypes.CDLL(str(path)) for path in libraries]
    with Script(script, pid=pid) as bpf:
        for times, library in enumerate(loaded, 1):
            for _ in range(CALLS * times):
                library.told_by_all(1)
        return dict(bpf["@"].snapshot())


def test_of_a_process(libraries: list[Path]) -> None:
    """Each file that has the function, and no other; the path is a pattern, too."""
    me = os.getpid()
    everywhere = counted('uprobe:*:told_by_all { @["all"] = count(); }', libraries, me)
    assert everywhere == {"all": 3 * CALLS}
    one = counted('uprobe:*/libone*:told_by_all { @["one"] = count(); }', libraries, me)
    assert one == {"one": CALLS}
    both = counted("uprobe:*:told_by_*, uprobe:*:told_one { @[func] = count(); }", libraries, me)
    assert sorted(both.values()) == [CALLS, 2 * CALLS]  # by address


def test_of_paths(libraries: list[Path]) -> None:
    """As a shell would name them; a return is found as well."""
    folder = libraries[0].parent
    assert counted(f"uretprobe:{folder}/lib*.so:told_by_all {{ @[retval] = count(); }}", libraries, None) == {
        3: 3 * CALLS
    }


def test_nothing_matches(libraries: list[Path]) -> None:
    """Refused at its place; or left out, if the script says so."""
    assert not [path for path in matching_binaries(os.getpid()) if path in map(str, libraries)]
    with pytest.raises(CompileError, match=r"No matches for uprobe \*:told_by_nobody\."):
        Script("uprobe:*:told_by_nobody { @ = count(); }", pid=os.getpid())
    with pytest.raises(CompileError, match=r"No matches for uprobe .*: with -p PID it names the files of a process"):
        Script("uprobe:*:told_by_nobody { @ = count(); }")
    script = Script(
        'config = { missing_probes = "warn" } uprobe:*:told_by_nobody { @ = count(); } BEGIN { print("begun"); }',
        pid=os.getpid(),
    )
    assert "".join(script.output()).splitlines()[0] == "begun"
    assert [line for line in script.remarks if "No matches for uprobe *:told_by_nobody" in line]


def test_of_paths_with_a_command(libraries: list[Path]) -> None:
    """It has mapped nothing of its own when its probes are attached; `-l` and `list` name the same functions."""
    folder = libraries[0].parent
    script = "import ctypes, sys; [ctypes.CDLL(path).told_by_all(1) for path in sys.argv[1:] for _ in range(3)]"
    command = f"/usr/bin/python3 -c '{script}' {libraries[0]} {libraries[1]}"
    done = pyebpf("-qe", f"uprobe:{folder}/*:told_by_all {{ @ = count(); }}", "-c", command)
    assert (done.stdout.split(), done.stderr) == (["@:", "6"], "")
    names = [f"{path}:told_by_all" for path in libraries]
    assert pyebpf("-l", f"uprobe:{folder}/*:*_by_all").stdout.split() == [f"uprobe:{name}" for name in names]
    assert pyebpf("list", f"u:{folder}/lib*:told_by_all").stdout.split() == [f"uprobe:{name}" for name in names]
    missing = pyebpf("list", f"u:{folder}/lib*:told_by_nobody")
    assert missing.stderr == f"pyebpf list: no file has what 'u:{folder}/lib*:told_by_nobody' matches\n"


#: Calls its own function when it is let.
PROGRAM = """
#include <unistd.h>
__attribute__((noinline)) int told_here(int x) { __asm__ volatile(""); return x + 1; }
int main(void) {
    char word;
    write(1, "\\n", 1);
    if (read(0, &word, 1) != 1) return 1;
    for (int i = 0; i < %d; i++) told_here(i);
    return 0;
}
"""


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """A program that needs no other file."""
    import subprocess

    needs("attach:uprobe", "command:gcc")
    (tmp_path / "here.c").write_text(PROGRAM % CALLS)
    subprocess.run(["gcc", "-O1", "-static", "-o", tmp_path / "here", tmp_path / "here.c"], check=True)
    return tmp_path / "here"


@contextmanager
def counting(place: str, process: subprocess.Popen[bytes]) -> Iterator[Script]:
    with Script(f"{place} {{ @ = count(); }}", pid=process.pid) as script:
        yield script
        let(process)
        assert script["@"].only() == CALLS


def test_of_a_process_below_another_root(program: Path) -> None:
    """Paths are those that it sees, whichever way the kernel gives them here."""
    needs("user:root")
    root = program.parent / "root"
    (root / "opt").mkdir(parents=True)
    shutil.copy(program, root / "opt" / "here")
    for place in ("uprobe:*:told_here", "uprobe:/opt/*:told_here", "uprobe:/opt/here:told_here"):
        with waiting("chroot", root, "/opt/here") as process, counting(place, process):
            assert matching_binaries(process.pid) == ["/opt/here"]


def test_of_a_process_whose_program_is_another_file_by_now(program: Path) -> None:
    """What it has code of is the file that has no name any more, and not the one that has its name."""
    needs("user:root")
    with waiting(program) as process:
        other = program.with_name("other")
        other.write_bytes(program.read_bytes().replace(b"told_here", b"told_gone"))
        other.rename(program)
        (path,) = matching_binaries(process.pid)
        assert path.startswith(f"/proc/{process.pid}/map_files/")
        with pytest.raises(CompileError, match=r"No matches for uprobe \*:told_gone\."):
            Script("uprobe:*:told_gone { @ = count(); }", pid=process.pid)
        with counting("uprobe:*:told_here", process):
            pass
