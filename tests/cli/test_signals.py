"""The first SIGINT or SIGTERM ends a tool within a second, wherever it is."""

from __future__ import annotations

import fcntl
import mmap
import os
import signal
import subprocess
import sys
import termios
import time
from array import array
from pathlib import Path

import pytest

from pyebpf import stop as stop_module
from pyebpf.cli import signals as cli_signals
from pyebpf.cli.signals import Signals
from pyebpf.elf.budget import Budget
from pyebpf.elf.symbols import ElfSymbols
from pyebpf.symbols.process import Processes
from pyebpf.tool import Stop, events
from tests.support.python import ROOT
from tests.support.waiting import PATIENCE, wait_until
from tests.symbols.test_budgets import NULL, STRTAB, SYMBOL, SYMTAB, TEXT, write_elf

NUMBERS = [signal.SIGINT, signal.SIGTERM]
#: Seconds: the time limit of the tool, and what a shared processor may add.
LIMIT = 5


def stuck(process):
    """Wait until a process has filled the pipe of its output: it sleeps, and has used no time for a while."""
    last, since, deadline = None, time.monotonic(), time.monotonic() + PATIENCE
    while time.monotonic() - since < 0.5:
        assert time.monotonic() < deadline
        fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
        waits = array("i", [0])
        fcntl.ioctl(process.stdout, termios.FIONREAD, waits)  # while it starts it may sleep, too
        if (fields[0], fields[11:13]) != last or fields[0] != "S" or not waits[0]:
            last, since = (fields[0], fields[11:13]), time.monotonic()
        time.sleep(0.02)


def ended(process, number):
    """The status of a process that gets one signal, and how long it took."""
    before = time.monotonic()
    process.send_signal(number)
    return process.wait(PATIENCE), time.monotonic() - before


@pytest.mark.parametrize("number", NUMBERS)
@pytest.mark.parametrize("streams", ["data", "both"])
def test_an_output_that_nobody_reads(start, number, streams):
    """It detaches and ends by itself, also where its notes go into the same pipe."""
    options = {} if streams == "data" else {"stderr": subprocess.STDOUT}
    process = start("events", "--endless", **options)
    if streams == "data":
        process.stderr.readline()
    stuck(process)
    status, seconds = ended(process, number)
    assert status == 0
    assert seconds < LIMIT
    if streams == "data":
        err = process.stderr.read()
        assert "detached\n" in err
        assert err.endswith("The remaining output is lost: nobody reads it\n")


@pytest.mark.parametrize("number", NUMBERS)
def test_while_it_attaches(start, number):
    """There is no result yet: the signal ends the process itself."""
    process = start("events", "--fail", "stuck")
    assert process.stderr.readline() == "attaching\n"
    status, seconds = ended(process, number)
    assert status == -number
    assert seconds < LIMIT
    assert process.stderr.read() == ""


def test_more_events_than_can_be_printed(start, tmp_path):
    """What is printed within the time is whole lines; the rest is counted."""
    with (tmp_path / "out").open("w+") as out:
        process = start("events", "--records", "400000", stdout=out)
        wait_until(lambda: len((tmp_path / "out").read_bytes()) >= 1000)
        status, seconds = ended(process, signal.SIGTERM)
    assert status == 0
    assert seconds < LIMIT
    printed = len((tmp_path / "out").read_text().splitlines()) - 1
    err = process.stderr.read()
    assert f"Events not shown, since they were too many to print at the end: {400_000 - printed}\n" in err
    assert err.endswith("detached\n")


