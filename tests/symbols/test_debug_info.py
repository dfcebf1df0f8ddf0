"""Where debugging information is: in a file, in its debug file, and in one that several share."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from pyebpf.elf.dwarf.info import DebugInfo
from pyebpf.symbols.debug import debug_info_of
from pyebpf.symbols.files import ElfFile
from tests.elf.test_dwarf import CPP, C, compiled, instructions
from tests.support.needs import needs


def test_what_several_files_share(tmp_path):
    """Entries and strings of two files lie in a third, to which dwz has moved them: .gnu_debugaltlink names it."""
    needs("command:dwz")
    before = {}
    for name in ("one", "two"):
        path = compiled(tmp_path, "g++", "-gdwarf-4", source=CPP, name=name)
        info = DebugInfo(ElfFile(str(path)))
        before[name] = [info.lines(address) for address in instructions(info.elf)]
    subprocess.run(["dwz", "-m", "shared", "one", "two"], cwd=tmp_path, check=True)
    for name, expected in before.items():
        elf = ElfFile(str(tmp_path / name))
        assert elf.section(".gnu_debugaltlink") is not None
        info = debug_info_of(elf)
        assert [info.lines(address) for address in instructions(elf)] == expected
    # Without that file, or with another in its place, lines are known and names that lie there are not.
    for replace in (Path.unlink, lambda path: shutil.copy(tmp_path / "two", path)):
        replace(tmp_path / "shared")
        info = debug_info_of(ElfFile(str(tmp_path / "one")))
        found = [info.lines(address) for address in instructions(info.elf)]
        assert [[each.line for each in calls] for calls in found] == [
            [each.line for each in calls] for calls in before["one"]
        ]
        assert found != before["one"]


def test_debug_files(tmp_path):
    """Debugging information beside a stripped file; the debug file of another one is not taken for its own."""
    needs("command:objcopy", "command:strip")
    path = compiled(tmp_path, "gcc")
    other = compiled(tmp_path, "gcc", "-DOTHER", source=C + "int other;\n", name="other")
    info = DebugInfo(ElfFile(str(path)))
    expected = [info.lines(address) for address in instructions(info.elf)]
    for name in (path, other):
        subprocess.run(["objcopy", "--only-keep-debug", name, f"{name}.debug"], check=True)
    subprocess.run(["strip", path], check=True)
    assert debug_info_of(ElfFile(str(path))) is None
    subprocess.run(["objcopy", f"--add-gnu-debuglink={path}.debug", path], check=True)
    found = debug_info_of(ElfFile(str(path)))
    assert [found.lines(address) for address in instructions(found.elf)] == expected
    Path(f"{other}.debug").rename(f"{path}.debug")
    assert debug_info_of(ElfFile(str(path))) is None
