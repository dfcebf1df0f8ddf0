"""Tools on functions of the kernel: funccount, superping, qdisclat; each counts a workload exactly."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import signal
import socket
import struct
import subprocess
import sys
import termios
import time
import tty

import pytest

from pyebpf import NotFound
from pyebpf.errors import InvalidValue
from pyebpf.features import Features, Support
from pyebpf.programs import funccount, qdisclat, superping
from pyebpf.runtime.host import kernel_btf
from tests.support.command import pyebpf, running
from tests.support.needs import lacks, needs, needs_functions
from tests.support.waiting import PATIENCE, wait_until

ME = os.getpid()
CONNECTIONS, PACKETS = 17, 101
#: include/uapi/linux/tty.h, sockios.h: the line discipline that makes an interface of a serial line; its name.
N_SLIP, SIOCGIFNAME = 1, 0x8910


@contextlib.contextmanager
def listener(backlog: int = 64):
    with socket.create_server(("127.0.0.1", 0), backlog=backlog) as server:
        yield server.getsockname()


def connect(address: tuple[str, int], times: int = CONNECTIONS) -> None:
    for _ in range(times):
        with socket.create_connection(address, timeout=PATIENCE):
            pass


# -- funccount ---------------------------------------------------------------------------------------------------------


def test_hundreds_of_functions_are_counted_exactly():
    """All tcp_* at once: 17 connections of this process are 17 calls of tcp_v4_connect.

    Where only kprobes are, which takes ten seconds for so many, those of TCP over IPv4 and IPv6.
    """
    needs_functions()
    many = Features(kernel_btf).ask("attach:kprobe_multi") is Support.YES
    with listener() as address, funccount.open("tcp_*" if many else "tcp_v[46]_*", pid=ME) as snapshot:
        connect(address)
        counts = {row.func: row.count for row in snapshot()}
        connect(address, 3)
        later = {row.func: row.count for row in snapshot()}
    assert counts["tcp_v4_connect"] == CONNECTIONS
    assert later["tcp_v4_connect"] == 3
    assert len(counts) > (30 if many else 3)
    assert all(re.fullmatch(r"tcp_[\w.]+", name) for name in counts)


def test_tracepoints_are_counted_by_pattern():
    """211 calls of getpgid among all of get*; here without any function."""
    with funccount.open("t:syscalls:sys_enter_getpgi*", pid=ME) as snapshot:
        for _ in range(211):
            os.getpgid(0)
        rows = snapshot()
    assert [(row.func, row.count) for row in rows] == [("syscalls:sys_enter_getpgid", 211)]


def test_too_many_functions_ask_for_the_option():
    """One line, which names the option."""
    needs_functions()
    with pytest.raises(InvalidValue) as caught, funccount.open("tcp_*", max_probes=3):
        pass
    assert re.fullmatch(r"'tcp_\*' matches \d+ functions, more than 3: .*--max-probes\)", str(caught.value))


def test_killed_it_leaves_nothing():
    """No program, link or event of it is there soon after SIGKILL."""
    needs_functions()
    for _ in range(int(os.environ.get("PYEBPF_KILLS", "1"))):
        with running("funccount", "tcp_v4_*") as tool:
            tool.process.send_signal(signal.SIGKILL)
            tool.process.wait(PATIENCE)
            owner = tool.process.pid
        wait_until(lambda owner=owner: f"pyebpf_{owner}_" not in events())


def events() -> str:
    """The lines of tracefs `kprobe_events`."""
    from pyebpf.kernel.tracefs import Tracefs

    with Tracefs() as tracefs:
        return tracefs.read_top("kprobe_events").decode()


# -- superping ---------------------------------------------------------------------------------------------------------

PING = """
import os, socket, struct, sys
open("/proc/sys/net/ipv4/ping_group_range", "w").write("0 2147483647")
def checksum(data):
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    total = (total & 0xFFFF) + (total >> 16)
    return ~((total & 0xFFFF) + (total >> 16)) & 0xFFFF
