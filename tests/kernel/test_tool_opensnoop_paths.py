"""opensnoop -F: relative paths behind the directory that they are relative to, as the process sees it."""

from __future__ import annotations

import contextlib
import sys
from typing import TYPE_CHECKING

from pyebpf.programs import opensnoop
from tests.support.command import running
from tests.support.told import let, waiting

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Iterator
    from pathlib import Path

PROGRAM = """
import contextlib, os, sys
folder, root = sys.argv[1], sys.argv[2]
if root:
    os.chroot(root)
os.chdir(folder)
inner = os.open("inner", os.O_RDONLY)
stat = os.open("/proc/self", os.O_RDONLY) if not root else inner
print(flush=True)
sys.stdin.read(1)
for path, directory in (("one", None), ("/none", None), ("two", inner), ("status", stat), ("three", 999), ("", None),
                        ("../four", None), ("inner/./five", None), ("six", -7)):
    with contextlib.suppress(OSError):
        os.open(path, os.O_RDONLY, dir_fd=directory)
"""


@contextlib.contextmanager
def opener(folder: str, root: str = "") -> Iterator[subprocess.Popen[bytes]]:
    """A process that opens paths of all kinds when told to."""
    with waiting(sys.executable, "-c", PROGRAM, folder, root) as process:
        yield process


def paths(process: subprocess.Popen[bytes], *, full: bool = True) -> list[str]:
    """The paths of its nine opens."""
    options = {"full_path": True} if full else {}
    with opensnoop.open(pid=process.pid, **options) as calls:
        let(process)
        return [next(calls).path for _ in range(9)]


def test_relative_paths_have_their_directory(tmp_path: Path) -> None:
    """The working directory's, that of a descriptor, one across a mount point; others stay as they were given."""
    (tmp_path / "inner").mkdir()
    with opener(str(tmp_path)) as process:
        assert paths(process) == [
            f"{tmp_path}/one", "/none", f"{tmp_path}/inner/two", f"/proc/{process.pid}/status", "three", "",
            f"{tmp_path}/../four", f"{tmp_path}/inner/./five", "six",
        ]  # fmt: skip
    with opener(str(tmp_path)) as process:
        assert paths(process, full=False) == [
            "one", "/none", "two", "status", "three", "", "../four", "inner/./five", "six",
        ]  # fmt: skip


def test_below_another_root(tmp_path: Path) -> None:
    """As the process sees it: its paths begin at its root."""
    (tmp_path / "a" / "inner").mkdir(parents=True)
    with opener("/a", str(tmp_path)) as process:
        assert paths(process)[:4] == ["/a/one", "/none", "/a/inner/two", "/a/inner/status"]
    with opener("/", str(tmp_path / "a")) as process:
        assert paths(process)[:3] == ["/one", "/none", "/inner/two"]


def test_a_deep_directory_is_cut_at_the_top(tmp_path: Path) -> None:
    """Of 30 levels the innermost 20, behind dots; a name of more than 127 bytes loses the rest."""
    names = [f"level{number}" for number in range(29)] + ["x" * 200]
    deep = tmp_path.joinpath(*names)
    (deep / "inner").mkdir(parents=True)
    with opener(str(deep)) as process:
        kept = "/".join([*names[-20:-1], "x" * 127])
        assert paths(process)[:2] == [f".../{kept}/one", "/none"]


def test_the_command(tmp_path: Path) -> None:
    """In text and JSON."""
    (tmp_path / "inner").mkdir()
    with opener(str(tmp_path)) as process:
        pid = str(process.pid)
        with running("opensnoop", "-F", "-p", pid) as text, running("opensnoop", "-F", "-p", pid, "--json") as objects:
            let(process)
            text.stop()
            objects.stop()
        assert f"{tmp_path}/one" in text.out
        assert f"{tmp_path}/inner/two" in [each["path"] for each in objects.objects()]
