"""The files of docs/examples do what they say, with workloads of known size."""

from __future__ import annotations

import contextlib
import os
import re
import runpy
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest

from tests.support.needs import needs
from tests.support.python import ROOT, finished, python
from tests.support.waiting import PATIENCE

EXAMPLES = ROOT / "docs" / "examples"


def child(name, script):
    """Run a script to its end in a process of that name."""
    script = f"import os, time\nopen('/proc/self/comm', 'w').write({name!r})\n{script}"
    return subprocess.run([sys.executable, "-c", script], check=False, timeout=PATIENCE)


@pytest.fixture
def during_sleep(monkeypatch, capsys):
    """Run an example whose sleep is replaced by a workload; what it printed."""

    def run(name, workload):
        def work(_):
            monkeypatch.undo()  # subprocess sleeps, too
            workload()

        monkeypatch.setattr(time, "sleep", work)
        runpy.run_path(str(EXAMPLES / name), run_name="__main__")
        return capsys.readouterr().out

    return run


@contextlib.contextmanager
def started(name, first):
    """An example as a process, once its first line is there."""
    with python(EXAMPLES / name, stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
        try:
            assert process.stdout.readline().startswith(first)
            yield process
        finally:
            process.kill()


def test_opens(during_sleep):
    """23 opens of a process stand under its name."""
    out = during_sleep(
        "opens.py", lambda: child("opens-23", "for _ in range(23): os.close(os.open('/dev/null', os.O_RDONLY))")
    )
    assert re.findall(r"^opens-23 +(\d+)$", out, re.MULTILINE) == ["23"]


def test_read_sizes(during_sleep):
    """17 reads of 1,000 bytes and 3 that failed, under the name of their process."""
    script = (
        "file = os.open('/dev/zero', os.O_RDONLY)\n"
        "for _ in range(17): os.read(file, 1000)\n"
        "for _ in range(3):\n"
        "    try: os.read(999, 1)\n"
        "    except OSError: pass\n"
    )
    out = during_sleep("read_sizes.py", lambda: child("reads-17", script))
    (block,) = [block for block in out.split("\n\n") if "process = 'reads-17'" in block]
    assert re.search(r"^ +512 -> 1023 +: 17 ", block, re.MULTILINE)
    assert block.rstrip().endswith("failed: 3")


def test_busy(during_sleep):
    """A process that does nothing but count is seen 99 times a second, or as often as it got a processor."""
    script = "end = time.process_time() + 1\nwhile time.process_time() < end: pass"
    before = time.monotonic()
    out = during_sleep("busy.py", lambda: child("busy-1s", script))
    most = 1.1 * 99 * (time.monotonic() - before)
    samples = sum(int(count) for count in re.findall(r"^ *(\d+) CPU \d+ +\d+ busy-1s$", out, re.MULTILINE))
    assert 20 <= samples <= most


def test_writers(during_sleep):
    """More writes of this process than anybody makes by chance, from the C library's function."""

    def write():
        with Path("/dev/null").open("wb", buffering=0) as null:
            null.writelines(b"x" for _ in range(10_007))

    out = during_sleep("writers.py", write)
    (count,) = re.findall(rf"^ *(\d+) +{os.getpid()} \w*write\w*\+0x", out, re.MULTILINE)[:1]
    assert int(count) == 10_007


def test_watch(capsys):
    """17 writes of a variable, where the machine has debug registers."""
    needs("setting:/sys/bus/event_source/devices/breakpoint")
    runpy.run_path(str(EXAMPLES / "watch.py"), run_name="__main__")
    assert capsys.readouterr().out == "written 17 times\n"


def test_exits():
    """Each process that ends is a line, with the status that its parent sees and a lifetime that fits."""
    with started("exits.py", "PID ") as example:
        before = time.monotonic()
        assert child("leaves-7", "time.sleep(0.1); os._exit(7)").returncode == 7
        assert child("killed", "os.kill(os.getpid(), 9)").returncode == -9
        most = (time.monotonic() - before) * 1000
        found = {}
        while len(found) < 2:
            _, name, lived, *status = example.stdout.readline().split()
            if name in {"leaves-7", "killed"}:
                found[name] = " ".join(status), float(lived)
    assert {name: status for name, (status, _) in found.items()} == {"leaves-7": "7", "killed": "signal 9"}
    assert 100 <= found["leaves-7"][1] <= most


def test_signals():
    """Three signals of the kind that is watched are three lines; others are none."""
    with started("signals.py", "watching") as example, subprocess.Popen(["sleep", "1000"]) as target:
        child(
            "sender",
            f"for _ in range(3): os.kill({target.pid}, {int(signal.SIGCONT)}); os.kill(os.getpid(), 0)\n"
            f"import signal\nsignal.signal(signal.SIGUSR1, lambda *_: None)\n"
            f"for _ in range(3): os.kill(os.getpid(), {int(signal.SIGUSR1)})",
        )
        target.kill()
        lines = []
        while len(lines) < 3:
            line = example.stdout.readline()
            if line.startswith("sender["):
                lines.append(line)
    assert {re.sub(r"\d+", "N", line) for line in lines} == {"sender[N] sent N to N\n"}
    assert {line.split()[2] for line in lines} == {str(int(signal.SIGUSR1))}


def test_watch_opens():
    """23 opens in an event loop, none of them dropped."""
    done = finished(EXAMPLES / "watch_opens.py")
    opens, dropped = done.stdout.splitlines()
    assert re.match(r"23 opens, the last: \{'time': \d+, .*'path': '/dev/null'\}", opens)
    assert dropped == "dropped: 0 {}"


def test_sessions():
    """Both ends of the program's own connection, with their bytes."""
    done = finished(EXAMPLES / "sessions.py")
    assert sorted(line.partition(" ")[2] for line in done.stdout.splitlines()) == [
        "sent 21 and received 7 bytes",
        "sent 7 and received 21 bytes",
    ]


def test_holders(tmp_path):
    """Three descriptors of one file are three lines, of this process."""
    path = tmp_path / "held"
    with path.open("w") as first, path.open() as second, path.open() as third:
        done = finished(EXAMPLES / "holders.py", path)
        held = sorted(each.fileno() for each in (first, second, third))
    assert [(line.split()[0], int(line.split()[-1])) for line in done.stdout.splitlines()] == [
        (str(os.getpid()), number) for number in held
    ]


def test_congestion():
    """Every byte of the transfer arrives under a congestion control that Python wrote."""
    done = finished(EXAMPLES / "congestion.py")
    assert done.stdout == "1000003 bytes received\n"


def test_deny_open(tmp_path, during_sleep, monkeypatch):
    """11 openings of one file are refused while the example runs, and counted."""
    needs("attach:lsm")
    path = tmp_path / f"denied-{os.getpid()}"
    path.touch()

    def openings():
        for _ in range(11):
            with pytest.raises(PermissionError), path.open():
                pytest.fail("it was opened")

    monkeypatch.setattr(sys, "argv", ["deny_open.py", path.name])
    assert during_sleep("deny_open.py", openings) == f"11 openings of {path.name} were refused\n"
    path.open().close()


def example(name, *arguments):
    """What an example that ends by itself prints."""
    done = finished(EXAMPLES / name, *arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_call():
    """What a program answered, three times."""
    needs("program:syscall")
    assert example("call.py") == [
        "7: 3 bits, squared 49, returned 0",
        "0: 0 bits, squared 0, returned -1",
        "1023: 10 bits, squared 1046529, returned 0",
        "3 calls",
    ]


def test_spoil():
    """Three test runs fail with the errno that a program wrote, the fourth, without it, does not."""
    *spoilt, last = example("spoil.py")
    assert len(spoilt) == 3
    assert all(line.endswith("(ECANCELED)") for line in spoilt)
    assert last == "3 spoilt; afterwards it returns 1"


def test_drop_udp(make_namespace):
    """31 packets of 44 to one port are dropped, 13 to another arrive; after it all 17 arrive."""
    from tests.support.traffic import connect, inside, receiver, send, settled

    drop_udp = runpy.run_path(str(EXAMPLES / "drop_udp.py"))["drop_udp"]
    here, there = make_namespace(), make_namespace()
    connect(here, there)
    with receiver(there, 7919) as dropped, receiver(there, 7920) as passed, inside(there):
        with drop_udp("veth0", 7919) as bpf:
            send(here, ("10.251.0.2", 7919), 31)
            send(here, ("10.251.0.2", 7920), 13)
            assert settled(passed, 13) == 13
            assert settled(dropped, 0) == 0
            assert bpf["dropped"][0] == 31
        send(here, ("10.251.0.2", 7919), 17)
        assert settled(dropped, 17) == 17


def test_host_lookups():
    """Seven look-ups of a process, each with its name and a latency."""
    needs("attach:uprobe")
    with started("host_lookups.py", "PID ") as example:
        child("looks-up", "import socket\nfor _ in range(7): socket.getaddrinfo('localhost', 80)")
        lines = []
        while len(lines) < 7:
            line = example.stdout.readline()
            if line.split()[1] == "looks-up":
                lines.append(line.split())
    assert {line[3] for line in lines} == {"localhost"}
    assert all(0 < float(line[2]) < PATIENCE * 1000 for line in lines)


def test_replace():
    """The packet is dropped, passes under the other function, and is dropped again."""
    needs("attach:freplace")
    assert example("replace.py") == ["before: 0", "replaced: 1", "after: 0"]


def test_every_example_is_here():
    """No file of docs/examples is without a test."""
    tested = {name.removeprefix("test_") for name in globals() if name.startswith("test_")}
    tested.add("syn_backlog")  # in test_function_tools.py, which has the connections for it
    tested.add("foreign_map")  # in test_open_map.py, which makes the map
    tested.add("connect_latency")  # in test_in_flight.py, which makes the calls
    others = Path(__file__).with_name("test_examples_of_pages.py").read_text(encoding="utf-8")
    tested |= set(re.findall(r'"(\w+)\.py"', others))
    assert {path.stem for path in EXAMPLES.glob("*.py")} <= tested


def test_typed(during_sleep):
    """Three programs of one name, under this user, each with its path."""
    out = during_sleep("typed.py", lambda: [subprocess.run(["/bin/true"], check=True) for _ in range(3)])
    lines = out.splitlines()
    assert f"{os.getuid()} true 3" in lines
    assert len([line for line in lines if line.endswith(" /bin/true")]) == 3


def test_exporter():
    """17 reads of 1000 bytes: their bucket, the sum and the count, as Prometheus reads them."""
    with python(EXAMPLES / "exporter.py", "0", stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            address = process.stdout.readline().strip()
            assert address.startswith("http://127.0.0.1:"), process.stderr.read()
            child("exported", "f = os.open('/dev/zero', os.O_RDONLY)\nfor _ in range(17): os.read(f, 1000)")
            with urllib.request.urlopen(address, timeout=PATIENCE) as answer:
                assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
                text = answer.read().decode()
        finally:
            process.kill()
    assert text.startswith("# TYPE read_bytes histogram\n")
    found = dict(re.findall(r'^read_bytes_(\w+\{comm="exported"(?:,le="[^"]*")?\}) (\d+)$', text, re.MULTILINE))
    at = {name.split('"')[3]: int(count) for name, count in found.items() if name.startswith("bucket")}
    assert list(at) == ["0", *(str((1 << n) - 1) for n in range(1, 21)), "+Inf"]
    assert at["1023"] - at["511"] == 17
    assert at["+Inf"] == int(found['count{comm="exported"}'])
    assert int(found['sum{comm="exported"}']) == 17_000
