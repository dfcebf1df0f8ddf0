"""`pyebpf flamegraph`: folded stacks from files and standard input as a picture, and the difference of two."""

from __future__ import annotations

import io
import sys
from xml.etree import ElementTree as ET

import pytest

from pyebpf.cli import main
from pyebpf.output.flamegraph import difference_graph, flame_graph
from tests.recording.samples import recording

BEFORE, AFTER = "app;main 3\napp;main;work 1\n", "app;main 8\n"


@pytest.fixture
def files(tmp_path):
    for name, text in (("a", BEFORE), ("b", AFTER)):
        (tmp_path / name).write_text(text)
    return str(tmp_path / "a"), str(tmp_path / "b")


def standard_input(monkeypatch, data):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))


def test_a_file(files, tmp_path, capsys):
    """The picture of the library, with the file's name as its title, or as options say."""
    out = tmp_path / "out.svg"
    assert main(["flamegraph", files[0], "-o", str(out)]) == 0
    stacks = {("app", "main"): 3, ("app", "main", "work"): 1}
    assert out.read_text() == flame_graph(stacks, title="a")
    assert main(["flamegraph", files[0], "-i", "-t", "Time", "-u", "us"]) == 0
    assert capsys.readouterr() == (flame_graph(stacks, title="Time", unit="us", inverted=True), "")


def test_the_colours(files, capsys):
    """-p chooses them for one file; of two they are the difference."""
    assert main(["flamegraph", files[0], "-p", "off-cpu"]) == 0
    stacks = {("app", "main"): 3, ("app", "main", "work"): 1}
    assert (
        capsys.readouterr().out == flame_graph(stacks, title="a", palette="off-cpu") != flame_graph(stacks, title="a")
    )
    assert main(["flamegraph", *files, "-p", "off-cpu"]) == 2
    assert "--palette is for one file" in capsys.readouterr().err


def test_the_difference_of_two(files, capsys):
    """The first is before, the second after."""
    assert main(["flamegraph", *files]) == 0
    stacks = {("app", "main"): 3, ("app", "main", "work"): 1}
    assert capsys.readouterr().out == difference_graph(stacks, {("app", "main"): 8}, title="b, compared with a")


def test_programs_of_two_names(tmp_path, capsys):
    """--no-comm compares what they do; a stack that is a name alone keeps it."""
    files = []
    for name, text in (("a", "old;main;work 3\nold;main 1\nidle 2\n"), ("b", "new;main;work 8\n")):
        (tmp_path / name).write_text(text)
        files.append(str(tmp_path / name))
    assert main(["flamegraph", "--no-comm", *files]) == 0
    before, after = {("main", "work"): 3, ("main",): 1, ("idle",): 2}, {("main", "work"): 8}
    assert capsys.readouterr().out == difference_graph(before, after, title="b, compared with a")
    assert main(["flamegraph", "--no-comm", files[0]]) == 0
    assert capsys.readouterr().out == flame_graph(before, title="a")


def test_standard_input(files, monkeypatch, capsys):
    """By default, and as `-` in place of either file; bytes that are no text become escapes."""
    standard_input(monkeypatch, b"app;caf\xe9 2\n")
    assert main(["flamegraph"]) == 0
    (name,) = [g.get("data-name") for g in ET.fromstring(capsys.readouterr().out).iter() if g.get("data-depth") == "2"]
    assert name == "caf\\xe9"
    standard_input(monkeypatch, AFTER.encode())
    assert main(["flamegraph", files[0], "-"]) == 0
    assert "before: 4 samples, 100.00%; after: 8 samples, 100.00%" in capsys.readouterr().out


def test_a_recording(tmp_path, monkeypatch, capsys):
    """It is called one, with the command that draws it."""
    path = tmp_path / "cpu.rec"
    path.write_bytes(recording("stacks"))
    assert main(["flamegraph", str(path)]) == 1
    told = f"{path}: this is a recording, and flamegraph draws folded stacks: write `pyebpf show RECORDING --svg FILE`"
    assert told in capsys.readouterr().err
    standard_input(monkeypatch, path.read_bytes())
    assert main(["flamegraph"]) == 1
    assert "<stdin>: this is a recording" in capsys.readouterr().err


def test_the_file_that_is_read_is_not_the_output(files, tmp_path, capsys):
    """Not by another name either: flame graphs and what a recording becomes would take its place."""
    recorded, link = tmp_path / "cpu.rec", tmp_path / "link"
    recorded.write_bytes(recording("stacks"))
    link.hardlink_to(recorded)
    for arguments in (
        ["flamegraph", *files, "-o", files[1]],
        ["show", str(recorded), "--svg", str(recorded)],
        ["show", str(recorded), "--svg", str(link)],
    ):
        assert main(arguments) == 1
        assert f"{arguments[-1]} is the file that is read: the output needs another name" in capsys.readouterr().err
    assert recorded.read_bytes() == recording("stacks")
    assert (tmp_path / "b").read_text() == AFTER


def test_a_closed_standard_input(monkeypatch, capsys):
    """It is wrong usage, not an internal error."""
    monkeypatch.setattr(sys, "stdin", None)
    assert main(["flamegraph"]) == 2
    assert "standard input is closed: name a file" in capsys.readouterr().err


def test_what_is_refused(files, tmp_path, capsys):
    """Lines that are none, files that are not there or cannot be written, and three of them."""
    (tmp_path / "bad").write_text("app;main 3\napp;main\n")
    bad, missing = str(tmp_path / "bad"), str(tmp_path / "missing")
    for arguments, status, text in (
        ([bad], 1, f"{bad}: line 2 is not a folded stack"),
        ([missing], 1, f"{missing} cannot be read: No such file or directory"),
        ([files[0], "-o", str(tmp_path)], 1, "it is a directory"),
        ([*files, bad], 2, "give one file, or two to compare"),
        (["-", "-"], 2, "standard input can be one of the files, not both"),
    ):
        assert main(["flamegraph", *arguments]) == status
        out, err = capsys.readouterr()
        assert (out, text in err) == ("", True), err
