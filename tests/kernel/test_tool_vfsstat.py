"""vfsstat, filelife, filetype and cachestat: what this process does with files of its own."""

from __future__ import annotations

import os
import socket
import subprocess
import time

import pytest

from pyebpf.programs import cachestat, filelife, filetype, vfsstat
from tests.support.command import running
from tests.support.loop import CONTROL, loop_device
from tests.support.needs import needs, needs_functions

READS, WRITES, SYNCS, FILES, FOLDERS = 23, 17, 5, 7, 3


@pytest.fixture(autouse=True)
def _functions():
    needs_functions()


@pytest.fixture
def folder(tmp_path):
    """A file system that calls no other: an overlay would call each function twice."""
    subprocess.run(["mount", "-t", "tmpfs", "none", tmp_path], check=True)
    try:
        yield tmp_path
    finally:
        subprocess.run(["umount", tmp_path], check=True)


def work(folder):
    """Make the calls that the constants say."""
    for number in range(FILES):
        file = os.open(folder / f"file{number}", os.O_CREAT | os.O_EXCL | os.O_RDWR)
        if not number:
            for _ in range(WRITES):
                os.write(file, b"x" * 101)
            for _ in range(READS):
                os.pread(file, 101, 0)
            for _ in range(SYNCS):
                os.fsync(file)
        os.close(file)
    for number in range(FOLDERS):
        (folder / f"folder{number}").mkdir()
    for number in range(FOLDERS):
        (folder / f"folder{number}").rmdir()
    for number in range(FILES):
        (folder / f"file{number}").unlink()


def test_vfsstat(folder):
    """Each count, exactly, in the interval in which it happened; none of another process."""
    with vfsstat.open(pid=os.getpid()) as snapshot, vfsstat.open(comm="nobody-has-this") as none:
        list(snapshot()), list(none())
        began = time.monotonic()
        work(folder)
        (calls,), (others,) = snapshot(), none()
        took = time.monotonic() - began
    counts = (calls.read, calls.write, calls.open, calls.create, calls.unlink, calls.mkdir, calls.rmdir)
    assert counts == (READS, WRITES, FILES, FILES, FILES, FOLDERS, FOLDERS)
    assert 0 < calls.seconds < took + 1
    assert (others.read, others.open) == (0, 0)
    assert calls.fsync == SYNCS


def test_each_way_to_sync(folder):
    """fsync(2) and fdatasync(2) count once each; what names no file does not."""
    file = os.open(folder / "file", os.O_CREAT | os.O_WRONLY)
    with vfsstat.open(pid=os.getpid()) as snapshot:
        list(snapshot())
        for _ in range(SYNCS):
            os.fsync(file)
            os.fdatasync(file)
        os.fsync(file)
        os.close(file)
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fsync(file)
        (calls,) = snapshot()
    assert calls.fsync == 2 * SYNCS + 1


# One tool after the other: `running` itself has a temporary file, which this process creates and deletes.


def test_vfsstat_as_a_command(folder):
    """Rates in text, counts in JSON."""
    mine = ("vfsstat", "-p", str(os.getpid()))
    with running(*mine, "--json", "600") as objects:
        work(folder)
        objects.stop()
    (found,) = objects.objects()
    assert (found["fsyncs"], found["creates"], found["mkdirs"]) == (SYNCS, FILES, FOLDERS)
    with running(*mine, "600") as text:
        text.stop()
    heading = [line for line in text.out.splitlines() if "READ/s" in line]
    assert heading[0].split() == [f"{name.upper()}/s" for name in vfsstat.FUNCTIONS]


def live_and_die(folder):
    """Two files, deleted under another name; the bounds of their ages in ns. Others that no tool is to tell of."""
    (folder / "before").unlink()
    (folder / "kept").touch()
    with pytest.raises(FileNotFoundError):
        (folder / "missing").unlink()
    for name, wait in (("brief", 0.0), ("longer", 0.31)):
        began = time.monotonic_ns()
        (folder / name).touch()
        created = time.monotonic_ns()
        time.sleep(wait)
        (folder / name).rename(folder / f"{name}.new")
        deleting = time.monotonic_ns()
        (folder / f"{name}.new").unlink()
        yield deleting - created, time.monotonic_ns() - began


def test_filelife(folder):
    """Files of a moment with their ages, also after a new name; none that was there before, or could not be deleted."""
    mine = ("filelife", "-p", str(os.getpid()))
    (folder / "before").touch()
    with running(*mine, "--json") as objects:
        ages = list(live_and_die(folder))
        objects.stop()
    found = objects.objects()
    assert [(each["file"], each["pid"]) for each in found] == [(f"{n}.new", os.getpid()) for n in ("brief", "longer")]
    assert all(least <= each["age_ns"] <= most for each, (least, most) in zip(found, ages, strict=True))
    (folder / "before").touch()
    with running(*mine) as text:
        assert len(list(live_and_die(folder))) == 2
        text.stop()
    heading, *lines = text.out.splitlines()
    assert heading.split() == ["TIME", "PID", "COMM", "AGE(s)", "FILE"]
    assert [line.split()[-1] for line in lines] == ["brief.new", "longer.new"]


def test_filelife_with_whole_paths(folder):
    """-F has the path where the file system is mounted."""
    below = folder / "one" / "two"
    below.mkdir(parents=True)
    with filelife.open(pid=os.getpid(), full_path=True) as files:
        (below / "brief").touch()
        (below / "brief").unlink()
        (folder / "top").touch()
        (folder / "top").unlink()
        found = [each.file for each in files.poll(1)]
    assert found == [str(below / "brief"), str(folder / "top")]


def test_filetype(folder):
    """Calls by the type of the file, exactly."""
    with filetype.open(pid=os.getpid()) as snapshot:
        list(snapshot())
        file = os.open(folder / "file", os.O_CREAT | os.O_RDWR)
        zero = os.open("/dev/zero", os.O_RDWR)
        reading, writing = os.pipe()
        one, other = socket.socketpair()
        for number, (source, target) in enumerate(
            [(file, file), (zero, zero), (reading, writing), (other.fileno(), one.fileno())]
        ):
            for _ in range(number + 2):
                os.write(target, b"xx")
                os.read(source, 1)
                os.read(source, 1)
        for each in (file, zero, reading, writing):
            os.close(each)
        one.close(), other.close()
        found = {(each.type, each.operation): each.count for each in snapshot()}
    types = ("regular", "character", "fifo", "socket")
    assert found == {
        (name, call): (number + 2) * (2 if call == "read" else 1)
        for number, name in enumerate(types)
        for call in ("read", "write")
    }


def test_cachestat(tmp_path):
    """A disk that is read the first time is misses, the second time hits; what is written to it is dirty."""
    needs(f"setting:{CONTROL}")
    size = 8 << 20
    with loop_device(tmp_path / "disk", size=size) as device, cachestat.open() as snapshot:
        file = os.open(device.path, os.O_RDWR)

        def read():
            (before,) = snapshot()
            for offset in range(0, size, 4096):
                os.pread(file, 4096, offset)
            (after,) = snapshot()
            assert before.cached > 0
            return after

        first, second = read(), read()
        for offset in range(0, size // 2, 4096):
            os.pwrite(file, b"x" * 4096, offset)
        (written,) = snapshot()
        os.close(file)
    assert first.misses > 0
    assert second.hits >= first.misses
    assert second.misses < first.misses / 10
    assert second.ratio > 90 > first.ratio
    assert written.dirties >= size // 2 // 4096
    assert second.dirties < written.dirties