def pings(family, kind, protocol, address, request, reply, id, count, offset):
    with socket.socket(family, kind, protocol) as s:
        s.settimeout(60)
        for sequence in range(count):
            data = struct.pack("!BBHHH", request, 0, 0, id, sequence) + bytes(8)
            s.sendto(data[:2] + struct.pack("!H", checksum(data)) + data[4:], address)
            while True:
                answer = s.recv(256)[offset:]
                if answer[0] == reply and answer[6:8] == data[6:8]:
                    break
v4, v6 = ("127.0.0.1", 0), ("::1", 0)
pings(socket.AF_INET, socket.SOCK_RAW, 1, v4, 8, 0, 4242, 23, 20)
pings(socket.AF_INET, socket.SOCK_DGRAM, 1, v4, 8, 0, 0, 13, 0)
pings(socket.AF_INET6, socket.SOCK_RAW, 58, v6, 128, 129, 4243, 17, 0)
"""


def test_every_ping_is_seen_once(make_namespace):
    """23 of a raw socket, 13 of a ping socket, 17 over IPv6: each with its number, and a time."""
    needs_functions()
    space = make_namespace()
    with superping.build(superping.Options()) as bpf:
        subprocess.run(space.inside(sys.executable, "-c", PING), check=True, timeout=PATIENCE)
        replies = list(bpf["replies"].poll(0))
    assert [(r.version, r.sequence) for r in replies] == [
        *((4, n) for n in range(23)),
        *((4, n) for n in range(13)),
        *((6, n) for n in range(17)),
    ]
    assert {r.id for r in replies[:23]} == {4242}
    assert len({r.id for r in replies[23:36]}) == 1
    assert {r.id for r in replies[36:]} == {4243}
    assert all(0 < r.ns < 10**9 for r in replies)
    assert re.fullmatch(r"IPv4 ping, ID 4242 seq 22: \d+ us", superping.sentence(replies[22]))
    assert re.fullmatch(r"IPv6 ping, ID 4243 seq 16: \d+ us", superping.sentence(replies[-1]))


# -- qdisclat ----------------------------------------------------------------------------------------------------------

SEND = f"""
import socket
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
    for _ in range({PACKETS}):
        s.sendto(b"x" * 64, ("10.250.0.2", 9))
"""


#: The book's disciplines but cbq, which no kernel of the test bed has. codel and fq_codel let packets past an empty
#: queue at the root, so here they stand below another: prio calls their dequeue functions, tbf looks what is next.
TBF = "tbf rate 1gbit burst 32kb limit 1mb"
ONE_BAND = "prio priomap " + " ".join("0" * 16)
NO_DROPS = "target 100s interval 200s"
QUEUES = {
    "fq": ["root fq"],
    "tbf": [f"root {TBF}"],
    "cbs": ["root cbs idleslope 9000 sendslope -1000 hicredit 30 locredit -1470 offload 0"],
    "red": ["root red limit 400000 min 30000 max 90000 avpkt 1000 burst 55 bandwidth 1gbit"],
    "codel in tbf": [f"root handle 1: {TBF}", f"parent 1: codel {NO_DROPS}"],
    "codel in prio": [f"root handle 1: {ONE_BAND}", f"parent 1:1 codel {NO_DROPS}"],
    "fq_codel in tbf": [f"root handle 1: {TBF}", f"parent 1: fq_codel {NO_DROPS}"],
    "fq_codel in prio": [f"root handle 1: {ONE_BAND}", f"parent 1:1 fq_codel {NO_DROPS}"],
}
MODULES = ("codel", "fq", "fq_codel", "tbf", "cbs", "red", "prio")


@pytest.mark.machine(modules=("dummy", *(f"sch_{name}" for name in MODULES)))
@pytest.mark.parametrize("place", QUEUES)
def test_every_packet_through_a_discipline_is_timed(place, make_namespace):
    """101 datagrams into an interface that answers nothing, by the book's name of the tool."""
    name, _, parent = place.partition(" in ")
    needs_functions()
    needs("module:dummy", *(f"module:sch_{each}" for each in (name, parent) if each), "command:tc")
    space = make_namespace()
    space.run("ip", "link", "add", "dummy0", "type", "dummy")
    space.run("sh", "-c", "echo 1 > /proc/sys/net/ipv6/conf/dummy0/disable_ipv6")
    space.run("ip", "address", "add", "10.250.0.1/24", "dev", "dummy0")
    space.run("ip", "link", "set", "dummy0", "up")
    for queue in QUEUES[place]:
        space.run("tc", "qdisc", "add", "dev", "dummy0", *queue.split())
    with running(f"qdisc-{name}", "--csv") as tool:
        space.run(sys.executable, "-c", SEND)
        time.sleep(0.5)  # the last packet's turn
        tool.stop()
    assert sum(int(row["count"]) for row in tool.rows()) == PACKETS
    assert statistics(space, "dummy0", name)[0] == PACKETS


