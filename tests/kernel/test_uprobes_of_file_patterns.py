"""Uprobes of scripts at functions of several files: a pattern of a process's files, or of paths."""

from __future__ import annotations

import ctypes
import os
from typing import TYPE_CHECKING

import pytest

from pyebpf.errors import CompileError
from pyebpf.script import Script
from pyebpf.symbols.libraries import mapped_binaries
from tests.support.needs import needs

if TYPE_CHECKING:
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
    assert not [path for path in mapped_binaries(os.getpid()) if path in map(str, libraries)]
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
