"""What is kept between runs: built once, never believed where it is damaged or another user could have changed it."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

import pytest

from pyebpf.kernel import cache
from tests.support.needs import needs

pytestmark = pytest.mark.any_kernel

if TYPE_CHECKING:
    from pathlib import Path

NOBODY = 65534


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "pyebpf"


class Builder:
    """Counts how often the entry is made."""

    def __init__(self, content: bytes = b"an index") -> None:
        self.content = content
        self.calls = 0

    def __call__(self) -> bytes:
        self.calls += 1
        return self.content


def entry(home: Path) -> Path:
    return next(path for path in home.iterdir() if path.name.startswith("test-1-"))


def test_an_entry_is_built_once(home):
    """Found by the name of what it was made from; private to the user."""
    build = Builder()
    key = "of-a-kernel"
    assert [cache.cached("test-1", key, build) for _ in range(3)] == [b"an index"] * 3
    assert build.calls == 1
    assert home.stat().st_mode & 0o777 == 0o700
    assert entry(home).stat().st_mode & 0o777 == 0o600
    assert len(list(home.iterdir())) == 1


@pytest.mark.parametrize("damage", ["cut", "flip", "empty", "grow", "swap"])
def test_a_broken_entry_is_rebuilt_never_believed(home, damage):
    """Cut short, one bit changed, emptied, longer, or another entry's content under its name."""
    build = Builder()
    key = "of-a-kernel"
    cache.cached("test-1", key, build)
    path = entry(home)
    content = bytearray(path.read_bytes())
    match damage:
        case "cut":
            del content[-3:]
        case "flip":
            content[-1] ^= 1
        case "empty":
            content.clear()
        case "grow":
            content += b"x"
        case "swap":
            cache.cached("test-2", key, Builder(b"other"))
            content = bytearray(next(p for p in home.iterdir() if p.name.startswith("test-2")).read_bytes())
    path.write_bytes(content)
    assert cache.cached("test-1", key, build) == b"an index"
    assert build.calls == 2
    assert cache.cached("test-1", key, build) == b"an index"
    assert build.calls == 2


def test_without_a_place_to_write_everything_is_built(tmp_path, monkeypatch):
    """A file stands where the directory should be."""
    blocker = tmp_path / "file"
    blocker.write_bytes(b"")
    monkeypatch.setenv("XDG_CACHE_HOME", str(blocker))
    build = Builder()
    key = "of-a-kernel"
    assert [cache.cached("test-1", key, build) for _ in range(2)] == [b"an index"] * 2
    assert build.calls == 2


def test_a_folder_that_others_can_change_is_not_used(home):
    """Somebody else's, one that a group may write to, a link, a file: everything is built, and nothing put there."""
    needs("user:root")
    other = home.parent / "other"
    for spoil in ("owner", "group", "link", "fifo"):
        match spoil:
            case "owner":
                home.mkdir(mode=0o700)
                os.chown(home, NOBODY, NOBODY)
            case "group":
                home.mkdir(mode=0o700)
                home.chmod(0o770)
            case "link":
                other.mkdir(mode=0o700)
                os.chown(other, NOBODY, NOBODY)
                home.symlink_to(other)
            case "fifo":
                os.mkfifo(home)
        assert cache.open_folder() is None
        build = Builder()
        assert cache.cached("test-1", "of-a-kernel", build) == b"an index"
        assert build.calls == 1
        place = other if spoil == "link" else home
        if place.is_dir():
            assert list(place.iterdir()) == []
        if home.is_dir() and not home.is_symlink():
            home.rmdir()
        else:
            home.unlink()


@pytest.mark.parametrize("owner", [NOBODY, 0])
def test_a_link_in_the_place_of_the_folder_is_not_followed(home, owner):
    """Wherever it leads: root would make its index where somebody else decides."""
    needs("user:root")
    elsewhere = home.parent / "elsewhere"
    elsewhere.mkdir(mode=0o700)
    home.symlink_to(elsewhere)
    os.chown(home, owner, owner, follow_symlinks=False)
    assert cache.open_folder() is None
    assert cache.cached("test-1", "of-a-kernel", Builder()) == b"an index"
    assert list(elsewhere.iterdir()) == []
    elsewhere.rmdir()  # now it leads to nothing
    assert cache.open_folder() is None
    assert not elsewhere.exists()


