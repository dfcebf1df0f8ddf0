"""What an event costs in the programs of each tool: `python -m benchmarks.tool_costs [TOOL...]`.

Needs root. Each tool is attached as the command attaches it, a workload of its own runs, and the kernel says how often
each program ran and how long (BPF_ENABLE_STATS through a descriptor: no global setting changes). From that goes what
an empty program is said to take, which is the reading of the clock. What the kernel does around a program is not in it:
`benchmarks.attachment_costs` and `benchmarks.uprobes` have that. Tools that do not run here are left out, with the
reason. In an emulated machine only the ratios mean something; they are to tcplife's program for a change of state.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.measure import table
from pyebpf import BPF, PyebpfError
from pyebpf.cli.catalogue import find, spelt_out
from pyebpf.cli.parser import parse
from pyebpf.kernel.bpf import enable_stats
from tests.support import wifi
from tests.support.loop import LoopDevice, loop_device

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ROUNDS = 5
EVENTS = 499
PORT = 4099
BASE = ("tcplife", "on_state")  # in the middle: two or three map operations, and a record now and then


def system_calls() -> None:
    """Some that do nothing."""
    for _ in range(20 * EVENTS):
        os.getpgid(0)


def opens() -> None:
    """Of a file that is there."""
    for _ in range(EVENTS):
        os.close(os.open("/dev/null", os.O_RDONLY))


def executions() -> None:
    """Of a program that ends at once, and as many that are not there."""
    for _ in range(EVENTS // 10):
        subprocess.run(["/bin/true"], check=True)
        with suppress(FileNotFoundError):
            subprocess.run(["/no/such"], check=True)


def signals() -> None:
    """That only ask whether this process is there."""
    for _ in range(EVENTS):
        os.kill(os.getpid(), 0)


def status_calls() -> None:
    """Of a file that is there."""
    for _ in range(EVENTS):
        Path("/dev/null").stat()


def threads() -> None:
    """That end at once."""
    for _ in range(EVENTS):
        thread = threading.Thread(target=str)
        thread.start()
        thread.join()


def connections() -> None:
    """Over loopback, accepted and closed."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        for _ in range(EVENTS):
            with socket.create_connection(server.getsockname()):
                server.accept()[0].close()


def listeners() -> None:
    """Bound to a port that the kernel chooses."""
    for _ in range(EVENTS):
        socket.create_server(("127.0.0.1", 0)).close()


def messages() -> None:
    """Of a pair of UNIX sockets."""
    one, other = socket.socketpair()
    with one, other:
        for _ in range(EVENTS):
            one.send(b"x" * 101)
            other.recv(1024)


def answers() -> None:
    """One byte for each connection over loopback."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        for _ in range(EVENTS):
            with socket.create_connection(server.getsockname()) as client, server.accept()[0] as accepted:
                accepted.send(b"x")
                client.recv(1)


def descriptors() -> None:
    """Passed over a pair of UNIX sockets, one a message."""
    one, other = socket.socketpair()
    with one, other:
        for _ in range(EVENTS):
            socket.send_fds(one, [b"x"], [one.fileno()])
            for each in socket.recv_fds(other, 9, 1)[1]:
                os.close(each)


def refused_connections() -> None:
    """To a port where nobody listens."""
    for _ in range(EVENTS):
        with socket.socket() as end:
            end.connect_ex(("127.0.0.1", PORT))


def exchanges() -> None:
    """Questions and answers of a byte over loopback."""
    with socket.create_server(("127.0.0.1", 0)) as listener, socket.create_connection(listener.getsockname()) as one:
        other, _ = listener.accept()
        with other:
            for _ in range(EVENTS):
                one.sendall(b"x")
                other.sendall(other.recv(1))
                one.recv(1)


def datagram_connections() -> None:
    """Over loopback, with an answer each."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.bind(("127.0.0.1", 0))
        for _ in range(EVENTS):
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as end:
                end.connect(server.getsockname())
                end.send(b"x")
                server.sendto(*server.recvfrom(1))
                end.recv(1)


LOSE = f"""
import socket, time
from tests.support.tcp_opens import BLACK_HOLE, set_up
set_up()
ends = [socket.socket() for _ in range({EVENTS})]
for end in ends:
    end.setblocking(False)
    end.connect_ex((BLACK_HOLE, 9))
time.sleep(2)
"""