def test_a_search_for_a_symbol_is_given_up(monkeypatch):
    """The address stays without a name; the next look-up in that file does not search again, others do."""
    searches = []

    def endless(elf):
        searches.append(elf.path)
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            pass
        raise AssertionError("it was not given up")

    monkeypatch.setattr(ElfSymbols, "table", endless)
    handlers = {number: signal.getsignal(number) for number in (*NUMBERS, signal.SIGALRM)}
    try:
        with Stop() as stop, Signals() as both, both.obey(stop):
            os.kill(os.getpid(), signal.SIGTERM)
            assert stop.is_set()
            processes = Processes()
            address = libc_function()
            for _ in range(3):
                frame = processes.resolve(os.getpid(), address)
                assert (frame.name, "libc" in frame.module) == ("", True)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        for number, handler in handlers.items():
            signal.signal(number, handler)
    assert [("libc" in path) for path in searches].count(True) == 1


def files_with_names(folder, count, names):
    """So many different files of code, each with so many functions, mapped into this process: an address in each."""
    symbols = b"".join(SYMBOL.pack(1 + number % 1000, 2, 0, 1, 0x1000 + number, 1) for number in range(names))
    strings = b"\0" + b"n" * 2000 + b"\0"
    at = 8192 + len(symbols)
    sections = [NULL, TEXT, (0, SYMTAB, 0, 0, 8192, len(symbols), 3, 0), (0, STRTAB, 0, 0, at, len(strings), 0, 0)]
    found = []
    for number in range(count):
        path = write_elf(folder / f"code{number}", sections, {8192: symbols, at: strings}, names=3)
        with path.open("rb") as file:
            mapped = mmap.mmap(file.fileno(), 8192, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ | mmap.PROT_EXEC)
        found.append(mapped)
    lines = [line.split() for line in Path("/proc/self/maps").read_text().splitlines() if str(folder) in line]
    assert len(lines) == count
    return found, [int(line[0].split("-")[0], 16) + 0x1000 for line in lines]


def test_names_of_very_many_files(tmp_path):
    """After the signal files are read for less than a second, all of them together; the others keep their own names."""
    mapped, addresses = files_with_names(tmp_path, 1009, 4001)
    handlers = {number: signal.getsignal(number) for number in (*NUMBERS, signal.SIGALRM)}
    try:
        with Stop() as stop, Signals() as both, both.obey(stop):
            processes = Processes()
            processes.see(os.getpid())
            processes.hurry(stop.patience)
            frames = [processes.resolve(os.getpid(), address) for address in addresses[:5]]
            assert all(frame.name for frame in frames)
            os.kill(os.getpid(), signal.SIGTERM)
            start = time.process_time()
            frames = [processes.resolve(os.getpid(), address) for address in addresses]
            seconds = time.process_time() - start
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        for number, handler in handlers.items():
            signal.signal(number, handler)
        for each in mapped:
            each.close()
    assert seconds < 1
    named = [bool(frame.name) for frame in frames]
    assert 5 < named.count(True) < len(frames)
    assert named == sorted(named, reverse=True)
    assert all(frame.module.startswith(str(tmp_path)) for frame in frames)
    assert len(processes.given_up) == named.count(False)
    assert all("-d SECONDS" in reason for reason in processes.given_up.values())


def test_a_busy_machine_is_no_reason_to_last_longer(tmp_path, monkeypatch):
    """The limit is one by the clock, too: also for a file whose reading began before the signal."""
    mapped, addresses = files_with_names(tmp_path, 2, 5003)
    monkeypatch.setattr(stop_module, "process_time", lambda: 0.0)
    now = time.monotonic()
    monkeypatch.setattr(stop_module, "monotonic", lambda: now)
    with Stop() as stop:
        processes = Processes()
        processes.see(os.getpid())
        processes.hurry(stop.patience)
        stop.set()
        assert processes.resolve(os.getpid(), addresses[0]).name
        assert not stop.is_overdue()
        clock = Budget.clock

        def later(budget, number=0):
            nonlocal now
            now += 0.3
            clock(budget, number)

        monkeypatch.setattr(Budget, "clock", later)
        frame = processes.resolve(os.getpid(), addresses[1])
        assert (frame.name, frame.module.startswith(str(tmp_path))) == ("", True)
        assert stop.is_overdue()
    for each in mapped:
        each.close()
    (reason,) = processes.given_up.values()
    assert reason.startswith(f"{frame.module}: the run was interrupted before it was read")


