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