def lost_connections() -> None:
    """SYNs that get lost, and are sent once more, in a network namespace of its own."""
    command = ["unshare", "--net", "sh", "-c", 'ip link set lo up && exec "$0" -c "$1"', sys.executable, LOSE]
    subprocess.run(command, check=True)


def look_ups() -> None:
    """Of a name that is in a file."""
    for _ in range(EVENTS):
        socket.getaddrinfo("localhost", 80)


def pings() -> None:
    """Over loopback, answered by the kernel."""
    # Type 8, code 0, the checksum of all that follows, identifier 0x1234, a number of 0.
    request = bytes([8, 0, 0xE5, 0xCB, 0x12, 0x34, 0, 0])
    with socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP) as end:
        for _ in range(EVENTS):
            end.sendto(request, ("127.0.0.1", 0))
            end.recv(256)
            end.recv(256)  # the request, too, comes in over loopback


SEND = f"""
import socket
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as end:
    for _ in range({EVENTS}):
        end.sendto(b"x" * 64, ("10.250.0.2", 9))
"""


def datagrams() -> None:
    """Through fq, into an interface that answers nothing, in a network namespace of its own."""
    script = f"""
        ip link add dummy0 type dummy && ip address add 10.250.0.1/24 dev dummy0 && ip link set dummy0 up &&
        tc qdisc add dev dummy0 root fq && exec "$1" -c '{SEND}'
    """
    command = ["unshare", "--net", "sh", "-c", script, "sh", sys.executable]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    time.sleep(0.2)


def block_reads() -> None:
    """Direct ones of a loop device."""
    with tempfile.TemporaryDirectory() as scratch, loop_device(Path(scratch) / "disk") as device:
        device.read(EVENTS)


def queued_reads() -> None:
    """Direct ones of a loop device with a scheduler."""
    with (
        tempfile.TemporaryDirectory() as scratch,
        loop_device(Path(scratch) / "disk") as device,
        device.scheduler("mq-deadline"),
    ):
        device.read(EVENTS)


def nvme_reads() -> None:
    """Direct ones of the first disk."""
    for path in sorted(Path("/dev").glob("nvme*n1"))[:1]:
        LoopDevice(path, 64 << 20).read(EVENTS)


def scans() -> None:
    """Of a channel where another radio made of software sends beacons."""
    with wifi.Wifi() as stack:
        stack.become("wlan1", wifi.ADHOC)
        stack.join_ibss("wlan1", b"pyebpf", 2412, 10)
        stack.become("wlan0", wifi.STATION)
        for _ in range(3):
            stack.scan("wlan0", (2412,))
        stack.become("wlan1", wifi.STATION)


def spinning() -> None:
    """Until there are enough samples."""
    until = time.monotonic() + 1
    while time.monotonic() < until:
        pass


def switches() -> None:
    """Of two threads that wake each other by pipes, on one processor."""
    allowed = os.sched_getaffinity(0)
    (one, tell_one), (other, tell_other) = os.pipe(), os.pipe()

    def answer() -> None:
        for _ in range(EVENTS):
            os.read(other, 1)
            os.write(tell_one, b"!")

    os.sched_setaffinity(0, {max(allowed)})
    thread = threading.Thread(target=answer)
    thread.start()
    for _ in range(EVENTS):
        os.write(tell_other, b"!")
        os.read(one, 1)
    thread.join()
    os.sched_setaffinity(0, allowed)
    for end in (one, tell_one, other, tell_other):
        os.close(end)