def statistics(space, device, name):
    """Packets that tc says a discipline has sent, holds, and has taken back."""
    told = json.loads(space.run("tc", "-s", "-j", "qdisc", "show", "dev", device))
    (found,) = [each for each in told if each["kind"] == name]
    return found["packets"], found["qlen"], found["requeues"]


@contextlib.contextmanager
def serial_line(space):
    """A network interface whose queue stands still until the other end of its serial line is read; with that end."""
    reader, line = os.openpty()
    try:
        tty.setraw(line)
        fcntl.ioctl(line, termios.TIOCSETD, struct.pack("i", N_SLIP))
        name = fcntl.ioctl(line, SIOCGIFNAME, bytes(16)).rstrip(b"\0").decode()
        subprocess.run(["ip", "link", "set", name, "netns", str(space.pid)], check=True)
        space.configure(f"address add 10.250.0.1/24 dev {name}", f"link set {name} up")
        os.set_blocking(reader, False)
        yield name, reader
    finally:
        os.close(line)
        os.close(reader)


@pytest.mark.machine(modules=("slip", "sch_codel", "sch_fq_codel"))
@pytest.mark.parametrize("name", ["codel", "fq_codel"])
def test_packets_that_wait_at_the_root_are_timed(name, make_namespace):
    """As many as wait in the queue: not the one that found it empty, nor the next, which the interface gave back."""
    needs_functions()
    needs("module:slip", f"module:sch_{name}", "command:tc")
    space = make_namespace()
    space.disable_ipv6()
    with serial_line(space) as (device, reader):
        space.run("tc", "qdisc", "add", "dev", device, "root", name, *NO_DROPS.split())
        with running(f"qdisc-{name}", "--csv") as tool:
            space.run(sys.executable, "-c", SEND)
            _, waiting, back = statistics(space, device, name)

            def all_sent():
                with contextlib.suppress(BlockingIOError):
                    os.read(reader, 1 << 16)
                return statistics(space, device, name)[:2] == (PACKETS, 0)

            wait_until(all_sent)
            tool.stop()
    assert (waiting, back) == (PACKETS - 1, 1)
    assert sum(int(row["count"]) for row in tool.rows()) == waiting - back


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("dsmark", "the queueing discipline dsmark left the kernel in Linux 6.3; on an older one: modprobe sch_dsmark"),
        ("nosuch", "the queueing discipline nosuch is not loaded: modprobe sch_nosuch, or there is none of that name"),
    ],
)
def test_a_discipline_that_is_not_there_is_one_line(name, message):
    """With the command that loads it, or why there is none."""
    needs_functions()
    with pytest.raises(NotFound) as caught, qdisclat.open(name):
        pass
    assert str(caught.value) == message


@pytest.mark.parametrize("line", ["funccount tcp_*", "tcpsynbl", "superping", "qdisclat pfifo_fast", "qdisc-fq"])
def test_where_functions_cannot_be_traced_one_line_says_so(line):
    """On a kernel without kprobes and trampolines: by the functions' names, and no decorator of the tool's."""
    lacks("attach:fentry", "attach:kprobe_multi", "attach:kprobe")
    run = pyebpf(*line.split(), "-d", "1")
    assert run.returncode == 1
    assert len(run.stderr.splitlines()) == 1
    assert re.match(r"pyebpf \S+: needs kernel functions, and this kernel has no kprobes: \w", run.stderr)
    assert "cannot be traced by " in run.stderr
    assert "@" not in run.stderr
