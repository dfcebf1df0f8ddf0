"""Options that name what may not be there: processes, threads, processors, of this machine."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading

import pytest

from pyebpf.cli.catalogue import find, names
from pyebpf.dataclass import fields
from pyebpf.errors import NotFound
from pyebpf.kernel import processes
from pyebpf.kernel.processes import missing_reason

#: Above every id that a kernel gives by default: sysctl kernel.pid_max.
NOBODY = (1 << 22) - 1


@pytest.fixture
def ended():
    """A process that has ended, whose parent has not noticed."""
    with subprocess.Popen(["true"], stdout=subprocess.PIPE) as process:
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        yield process.pid


@contextlib.contextmanager
def other_thread():
    """The id of a thread of this process that is not its first."""
    begin, end, ids = threading.Event(), threading.Event(), []

    def work():
        ids.append(threading.get_native_id())
        begin.set()
        end.wait()

    thread = threading.Thread(target=work)
    thread.start()
    begin.wait()
    yield ids[0]
    end.set()
    thread.join()


def test_what_is_there(monkeypatch, tmp_path):
    """Processes of any user, threads, processors that are online."""
    assert [missing_reason("process", pid) for pid in (1, os.getpid())] == ["", ""]
    with other_thread() as tid:
        assert missing_reason("thread", tid) == ""
    monkeypatch.setattr(processes, "PROCESSORS", str(tmp_path / "online"))
    (tmp_path / "online").write_text("0,2-3,7\n")
    assert [number for number in range(9) if not missing_reason("processor", number)] == [0, 2, 3, 7]
    assert missing_reason("processor", 1) == "processor 1 is not online, only 0,2-3,7"


def test_disks(monkeypatch, tmp_path):
    """Whole ones, whose names requests have; one with a slash in its name. Where sysfs is not there nothing is said."""
    monkeypatch.setattr(processes, "DISKS", str(tmp_path))
    for path in ("sda/sda1", "cciss!c0d0", "loop0"):
        (tmp_path / path).mkdir(parents=True)
    assert [missing_reason("disk", name) for name in ("sda", "cciss/c0d0", "loop0")] == ["", "", ""]
    assert missing_reason("disk", "sda1") == "sda1 is a partition of sda, whose name its requests have"
    assert missing_reason("disk", "sdb") == "there is no disk sdb (did you mean sda?)"
    monkeypatch.setattr(processes, "DISKS", str(tmp_path / "none"))
    assert missing_reason("disk", "sdb") == ""


def test_what_is_not_there(ended):
    """What the number is instead is said, too."""
    assert missing_reason("process", NOBODY) == f"there is no process {NOBODY}"
    assert missing_reason("thread", NOBODY) == f"there is no thread {NOBODY}"
    assert missing_reason("process", ended) == f"process {ended} has ended"
    assert missing_reason("thread", ended) == f"thread {ended} has ended"
    with other_thread() as tid:
        assert missing_reason("process", tid) == f"{tid} is a thread of process {os.getpid()}"


def test_what_the_machine_does_not_tell(monkeypatch):
    """Nothing is refused for it."""
    monkeypatch.setattr(processes, "PROCESSORS", "/nonexistent")
    assert missing_reason("processor", 8191) == ""


NAMED = {
    (name, field.name): field.metadata["spec"].names
    for name in names()
    for field in fields(find(name).options)
    if field.metadata["spec"].names
}


def test_every_number_of_such_a_thing_is_looked_at():
    """Each option `--pid`, `--ppid`, `--tid`, `--cpu` or `--disk` of any tool."""
    kinds = {"--pid": "process", "--ppid": "process", "--tid": "thread", "--cpu": "processor", "--disk": "disk"}
    meant = {
        (name, field.name): kinds[field.metadata["spec"].flags[-1]]
        for name in names()
        for field in fields(find(name).options)
        if field.metadata["spec"].flags[-1:] in {(flag,) for flag in kinds}
    }
    assert meant == NAMED
    assert len(meant) >= 9


@pytest.mark.parametrize(("name", "field"), NAMED)
def test_a_tool_refuses_to_wait_for_what_is_not_there(name, field):
    """As a library and as a command, before anything is loaded; its bytecode can be had."""
    tool, number = find(name), {"processor": 8191, "disk": "nosuch"}.get(NAMED[name, field], NOBODY)
    pattern = ["vfs_*"] if name in ("funccount", "funclatency", "funcslower", "stackcount") else []
    with pytest.raises(NotFound, match=rf"^--\w+: .*{number}"), tool.open(*pattern, **{field: number}):
        pass
    command = [sys.executable, "-m", "pyebpf", name, *pattern, f"--{field}", str(number)]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"pyebpf {name}: --{field}: ")
    assert done.stderr.count("\n") == 1


def test_a_thread_of_another_process():
    """Both are there, but there will never be an event of both."""
    tool = find("opensnoop")
    options = tool.options(pid=os.getpid(), tid=threading.get_native_id())
    tool.check_exists(tool.build(options), options)
    options = tool.options(pid=1, tid=os.getpid())
    with pytest.raises(NotFound, match=rf"^--tid: thread {os.getpid()} is of process {os.getpid()}, not of 1$"):
        tool.check_exists(tool.build(options), options)
    tool = find("offcputime")
    options = tool.options(pid=(os.getpid(), 1), tid=threading.get_native_id())
    tool.check_exists(tool.build(options), options)
    options = tool.options(pid=(os.getppid(), 1), tid=(os.getpid(),))
    with pytest.raises(NotFound, match=rf"of process {os.getpid()}, not of {os.getppid()} or 1$"):
        tool.check_exists(tool.build(options), options)


def test_the_doctor_says_so():
    """That it would not run with these options."""
    command = [sys.executable, "-m", "pyebpf", "doctor", "opensnoop", "-p", str(NOBODY)]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (1, "")
    assert done.stdout == f"opensnoop does not run here: --pid: there is no process {NOBODY}\n"
