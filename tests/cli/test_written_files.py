"""Files that tools write: what was there stays if writing fails, and its mode, owner and links if it does not."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from contextlib import contextmanager

import pytest

from pyebpf.cli.files import check_file, open_text, write_content
from pyebpf.errors import InvalidValue
from pyebpf.output.sink import Sink
from pyebpf.programs import tcpwin
from pyebpf.recording.writer import check_place
from pyebpf.tool.files import write_file
from tests.support.needs import needs

NEW, OLD = "new\n" * 10_000, "old\n"
NOBODY = 65534


@contextmanager
def small_files():
    """No file of this process may grow beyond 4 KiB: writing gives EFBIG, as a full disk gives ENOSPC."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_failure_leaves_the_old_file(tmp_path):
    """And nothing beside it."""
    path = tmp_path / "keep.svg"
    path.write_text(OLD)
    with small_files(), pytest.raises(OSError, match="File too large"):
        write_file(str(path), NEW)
    assert path.read_text() == OLD
    assert list(tmp_path.iterdir()) == [path]
    with small_files(), pytest.raises(OSError, match="File too large"):
        write_file(str(tmp_path / "none.svg"), NEW)
    assert list(tmp_path.iterdir()) == [path]


def test_a_plot_too(tmp_path):
    """Tcpwin's --plot says which file and why."""
    path = tmp_path / "keep.svg"
    path.write_text(OLD)
    with small_files(), pytest.raises(Exception, match=f"--plot: {path} cannot be written: File too large"):
        tcpwin.write(str(path), NEW)
    assert path.read_text() == OLD


@pytest.mark.parametrize(
    ("name", "why"),
    [("", "name the file to write"), ("none/x.svg", "there is no directory"), (".", "it is a directory")],
)
def test_a_plot_that_can_not_be_written_is_refused_at_the_start(tmp_path, name, why):
    """Before the probes are made, not after an hour of tracing."""
    plot = str(tmp_path / name) if name else ""
    with pytest.raises(InvalidValue, match=f"^--plot: .*{why}"):
        tcpwin.build(tcpwin.Options(plot=plot))


def test_a_new_file_has_the_mode_that_umask_says(tmp_path):
    """As one that is simply opened."""
    old = os.umask(0o027)
    try:
        write_file(str(tmp_path / "new"), NEW)
    finally:
        os.umask(old)
    assert (tmp_path / "new").read_text() == NEW
    assert (tmp_path / "new").stat().st_mode & 0o7777 == 0o640


def test_mode_and_owner_stay(tmp_path):
    """Those of the file that was there."""
    needs("user:root")
    path = tmp_path / "old"
    path.write_text(OLD)
    path.chmod(0o604)
    os.chown(path, NOBODY, NOBODY)
    write_file(str(path), NEW)
    status = path.stat()
    assert (status.st_uid, status.st_gid, status.st_mode & 0o7777) == (NOBODY, NOBODY, 0o604)
    assert path.read_text() == NEW


@pytest.mark.parametrize("there", [True, False])
def test_links_stay(tmp_path, there):
    """The file that they lead to is written, relative ones and ones to nothing too."""
    (tmp_path / "folder").mkdir()
    target = tmp_path / "folder/target"
    if there:
        target.write_text(OLD)
    (tmp_path / "first").symlink_to("folder/second")
    (tmp_path / "folder/second").symlink_to("target")
    write_file(str(tmp_path / "first"), NEW)
    assert (tmp_path / "first").is_symlink()
    assert (tmp_path / "folder/second").is_symlink()
    assert target.read_text() == NEW
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(OSError, match="Too many levels"):
        write_file(str(tmp_path / "loop"), NEW)


def test_a_fifo_and_a_device_are_written_to(tmp_path):
    """They are what they were afterwards."""
    path = tmp_path / "fifo"
    os.mkfifo(path)
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK)) as reader:
        write_file(str(path), NEW)
        assert reader.read() == NEW
    assert path.is_fifo()
    write_file("/dev/null", NEW)
    with pytest.raises(OSError, match="No space left"):
        write_file("/dev/full", NEW)


