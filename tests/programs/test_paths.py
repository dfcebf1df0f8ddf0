"""Paths in a file system, as they are where that is mounted."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pyebpf.programs import _paths

MOUNTINFO = r"""22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
30 22 0:27 / /tmp rw shared:9 - tmpfs none rw
31 22 8:17 / /srv/two\040words rw - xfs /dev/sdb1 rw
32 22 8:17 /inner /mnt/part rw - xfs /dev/sdb1 rw
33 22 8:17 / /again rw - xfs /dev/sdb1 rw
34 22 0:40 /volume /data rw - btrfs /dev/sdc rw
"""


@pytest.mark.parametrize(
    ("device", "path", "found"),
    [
        ((8, 1), "/etc/passwd", "/etc/passwd"),
        ((0, 27), "/a/b", "/tmp/a/b"),
        ((8, 17), "/file", "/srv/two words/file"),
        ((8, 17), "/inner/file", "/mnt/part/file"),
        ((8, 17), "/innermost/file", "/srv/two words/innermost/file"),
        ((0, 40), "/volume/a", "/data/a"),
        ((0, 40), "/other/a", "/other/a"),
        ((9, 9), "/a", "/a"),
    ],
)
def test_where_it_is_mounted(monkeypatch, device, path, found):
    """Below the mount point, the one with the least of the file system; as it is where there is none."""
    monkeypatch.setattr(_paths.Path, "read_text", lambda *_, **__: MOUNTINFO)
    major, minor = device
    assert _paths.mounted(major << 20 | minor, path) == found


def test_this_machine():
    """/proc is where it is, by the number that stat(2) has."""
    number = Path("/proc").stat().st_dev
    device = os.major(number) << 20 | os.minor(number)
    assert Path(_paths.mounted(device, "/self")).samefile("/proc/self")
