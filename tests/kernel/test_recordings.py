"""--record with the real tools: `pyebpf show` prints what they printed, whatever ended them."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import tempfile
import time
from pathlib import Path

import pytest

from pyebpf.cli.report import guarded
from pyebpf.cli.show import run_show
from pyebpf.recording.recording import open_recording
from tests.support.command import running
from tests.support.needs import needs
from tests.support.waiting import wait_until

CALLS = 23
NOBODY = 65534


def work(path):
    """Programs that start, files that are opened, requests that go to no disk but the page cache."""
    subprocess.run(["/bin/true", "an argument"], check=True)
    for _ in range(CALLS):
        path.read_bytes()


def show(capsys, path, *arguments):
    """`pyebpf show` in this process: status, standard output, standard error."""
    capsys.readouterr()
    status = guarded(run_show, [str(path), *arguments])
    return status, *capsys.readouterr()


@pytest.mark.parametrize(
    "command",
    [
        *("execsnoop", "execsnoop --json", "opensnoop -T", "opensnoop --csv", "syscount", "syscount --json"),
        *("biosnoop", "biolatency -D", "biotop", "profile", "profile --folded"),
    ],
)
def test_show_prints_what_the_tool_printed(tmp_path, capsys, command):
    """A line an event, a table, histograms, a screen, stacks; and so do JSON and the text of a recording of JSON."""
    if command.startswith("execsnoop"):
        needs("attach:tp_btf")
    path = tmp_path / "file.rec"
    with running(*command.split(), "--record", str(path)) as tool:
        work(path)
        tool.stop()
    assert show(capsys, path)[:2] == (0, tool.out)
    for form in ("--json", "--csv", "--text"):
        status, out, _ = show(capsys, path, form)
        assert status == 0
        assert form != "--json" or all("time" in json.loads(line) for line in out.splitlines())


def test_records_of_a_known_workload(tmp_path, capsys):
    """Each is there, as Python sees them and behind a condition."""
    path, mine = tmp_path / "file.rec", str(os.getpid())
    with running("opensnoop", "-p", mine, "--record", str(path)) as tool:
        for _ in range(CALLS):
            (tmp_path / "nothing").exists()
            with contextlib.suppress(FileNotFoundError):
                (tmp_path / "nothing").read_bytes()
        tool.stop()
    found = [each for each in open_recording(str(path)) if each.path == str(tmp_path / "nothing")]
    assert [(each.pid, each.error) for each in found] == [(os.getpid(), "ENOENT")] * CALLS
    _, out, _ = show(capsys, path, "--json", "--where", f"pid == {mine}", "--where", "path ~ /nothing")
    assert len(out.splitlines()) == CALLS


def test_an_ordinary_user_is_shown_it(capsys):
    """Without root, and without anything of the kernel's."""
    needs("user:root")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "file.rec"
        with running("syscount", "--record", str(path)) as tool:
            work(path)
            tool.stop()
        Path(folder).chmod(0o755)
        assert show(capsys, path)[1] == tool.out  # with that all is imported, wherever it lies
        os.seteuid(NOBODY)
        try:
            with pytest.raises(PermissionError):
                Path("/proc/1/environ").read_bytes()
            assert show(capsys, path)[:2] == (0, tool.out)
        finally:
            os.seteuid(0)


def test_sigkill_and_a_file_cut_short(tmp_path, capsys):
    """The events of more than a second before are there; of half a file those before its damage, whose byte is told."""
    path, mine = tmp_path / "file.rec", str(os.getpid())
    with running("opensnoop", "-p", mine, "--record", str(path)) as tool:
        for _ in range(2):
            for _ in range(CALLS):
                path.read_bytes()
            time.sleep(1.2)
        wait_until(lambda: tool.out.count("file.rec") == 2 * CALLS)
        time.sleep(1.5)
        tool.process.send_signal(signal.SIGKILL)
        tool.process.wait()
    status, out, err = show(capsys, path)
    assert (status, out) == (0, tool.out)
    assert "the tool was killed" in err
    data = path.read_bytes()
    path.write_bytes(data[:-7])
    status, out, err = show(capsys, path)
    assert status == 1
    assert "the file was cut short within a block (byte " in err
    assert tool.out.startswith(out)
    assert out.count("file.rec") >= CALLS


def test_a_full_disk(tmp_path, capsys):
    """One line; the tool goes on to print, and the recording has what fitted."""
    needs("user:root")
    folder = tmp_path / "disk"
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8k", "tmpfs", str(folder)], check=True)
    try:
        path, mine = folder / "file.rec", str(os.getpid())
        with running("opensnoop", "-p", mine, "--record", str(path)) as tool:
            for number in range(2503):
                with contextlib.suppress(FileNotFoundError):
                    (tmp_path / f"{number * 0x9E3779B97F4A7C15:x}").read_bytes()
            wait_until(lambda: "No space left on device" in tool.err, lambda: tool.err)
            (tmp_path / "later").write_bytes(b"")
            wait_until(lambda: "later" in tool.out)
            tool.stop()
        assert tool.err.count(f"{path}: the recording ends here: No space left on device\n") == 1
        status, out, _ = show(capsys, path)
        assert status == 0
        assert tool.out.startswith(out)
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def test_rotation(tmp_path, capsys):
    """The last events are there, in two files that together are as small as was asked."""
    path, mine = tmp_path / "file.rec", str(os.getpid())
    with running("opensnoop", "-p", mine, "--buffer", "16M", "--record", str(path), "--record-size", "64K") as tool:
        for number in range(5003):
            with contextlib.suppress(FileNotFoundError):
                (tmp_path / f"{number * 0x9E3779B97F4A7C15:x}").read_bytes()
        wait_until(lambda: f"{5002 * 0x9E3779B97F4A7C15:x}" in tool.out)
        tool.stop()
    halves = [path.with_name("file.rec.1"), path]
    assert sum(half.stat().st_size for half in halves) <= 64 << 10
    _, *lines = show(capsys, path)[1].splitlines()
    assert len(lines) > 500
    assert tool.out.endswith("\n".join([*lines, ""]))