@pytest.mark.parametrize("name", ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"])
def test_standard_output_is_what_the_shell_opened(tmp_path, name):
    """A file that others write to, too: it is not replaced."""
    program = f"import os; from pyebpf.tool.files import write_file; write_file({name!r}, 'new'); os.write(1, b'!')"
    path = tmp_path / "out"
    with path.open("wb") as out:
        number = path.stat().st_ino
        subprocess.run([sys.executable, "-c", program], stdout=out, check=True)
    assert path.stat().st_ino == number
    assert path.read_text().startswith("!")  # both write from the start
    piped = subprocess.run([sys.executable, "-c", program], stdout=subprocess.PIPE, check=True)
    assert piped.stdout == b"new!"


def test_a_file_of_a_folder_that_is_not_ours_is_written(tmp_path):
    """Where no other can be made."""
    needs("user:root")
    folder = tmp_path / "folder"
    folder.mkdir(mode=0o755)
    path = folder / "file"
    path.write_text(OLD)
    os.chown(path, NOBODY, NOBODY)
    for each in (tmp_path, *tmp_path.parents):
        if each.stat().st_mode & 0o005 != 0o005:
            each.chmod(each.stat().st_mode | 0o055)
    child = os.fork()
    if not child:
        try:
            os.setresuid(NOBODY, NOBODY, NOBODY)
            write_file(str(path), NEW)
            os._exit(0)
        finally:
            os._exit(1)
    assert os.waitpid(child, 0)[1] == 0
    assert path.read_text() == NEW
    assert list(folder.iterdir()) == [path]


@pytest.fixture
def shared(tmp_path):
    """A folder like /tmp, and another user's link in it to a file of ours."""
    needs("user:root")
    folder = tmp_path / "shared"
    folder.mkdir()
    folder.chmod(0o1777)
    (tmp_path / "ours").write_text(OLD)
    (folder / "link").symlink_to(tmp_path / "ours")
    os.chown(folder / "link", NOBODY, NOBODY, follow_symlinks=False)
    return folder


def test_what_others_have_put_into_a_shared_folder_is_not_written(shared):
    """Neither their links, which may lead to any file of root's, nor their files, which stay theirs to change."""
    (shared / "file").write_text(OLD)
    os.chown(shared / "file", NOBODY, NOBODY)
    for name in ("link", "file"):
        path, behind = str(shared / name), "" if name == "link" else ", in a folder that everybody can write to"
        with pytest.raises(PermissionError, match=f"is another user's {name}{behind}"):
            write_file(path, NEW)
        with pytest.raises(InvalidValue, match=f"{path} cannot be written: .* another user's {name}"):
            check_file(path)
    assert (shared / "file").read_text() == (shared.parent / "ours").read_text() == OLD
    (shared / "mine").symlink_to(shared.parent / "ours")
    write_file(str(shared / "mine"), NEW)
    assert (shared.parent / "ours").read_text() == NEW


@pytest.mark.parametrize("mode", [0o1777, 0o755])
def test_nor_through_a_link_in_a_folder_of_its_owner_s(shared, mode):
    """The kernel follows it, and it may lead to any file of root's; root's own links are followed."""
    os.chown(shared, NOBODY, NOBODY)
    shared.chmod(mode)
    with pytest.raises(PermissionError, match="is another user's link"):
        write_file(str(shared / "link"), NEW)
    with pytest.raises(InvalidValue, match=r"cannot be written: .* is another user's link"):
        check_file(str(shared / "link"))
    assert (shared.parent / "ours").read_text() == OLD
    os.chown(shared / "link", 0, 0, follow_symlinks=False)
    write_file(str(shared / "link"), NEW)
    assert (shared.parent / "ours").read_text() == NEW


def test_who_called_sudo_chooses_the_file_without_a_link_too(shared, monkeypatch):
    """A link of his in a folder of his is followed, of nobody else's."""
    os.chown(shared, NOBODY, NOBODY)
    shared.chmod(0o755)
    monkeypatch.setenv("SUDO_UID", str(NOBODY - 1))
    with pytest.raises(PermissionError, match="is another user's link"):
        write_file(str(shared / "link"), NEW)
    monkeypatch.setenv("SUDO_UID", str(NOBODY))
    write_file(str(shared / "link"), NEW)
    assert (shared.parent / "ours").read_text() == NEW


def test_a_fifo_that_nobody_reads_is_an_error(tmp_path):
    """And no wait for somebody who may never come."""
    path = tmp_path / "fifo"
    os.mkfifo(path)
    with pytest.raises(InvalidValue, match=f"{path} cannot be written: nobody reads this FIFO"):
        write_content(str(path), NEW, Sink.of(sys.stdout))


@pytest.mark.parametrize("mode", [0o1777, 0o755])
def test_nor_through_another_user_s_link_on_the_way(shared, mode):
    """In a shared folder, or in one of his own, for all that is written: pictures, outputs, recordings."""
    if mode == 0o755:
        os.chown(shared, NOBODY, NOBODY)
    shared.chmod(mode)
    (shared.parent / "folder").mkdir()
    (shared.parent / "folder/file").write_text(OLD)
    for name, owner in (("theirs", NOBODY), ("mine", 0)):
        (shared / name).symlink_to(shared.parent / "folder")
        os.chown(shared / name, owner, owner, follow_symlinks=False)
    (shared / "second").symlink_to("theirs/file")
    for name in ("theirs/file", "theirs/../folder/file", "second"):
        path = str(shared / name)
        with pytest.raises(PermissionError, match="theirs is another user's link"):
            write_file(path, NEW)
        for refusing in (check_file, open_text):
            with pytest.raises(InvalidValue, match=f"{path} cannot be written: .*theirs is another user's link"):
                refusing(path)
    with pytest.raises(InvalidValue, match=r"--record: .* cannot be written: .*theirs is another user's link"):
        check_place(str(shared / "theirs/new"), overwrite=False, is_bounded=False)
    assert (shared.parent / "folder/file").read_text() == OLD
    write_file(str(shared / "mine/file"), NEW)
    assert (shared.parent / "folder/file").read_text() == NEW
    check_place(str(shared / "mine/new"), overwrite=False, is_bounded=False)


def test_an_output_to_a_fifo_that_nobody_reads_is_an_error(tmp_path):
    """At once: nobody knows whether there will be a reader."""
    path = tmp_path / "fifo"
    os.mkfifo(path)
    with pytest.raises(InvalidValue, match=f"{path} cannot be written: nobody reads this FIFO"):
        open_text(str(path))
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK)) as reader:
        with open_text(str(path)) as written:
            assert os.get_blocking(written.fileno())
            written.write(NEW)
        assert reader.read() == NEW


def test_the_root_of_another_user_s_process_is_on_the_way(tmp_path):
    """It is the kernel's link, and leads to where that process has its files."""
    needs("user:root")
    tmp_path.chmod(0o755)
    process = subprocess.Popen(["sleep", "1000"], user=NOBODY)
    try:
        write_file(f"/proc/{process.pid}/root{tmp_path}/file", NEW)
    finally:
        process.kill()
        process.wait()
    assert (tmp_path / "file").read_text() == NEW


def test_a_process_s_links_lead_to_what_it_has(tmp_path, monkeypatch):
    """Names in /proc are no paths: not the one of its directory, nor of a file that is gone."""
    monkeypatch.chdir(tmp_path)
    write_file("/proc/self/cwd/file", NEW)
    assert (tmp_path / "file").read_text() == NEW
    with (tmp_path / "file").open("r+b") as file:
        (tmp_path / "file").unlink()
        write_file(f"/proc/self/fd/{file.fileno()}", OLD)
        assert file.read() == OLD.encode()
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(IsADirectoryError):
        write_file(f"{tmp_path}/", NEW)
