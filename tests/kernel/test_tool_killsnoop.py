"""killsnoop: signals that a process sends, and what the kernel answered it."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from pyebpf import errno_name
from pyebpf.programs import killsnoop
from tests.support.command import running

#: tkill(2), which the C library has no function for.
TKILL = {"x86_64": 200, "aarch64": 130}[os.uname().machine]
LIBC = ctypes.CDLL(None, use_errno=True)


@pytest.fixture
def child():
    """A process that waits."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        yield process.pid
        process.kill()


def send(call, *arguments):
    """Call so, and tell the error's name, None if there is none."""
    ctypes.set_errno(0)
    return errno_name(ctypes.get_errno()) if call(*arguments) else None


@pytest.fixture
def sent(child):
    """Signals, each sent once when it is called: the number, the target and the answer."""

    def act():
        calls = [
            (LIBC.kill, child, signal.SIGSTOP),
            (LIBC.kill, child, 0),
            (LIBC.kill, -child, signal.SIGCONT),
            (LIBC.kill, 1 << 22, signal.SIGTERM),
            (LIBC.kill, child, 99),
            (LIBC.tgkill, child, child, signal.SIGCONT),
            (LIBC.tgkill, os.getpid(), child, signal.SIGCONT),
            (LIBC.syscall, TKILL, child, signal.SIGCONT),
            (LIBC.kill, child, signal.SIGRTMIN + 2),
        ]
        return [(number, target, send(call, *more, target, number)) for call, *more, target, number in calls]

    return act


def test_each_signal(sent):
    """The number, name and target of each, and the error's name, as text and as JSON."""
    ours = ("killsnoop", "-p", str(os.getpid()))
    with running(*ours, "--json") as objects, running(*ours) as text, running(*ours, "-n") as by_name:
        made = sent()
        for tool in (objects, text, by_name):
            tool.stop()
    assert [error for *_, error in made] == [None, None, "ESRCH", "ESRCH", "EINVAL", None, "ESRCH", None, None]
    found = objects.objects()[: len(made)]
    assert [(each["target_pid"], each["error"]) for each in found] == [each[1:] for each in made]
    names = ["SIGSTOP", "0", "SIGCONT", "SIGTERM", "99", "SIGCONT", "SIGCONT", "SIGCONT", "SIGRTMIN+2"]
    assert [each["signal"] for each in found] == names
    assert {each["pid"] for each in found} == {os.getpid()}
    heading, *lines = text.out.splitlines()
    assert heading.split() == ["PID", "COMM", "SIG", "TPID", "TCOMM", "RESULT"]
    assert [[*line.split()[-4:-2], line.split()[-1]] for line in lines[: len(made)]] == [
        [str(int(number)), str(target), error or "Success"] for number, target, error in made
    ]
    assert [line.split()[-4] for line in by_name.out.splitlines()[1 : len(made) + 1]] == names


def test_the_name_of_the_target(sent, child):
    """That of the thread which got the signal, also if it ends by it; none if none got it, or only asked."""
    name = Path(f"/proc/{child}/comm").read_text().strip()
    with killsnoop.open(pid=os.getpid()) as kills:
        made = sent()
        os.kill(child, signal.SIGKILL)
        found = [each.target_comm for each in kills.poll(1)]
    assert found == [name if number and not error else None for number, _, error in made] + [name]


def test_a_name_belongs_to_one_call(child):
    """A call that fails has no name, although one just before it, which -x leaves out, has sent a signal."""
    with killsnoop.open(pid=os.getpid(), failed=True) as kills:
        send(LIBC.kill, child, signal.SIGCONT)
        send(LIBC.kill, 1 << 22, signal.SIGCONT)
        found = [(each.error, each.target_comm) for each in kills.poll(1)]
    assert found == [("ESRCH", None)]


def test_kill_alone(sent):
    """-k leaves out the calls that name a thread."""
    with killsnoop.open(pid=os.getpid(), kill_only=True) as kills:
        made = sent()
        found = [(each.number, each.target, each.error) for each in kills.poll(1)]
    assert found == [*made[:5], made[8]]


def test_filters(sent, child):
    """By signals, by target, and what failed."""
    mine = {"pid": os.getpid()}
    with (
        killsnoop.open(signals=(signal.SIGSTOP, signal.SIGTERM), **mine) as two,
        killsnoop.open(target=child, failed=True, **mine) as to_child,
    ):
        made = sent()
        found = [[(each.number, each.target, each.error) for each in tool.poll(1)] for tool in (two, to_child)]
    assert found[0] == [made[0], made[3]]
    assert found[1] == [each for each in made if each[1] == child and each[2]]


def test_a_thread_of_its_own():
    """pthread_kill(3) names a thread, and TID is the sender's."""
    before = signal.signal(signal.SIGUSR1, lambda *_: None)
    main = threading.main_thread().ident
    sender = threading.Thread(target=lambda: signal.pthread_kill(main, signal.SIGUSR1))
    try:
        with killsnoop.open(pid=os.getpid()) as kills:
            sender.start()
            kill = next(kills)
            sender.join()
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert (kill.signal, kill.target, kill.tid) == ("SIGUSR1", os.getpid(), sender.native_id)
