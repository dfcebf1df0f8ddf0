"""Files of a recording that is written: those that others put in their place meanwhile stay theirs."""

from __future__ import annotations

import os

import pytest

from pyebpf.recording.writer import SMALLEST, Writer

#: Entries that do not compress, of more than one half of the smallest size.
ENTRIES = SMALLEST // 1000


def fill(writer, halves):
    """Write so many halves of the recording, at least."""
    for _ in range(halves):
        for _ in range(ENTRIES):
            writer.add(["event", 0, os.urandom(700).hex()])
        writer.flush()


def test_two_files_take_turns(tmp_path):
    """The older one is in place of the one before."""
    said = []
    writer = Writer(str(tmp_path / "x"), {"tool": "x"}, said.append, size=SMALLEST)
    fill(writer, 6)
    writer.close()
    assert said == []
    assert sorted(path.name for path in tmp_path.iterdir()) == ["x", "x.1"]


@pytest.mark.parametrize("name", ["x", "x.1"])
def test_a_file_of_somebody_else_is_not_replaced(tmp_path, name):
    """The recording ends, in one line that names it."""
    said = []
    path = tmp_path / name
    writer = Writer(str(tmp_path / "x"), {"tool": "x"}, said.append, size=SMALLEST)
    fill(writer, 3)
    path.rename(tmp_path / "moved")
    path.write_text("mine")
    fill(writer, 3)
    writer.close()
    (line,) = said
    assert line == f"{tmp_path / 'x'}: the recording ends here: {path} is another file by now"
    assert path.read_text() == "mine"


def test_a_file_that_is_gone_ends_the_recording(tmp_path):
    """Nothing takes its place."""
    said = []
    writer = Writer(str(tmp_path / "x"), {"tool": "x"}, said.append, size=SMALLEST)
    fill(writer, 1)
    (tmp_path / "x").unlink()
    fill(writer, 3)
    writer.close()
    assert len(said) == 1
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize("is_replaced", [True, False])
def test_a_file_that_another_recorder_has_replaced(tmp_path, is_replaced):
    """Who recorded into the first one is told at the end that it is gone."""
    first, second = [], []
    path = tmp_path / "x"
    writer = Writer(str(path), {"tool": "x"}, first.append)
    if is_replaced:
        Writer(str(path), {"tool": "x"}, second.append, overwrite=True).close()
    else:
        path.unlink()
    writer.close()
    told = "another file has taken its place, as --overwrite" if is_replaced else "was removed or renamed meanwhile"
    assert (len(first), told in first[0], second) == (1, True, [])
