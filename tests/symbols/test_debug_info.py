"""Where debugging information is: in a file, in its debug file, and in one that several share."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from pyebpf.elf.dwarf.info import DebugInfo
from pyebpf.errors import PyebpfError
from pyebpf.symbols.debug import debug_info_of, include_debug_symbols
from pyebpf.symbols.files import ElfFile
from pyebpf.symbols.frame import Frame
from pyebpf.symbols.stacks import MAX_EXPANDED, Symbols
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
        assert not info.incomplete
        assert [info.lines(address) for address in instructions(elf)] == expected
    # Without that file, or with another in its place, lines are known and names that lie there are not.
    for replace in (Path.unlink, lambda path: shutil.copy(tmp_path / "two", path)):
        replace(tmp_path / "shared")
        info = debug_info_of(ElfFile(str(tmp_path / "one")))
        assert info.incomplete
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


@pytest.mark.parametrize("target", ["/proc/self/mem", "/proc/self/pagemap", "/proc/self/syscall", "/dev/zero", "/"])
def test_links_that_lead_astray(target, tmp_path):
    """A debug file that is a link to what is no file of a disk is not read, and ends nothing."""
    needs("command:objcopy", "command:strip")
    path = compiled(tmp_path, "gcc")
    debug = Path(f"{path}.debug")
    debug.write_bytes(path.read_bytes())
    subprocess.run(["strip", path], check=True)
    subprocess.run(["objcopy", f"--add-gnu-debuglink={debug}", path], check=True)
    # The build id would be compared before the file's checksum is made.
    subprocess.run(["objcopy", "--remove-section=.note.gnu.build-id", path], check=True)
    debug.unlink()
    debug.symlink_to(target)
    assert debug_info_of(ElfFile(str(path))) is None
    assert include_debug_symbols(ElfFile(str(path))) == ""
    with pytest.raises(PyebpfError):
        ElfFile(str(debug))


def test_calls_inlined_without_end(monkeypatch):
    """A stack has so many frames at most, all of its own among them."""
    symbols = Symbols()
    monkeypatch.setattr(symbols.processes, "resolve", lambda _, address: Frame("f", address, "/bin/f", address))
    inlined = tuple(Frame("g", 0, "/bin/f", 1, "a.c", number, inlined=True) for number in range(300))
    monkeypatch.setattr(symbols.processes, "with_source", lambda _pid, _address, frame: (*inlined, frame))
    frames = symbols.user_frames(1, range(0x1000, 0x1000 + 127), source=True)
    assert len(frames) == MAX_EXPANDED
    assert [frame.address for frame in frames if not frame.inlined] == list(range(0x1000, 0x1000 + 127))
