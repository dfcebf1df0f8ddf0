"""Paths of groups of processes: directories by their inodes, in every hierarchy."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyebpf.symbols import cgroups

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def test_a_group_is_found_by_the_number_of_its_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In hierarchies whose names match; the root is a slash."""
    unified, cpu = tmp_path / "two", tmp_path / "cpu"
    inner = unified / "system.slice" / "a.service"
    inner.mkdir(parents=True)
    cpu.mkdir()
    mounts = [("tmpfs", "/"), ("cgroup", str(cpu)), ("cgroup2", str(unified))]
    monkeypatch.setattr(cgroups, "mount_points", lambda: mounts)
    number = inner.stat().st_ino
    assert cgroups.paths(number) == [("unified", "/system.slice/a.service")]
    assert cgroups.paths(number, "cpu*") == []
    assert cgroups.paths(cpu.stat().st_ino) == [("cpu", "/")]
    assert cgroups.paths(0) == []


def test_hierarchies_are_sorted_by_name_behind_the_unified_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In whatever order they are mounted; here all are one directory."""
    places = [tmp_path / name for name in ("pids", "cpu", "unified", "blkio")]
    (tmp_path / "one").mkdir()
    for place in places:
        place.symlink_to(tmp_path / "one")
    mounts = [("cgroup2" if each.name == "unified" else "cgroup", str(each)) for each in places]
    monkeypatch.setattr(cgroups, "mount_points", lambda: mounts)
    found = cgroups.paths((tmp_path / "one").stat().st_ino)
    assert found == [(name, "/") for name in ("unified", "blkio", "cpu", "pids")]
