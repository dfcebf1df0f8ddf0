"""Files of a process in a container: a link in its root means what it means there, not on the host."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import threading
import time
from pathlib import Path

import pytest

from pyebpf import BPF, u64
from pyebpf.elf.budget import PATIENCE, Room
from pyebpf.errors import MalformedData, NotFound
from pyebpf.features import Support, _remembered
from pyebpf.kernel.roots import path_exists, resolved, split_root
from pyebpf.symbols.debug import include_debug_symbols
from pyebpf.symbols.files import ElfFile, open_regular
from pyebpf.symbols.libraries import find_binary
from pyebpf.symbols.perf_map import PerfMap
from pyebpf.symbols.process import Processes
from tests.support.needs import needs
from tests.support.traced import Traced, binary

CALLS, OTHERS = 23, 7


@pytest.fixture
def place(tmp_path):
    """`opt`, which the container has a file system of its own over; `usr`, with absolute links into it, is shared."""
    needs("command:unshare")
    for name in ("opt", "usr"):
        (tmp_path / name).mkdir()
    (tmp_path / "usr/tool").symlink_to(tmp_path / "opt/tool")
    (tmp_path / "usr/folder").symlink_to(tmp_path / "opt")
    (tmp_path / "usr/escape").symlink_to("../" * 40 + f"{tmp_path}/opt/tool")
    (tmp_path / "usr/again").symlink_to("folder/tool")
    shutil.copy(binary("pie"), tmp_path / "opt/tool")  # the host's
    return tmp_path


def container(place, *more):
    """The traced program as a container's `opt/tool`, after the commands `more` in its mount namespace."""
    inside = shlex.quote(str(place / "opt"))
    script = f"mount -t tmpfs none {inside}\ncp {shlex.quote(binary('pie'))} {inside}/tool\n"
    return Traced("unshare", "--mount", "sh", "-ec", "\n".join([script, *more, f"exec {inside}/tool"]))


def identity(path):
    status = Path(path).stat()
    return status.st_dev, status.st_ino


@pytest.mark.parametrize("name", ["tool", "folder/tool", "escape", "again"])
def test_a_link_leads_to_the_containers_file(place, name):
    """By `pid=` and by /proc/PID/root alike, absolute or relative, of the file or of a folder on the way."""
    with container(place) as traced:
        theirs = identity(f"/proc/{traced.pid}/exe")
        assert theirs != identity(place / "opt/tool")
        for path in (
            find_binary(f"{place}/usr/{name}", pid=traced.pid),
            f"/proc/{traced.pid}/root{place}/usr/{name}",
            f"//proc/{traced.pid}/task/{traced.pid}/root/{place}/usr/{name}",
        ):
            with resolved(path) as found:
                assert identity(found) == theirs
            assert ElfFile(path).identity == theirs
            assert path_exists(path)
        (place / "opt/tool").unlink()
        assert find_binary(f"{place}/usr/{name}", pid=traced.pid)
        with pytest.raises(NotFound):
            find_binary(f"{place}/usr/{name}")


def test_what_only_the_host_has_is_not_there(place):
    """A link to a file that the container has not got is not a file, though the host has one of that name."""
    (place / "opt/only").write_bytes(Path(binary("pie")).read_bytes())
    (place / "usr/only").symlink_to(place / "opt/only")
    with container(place) as traced:
        path = f"/proc/{traced.pid}/root{place}/usr/only"
        assert Path(path).exists()  # as it is for whoever follows the link from here
        assert not path_exists(path)
        for ask in (lambda: find_binary(f"{place}/usr/only", pid=traced.pid), lambda: open_regular(path)):
            with pytest.raises(NotFound):
                ask()


@pytest.mark.parametrize("way", ["uprobe.multi", "uprobe"])
@pytest.mark.parametrize("by", ["pid", "root"])
def test_probes_hit_the_containers_program(place, way, by, monkeypatch):
    """Exactly its calls: none of the host's program of the same name, which runs beside it."""
    needs("attach:uprobe" if way == "uprobe" else "attach:uprobe_multi")
    if way == "uprobe":
        monkeypatch.setitem(_remembered, "attach:uprobe_multi", Support.NO)
    with container(place) as traced, Traced(str(place / "opt/tool")) as other:
        bpf = BPF()
        counts = bpf.array(value=u64)
        target = {"pid": traced.pid} if by == "pid" else {}
        root = "" if by == "pid" else f"/proc/{traced.pid}/root"

        @bpf.uprobe(f"{root}{place}/usr/tool", "negative", **target)
        def probe() -> None:
            counts[0] += 1

        with bpf:
            traced.tell(f"negative {CALLS}")
            other.tell(f"negative {OTHERS}")
            assert counts[0] == CALLS


def test_usdt_probes_of_a_container(place):
    """Notes are read from, and probes go to, the container's file."""
    needs("attach:uprobe")
    with container(place) as traced, Traced(str(place / "opt/tool")) as other:
        bpf = BPF()
        counts = bpf.array(value=u64)

        @bpf.usdt(f"{place}/usr/tool", "traced:forms", pid=traced.pid)
        def probe() -> None:
            counts[0] += 1

        with bpf:
            traced.tell(f"forms {CALLS}")
            other.tell(f"forms {OTHERS}")
            assert counts[0] == CALLS