@pytest.mark.parametrize(("there", "unread"), [(4096, 0), (4097, 1), (10_000, 5904)])
def test_a_slow_machine_shows_what_is_there(monkeypatch, there, unread):
    """Where every record takes longer than the end may, some thousands are given all the same."""
    now = 0.0
    monkeypatch.setattr(stop_module, "monotonic", lambda: now)
    batches = [range(there)]

    class Source:
        def fileno(self):
            return -1

        def poll(self, _timeout):
            return batches.pop() if batches else []

    with Stop() as stop:
        stop.set()
        given = 0
        for _ in events(Source(), stop):
            given += 1
            now += 1.0
        assert (given, stop.unread) == (there - unread, unread)


def test_a_process_with_very_many_files(tmp_path):
    """Looking at it for the first time, after the signal, costs less than a second, too."""
    mapped, addresses = files_with_names(tmp_path, 1009, 11)
    with Stop() as stop:
        processes = Processes()
        processes.hurry(stop.patience)
        stop.set()
        start = time.process_time()
        frames = [processes.resolve(os.getpid(), address) for address in addresses]
        assert time.process_time() - start < 1
    for each in mapped:
        each.close()
    assert all(frame.module.startswith(str(tmp_path)) for frame in frames)


def libc_function():
    """An address in this process's C library."""
    (line,) = [
        line for line in Path("/proc/self/maps").read_text().splitlines() if " r-xp " in line and "/libc.so" in line
    ]
    return int(line.split("-")[0], 16) + 4096


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("size", [4096, 65_536])
def test_an_output_that_is_slow_but_read(start, monkeypatch, size, unbuffered):
    """A reader that takes its time, and goes on, gets all: the last lines and the end, however small the pipe."""
    monkeypatch.setenv("PYTHONUNBUFFERED", unbuffered)
    process = start("events", "--records", "3000")
    fcntl.fcntl(process.stdout, fcntl.F_SETPIPE_SZ, size)
    process.stderr.readline()
    stuck(process)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0
    assert len(out.splitlines()) == 3001
    assert err == "detached\n"


def test_patience_is_less_than_a_second():
    """Whatever is waited for, it is given up before the second is over."""
    assert cli_signals.BLOCKED * cli_signals.TICK <= 0.31  # detaching takes half a second more
    assert cli_signals.SEARCH + 2 * cli_signals.TICK < 1


FIRST_SIGNAL = """
import os, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # who started the tests may ignore it
class Interrupting:
    def find_spec(self, name, path=None, target=None):
        if name == module:
            os.kill(os.getpid(), signal.SIGINT)
_, module, *sys.argv[1:] = sys.argv
sys.modules.pop(module, None)  # a .pth file may have imported it
sys.meta_path.insert(0, Interrupting())
import runpy
runpy.run_module("pyebpf", run_name="__main__")
"""


@pytest.mark.parametrize(
    ("module", "command", "status"),
    [
        ("typing", "--version", -signal.SIGINT),
        ("pyebpf.cli", "opensnoop", -signal.SIGINT),
        ("pyebpf.cli", "doctor", -signal.SIGINT),
        ("pyebpf.cli.report", "doctor", 130),
        ("pyebpf.cli.run", "opensnoop", -signal.SIGINT),
    ],
)
def test_ctrl_c_before_the_command_is_there(module, command, status):
    """While the first module of its own is imported, too: not a word."""
    done = subprocess.run(
        [sys.executable, "-c", FIRST_SIGNAL, module, command],
        check=False, timeout=PATIENCE, capture_output=True, text=True, cwd=ROOT,
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (status, "", "")


def test_out_of_memory_is_one_line(command):
    """It says so, and is not an error of the program."""
    status, out, err = command("events", "--fail", "memory")
    assert (status, out) == (1, "")
    assert err.startswith("pyebpf events: there is not enough memory: raise the limit (ulimit -v")
    assert len(err.splitlines()) == 1