#: Command lines of tools, and what makes their events.
WORKLOADS: dict[str, Callable[[], None]] = {
    "tcplife": connections,
    "soconnect": connections,
    "soaccept": connections,
    "sofamily": connections,
    "soprotocol": connections,
    "solisten": listeners,
    "tcpbind": listeners,
    "socketio": messages,
    "socksize": messages,
    "sockstat": messages,
    "so1stbyte": answers,
    "soconnlat": connections,
    "sofdsnoop": descriptors,
    "solife": connections,
    "sormem": messages,
    "syscount": system_calls,
    "syscount -P": system_calls,
    "syscount -L": system_calls,
    "opensnoop": opens,
    "execsnoop -x": executions,
    "exitsnoop": executions,
    "killsnoop": signals,
    "statsnoop": status_calls,
    "threadsnoop": threads,
    "tcpdrop": refused_connections,
    "tcpaccept": connections,
    "tcpconnect": connections,
    "tcpconnect -c": connections,
    "tcpbuf": exchanges,
    "tcpiplat": exchanges,
    "tcpnagle": exchanges,
    "tcprtt": exchanges,
    "tcptop": exchanges,
    "tcpwin": exchanges,
    "udpconnect": datagram_connections,
    "udplife": datagram_connections,
    "tcpretrans": lost_connections,
    "tcpretrans -c": lost_connections,
    "tcpstates": connections,
    "tcpsynbl": connections,
    "gethostlatency": look_ups,
    "superping": pings,
    "qdisc-fq": datagrams,
    "netsize": connections,
    "nettxlat --all": connections,
    "skbdrop": refused_connections,
    "ipecn": connections,
    "skblife": connections,
    "funccount tcp_v4_*": connections,
    "biolatency": block_reads,
    "biosnoop": block_reads,
    "bitesize": block_reads,
    "biopattern": block_reads,
    "biotop": block_reads,
    "biostacks": block_reads,
    "seeksize": block_reads,
    "seeksize -D": block_reads,
    "biocpu": block_reads,
    "bioerr": block_reads,
    "biotimeout": block_reads,
    "iosched": queued_reads,
    "biomerge": block_reads,
    "nvmelatency": nvme_reads,
    "ieee80211scan": scans,
    "profile": spinning,
    "runqlat": switches,
    "runqslower": switches,
    "cpudist": switches,
    "cpudist -O": switches,
    "offcputime": switches,
    "wakeuptime": switches,
    "offwaketime": switches,
    "chain": switches,
    "runqlen": spinning,
    "hardirqs": block_reads,
    "softirqs": exchanges,
}


def measured(bpf: BPF, work: Callable[[], None]) -> Iterator[tuple[str, int, float]]:
    """Each program that ran while `work` did: name, runs, and nanoseconds a run in the best of some rounds."""
    with bpf:
        # One that runs at several places is one program.
        programs = {program.info().id: (name.partition("@")[0], program) for name, program in bpf.programs.items()}
        best: dict[int, float] = {}
        runs: dict[int, int] = {}
        for _ in range(ROUNDS):
            before = {number: program.info() for number, (_, program) in programs.items()}
            with enable_stats():
                work()
            for number, (_, program) in programs.items():
                now, old = program.info(), before[number]
                count = now.run_count - old.run_count
                if count:
                    runs[number] = count
                    each = (now.run_time_ns - old.run_time_ns) / count
                    best[number] = min(best.get(number, each), each)
        for number, each in best.items():
            yield programs[number][0], runs[number], each


def nothing() -> BPF:
    """A program that returns at once."""
    bpf = BPF()

    @bpf.raw_tracepoint("sys_enter")
    def empty() -> None:
        return

    return bpf


def main(wanted: list[str]) -> None:
    """Measure tools, by default all, and print a row for each program."""
    ((_, _, clock),) = measured(nothing(), system_calls)
    base = 0.0
    rows = [("(an empty one)", "empty", "", f"{clock:.0f}", "")]
    for line, work in WORKLOADS.items():
        name, *arguments = line.split()
        if line != BASE[0] and wanted and name not in wanted:
            continue
        name, arguments = spelt_out(name, arguments)
        tool = find(name)
        try:
            found = list(measured(tool.build(parse(tool, arguments)[0]), work))
        except PyebpfError as error:
            sys.stderr.write(f"{line}: {str(error).partition(chr(10))[0]}\n")
            continue
        base = base or next(each for program, _, each in found if (line, program) == BASE) - clock
        for program, runs, each in found:
            ns = each - clock
            rows.append((line, program, str(runs), f"{ns:.0f}", f"{ns / base:.1f}"))
    table(("tool", "program", "runs", "ns a run", "ratio"), rows)


if __name__ == "__main__":
    main(sys.argv[1:])