def test_debug_files_are_the_containers(place):
    """A debug file that .gnu_debuglink names, reached by an absolute link: the host's is another, and not taken."""
    needs("command:objcopy", "command:strip")
    stripped, debug = place / "usr/stripped", place / "opt/stripped.debug"
    shutil.copy(binary("pie"), stripped)
    subprocess.run(["objcopy", "--only-keep-debug", stripped, debug], check=True, timeout=60)
    subprocess.run(["strip", stripped], check=True, timeout=60)
    subprocess.run(["objcopy", f"--add-gnu-debuglink={debug}", stripped], check=True, timeout=60)
    (place / "usr/stripped.debug").symlink_to(debug)
    with container(place) as traced:
        root = f"/proc/{traced.pid}/root"
        elf = ElfFile(f"{root}{stripped}")
        assert include_debug_symbols(elf, root=root, path=str(stripped)) == f"{stripped}.debug"  # the host's own
        debug.unlink()
        assert include_debug_symbols(ElfFile(f"{root}{stripped}"), root=root, path=str(stripped)) == ""


def test_a_map_of_made_code_is_the_containers(place):
    """Its folder may be an absolute link, which leads to the container's; the file itself may be none."""
    (place / "usr/perf").symlink_to(place / "opt/perf")
    (place / "opt/perf").mkdir()
    (place / "opt/perf/a.map").write_text("7f0010000000 100 of_the_host\n")
    with container(place, f"mkdir {place}/opt/perf && echo '10000 100 made_there' > {place}/opt/perf/a.map") as traced:

        def names(path):
            perf = PerfMap(f"/proc/{traced.pid}/root{path}", 0, Room(1 << 20))
            perf.look(PATIENCE)
            return perf.table()

        found = names(f"{place}/usr/perf/a.map").find(0x10010)
        assert found is not None
        assert found.name == "made_there"
        (place / "usr/link").symlink_to(f"{place}/usr/perf/a.map")
        assert names(f"{place}/usr/link").find(0x10010) is None


def test_names_of_a_containers_process(place):
    """A frame in the container's program has its function's name, also where the host has no such file."""
    with container(place) as traced:
        (place / "opt/tool").unlink()
        processes = Processes()
        assert processes.see(traced.pid)
        lines = Path(f"/proc/{traced.pid}/maps").read_text().splitlines()
        start = next(int(line.split("-")[0], 16) for line in lines if "r-xp" in line and line.endswith("opt/tool"))
        elf = ElfFile(binary("pie"))
        symbol = elf.find("negative")[0]
        offset = next(int(line.split()[2], 16) for line in lines if line.startswith(f"{start:x}-"))
        assert processes.resolve(traced.pid, start + symbol.offset - offset).name == "negative"


def test_what_is_no_regular_file(place):
    """A FIFO, a folder and a link that may not be followed are refused, and none of them is waited for."""
    os.mkfifo(place / "usr/fifo")
    with container(place) as traced:
        root = f"/proc/{traced.pid}/root"
        for name in ("fifo", "folder", ""):
            with pytest.raises(MalformedData, match="is not a regular file"):
                open_regular(f"{root}{place}/usr/{name}")
        with pytest.raises(MalformedData, match="is not a regular file"):
            open_regular(f"{root}{place}/usr/tool", follow=False)
        open_regular(f"{root}{place}/usr/tool").close()


def test_a_link_that_changes_all_the_time(place):
    """Looked up a thousand times while the container turns it to and fro: always its own file, or none."""
    with container(place) as traced:
        theirs = identity(f"/proc/{traced.pid}/exe")
        done = threading.Event()

        def turn():
            for number in range(1_000_000):
                spare = place / "usr/spare"
                spare.symlink_to([f"{place}/opt/tool", "/etc", "../opt/tool"][number % 3])
                spare.rename(place / "usr/tool")
                if done.is_set():
                    return

        turner = threading.Thread(target=turn)
        turner.start()
        try:
            deadline = time.monotonic() + 20
            for _ in range(1000):
                with resolved(f"/proc/{traced.pid}/root{place}/usr/tool") as found:
                    assert identity(found) == theirs or Path(found).is_dir()
                if time.monotonic() > deadline:
                    break
        finally:
            done.set()
            turner.join()


def test_paths_that_have_a_root():
    """What stands before it, and what is in it; other paths are left as they are."""
    assert split_root("/proc/42/root/usr/bin/x") == ("/proc/42/root", "/usr/bin/x")
    assert split_root("/proc/self/root") == ("/proc/self/root", "")
    for other in ("/usr/bin/x", "proc/1/root/x", "/proc/1/rootx", "/proc/x/root/y", ""):
        assert split_root(other) == ("", other)
        with resolved(other) as name:
            assert name == other