@pytest.mark.parametrize("above", ["owner", "writable"])
def test_nor_is_one_below_such_a_folder(tmp_path, monkeypatch, above):
    """Who may rename a folder on the way can put another one in its place; a sticky one as /tmp is good enough."""
    needs("user:root")
    middle = tmp_path / "middle"
    middle.mkdir(mode=0o755)
    (middle / "base").mkdir()
    monkeypatch.setenv("XDG_CACHE_HOME", str(middle / "base"))
    if above == "owner":
        os.chown(middle, NOBODY, NOBODY)
    else:
        middle.chmod(0o777)
    assert cache.open_folder() is None
    assert list((middle / "base").iterdir()) == []
    if above == "writable":
        middle.chmod(0o1777)
        with cache.open_folder() as folder:
            assert os.fstat(folder.fileno()).st_uid == os.geteuid()


def test_another_users_home_is_left_alone(tmp_path, monkeypatch):
    """As root with somebody else's HOME (`sudo -E`): nothing is read or made there, nor where their link leads."""
    needs("user:root")
    theirs, elsewhere = tmp_path / "theirs", tmp_path / "elsewhere"
    for folder in (theirs, elsewhere):
        folder.mkdir(mode=0o755)
    os.chown(theirs, NOBODY, NOBODY)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("HOME", str(theirs))
    assert cache.open_folder() is None
    assert list(theirs.iterdir()) == []
    os.mkfifo(theirs / ".cache")
    assert cache.open_folder() is None
    (theirs / ".cache").unlink()
    (theirs / ".cache").mkdir()
    (theirs / ".cache/pyebpf").mkdir(mode=0o700)  # root's own, of an earlier run
    assert cache.open_folder() is None
    (theirs / ".cache/pyebpf").rmdir()
    (theirs / ".cache").rmdir()
    (theirs / ".cache").symlink_to(elsewhere)
    assert cache.cached("test-1", "of-a-kernel", Builder()) == b"an index"
    assert list(elsewhere.iterdir()) == []


@pytest.mark.parametrize("spoil", ["owner", "group", "link", "fifo", "folder", "huge", "device"])
def test_an_entry_that_another_user_may_have_made_is_not_believed(home, spoil, monkeypatch):
    """Nor opened for long: a FIFO does not hold it up, a file of 6 GiB is not read."""
    needs("user:root")
    cache.cached("test-1", "of-a-kernel", Builder(b"theirs"))
    path = entry(home)
    match spoil:
        case "owner":
            os.chown(path, NOBODY, NOBODY)
        case "group":
            path.chmod(0o620)
        case "link":
            path.rename(home / "other")
            path.symlink_to(home / "other")
        case "fifo":
            path.unlink()
            os.mkfifo(path)
        case "folder":
            path.unlink()
            path.mkdir()
        case "huge":
            os.truncate(path, 6 << 30)
        case "device":
            path.unlink()
            os.mknod(path, 0o600 | stat.S_IFCHR, os.makedev(1, 5))  # /dev/zero
    build = Builder()
    assert cache.cached("test-1", "of-a-kernel", build) == b"an index"
    assert build.calls == 1
    if spoil != "folder":
        assert cache.cached("test-1", "of-a-kernel", build) == b"an index"
        assert build.calls == 1
        assert path.read_bytes().endswith(b"an index")
    if spoil == "link":
        assert (home / "other").read_bytes().endswith(b"theirs")


def test_what_a_killed_run_left_is_removed(home):
    """When something is written; what may be in the making stays."""
    home.mkdir(mode=0o700)
    old, new = home / ".new-old", home / ".new-new"
    old.write_bytes(b"half")
    new.write_bytes(b"half")
    os.utime(old, (1, 1))
    cache.cached("test-1", "of-a-kernel", Builder())
    assert sorted(path.name[:5] for path in home.iterdir()) == [".new-", "test-"]
    assert not old.exists()
    assert new.exists()
