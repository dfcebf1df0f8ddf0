"""tcptop, tcpbuf, tcprtt and tcpwin: a connection whose bytes, buffers and segments the kernel tells the test, too."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import struct
import sys
import tempfile
import xml.etree.ElementTree as ET
from collections import Counter
from itertools import chain
from pathlib import Path

import pytest

from pyebpf.errors import InvalidValue
from pyebpf.features import Features, Support
from pyebpf.output.columns import Row
from pyebpf.programs import tcpbuf, tcprtt, tcptop, tcpwin
from pyebpf.runtime.host import kernel_btf
from tests.support import tcp_losses, tcp_peer
from tests.support.command import pyebpf, running
from tests.support.needs import needs
from tests.support.waiting import wait_until

ME = os.getpid()
ADDRESSES = ("127.0.0.1", "::1")
#: include/uapi/asm-generic/socket.h; of include/uapi/linux/sock_diag.h the size and the fill of the send buffer.
SO_MEMINFO, SNDBUF, WMEM_QUEUED = 55, 3, 5
#: Offsets in struct tcp_info.
RTT, SSTHRESH, CWND, SEGS_IN = 68, 76, 80, 140
ROUNDS = 23


@pytest.fixture
def pairs():
    """Both ends of a connection of each family: the client's, the server's."""
    with contextlib.ExitStack() as stack:
        found = []
        for address in ADDRESSES:
            listener = stack.enter_context(socket.create_server((address, 0), family=tcp_peer.family(address)))
            client = stack.enter_context(socket.create_connection(listener.getsockname()[:2]))
            found.append((client, stack.enter_context(listener.accept()[0])))
        yield found


def ports(ends):
    """Their local ports."""
    return tuple(end.getsockname()[1] for end in ends)


def info(end, offset):
    """A number of struct tcp_info."""
    return struct.unpack_from("=I", end.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 160), offset)[0]


def talk(client, server):
    """Questions and answers, one after the other."""
    for end in (client, server):
        end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for number in range(ROUNDS):
        client.sendall(bytes(tcp_peer.question(number)))
        tcp_peer.receive(server, tcp_peer.question(number))
        server.sendall(bytes(tcp_peer.answer(number)))
        tcp_peer.receive(client, tcp_peer.answer(number))


QUESTIONS = sum(map(tcp_peer.question, range(ROUNDS)))
ANSWERS = sum(map(tcp_peer.answer, range(ROUNDS)))


def test_bytes_of_both_ends(pairs):
    """As many as were sent and received, in intervals; in text the busiest on top, under the load average.

    With another order the library's rows, and no load average.
    """
    sums, expected = Counter(), {}
    with tcptop.open(sort="received") as snapshot, running("tcptop", "60") as text:
        rows = []
        for client, server in pairs:
            talk(client, server)
            rows.append(snapshot())
        text.stop()
    for client, server in pairs:
        (port, other) = ports((client, server))
        expected |= {
            (port, "sent"): QUESTIONS, (port, "received"): ANSWERS,
            (other, "sent"): ANSWERS, (other, "received"): QUESTIONS,
        }  # fmt: skip
    printed = Row(tcptop.TOOL.columns_for(tcptop.Options()))
    for record in map(printed.object, chain(*rows)):
        if {record["local_port"], record["remote_port"]} <= {port for port, _ in expected}:
            assert record["pid"] == ME
            sums[record["local_port"], "sent"] += record["sent_bytes"]
            sums[record["local_port"], "received"] += record["received_bytes"]
    assert sums == expected
    for interval in rows:
        received = [row.received for row in interval]
        assert received == sorted(received, reverse=True)
    assert tcptop.TOOL.heading(None, tcptop.Options(no_summary=True)) is None
    load, heading, *lines = [line for line in text.out.splitlines() if line]
    assert load.split()[1] == "loadavg:"
    assert heading.split() == ["PID", "COMM", "LADDR", "RADDR", "RX_KB", "TX_KB"]
    assert heading == printed.header()
    own = [f":{port} " for port, _ in expected]
    mine = [line for line in lines if line.split()[0] == str(ME) and any(port in line for port in own)]
    assert sorted(line.split()[-2:] for line in mine) == sorted(
        [[str(ANSWERS // 1024), str(QUESTIONS // 1024)], [str(QUESTIONS // 1024), str(ANSWERS // 1024)]] * len(pairs)
    )
    assert len(heading) <= 80
    total = [sum(map(int, line.split()[-2:])) for line in lines]
    assert total == sorted(total, reverse=True)


def test_peeking_and_files(pairs):
    """What is only looked at is not received; sendfile(2) sends."""
    clients = [client for client, _ in pairs]
    with tcptop.open(pid=ME, local_ports=ports(clients)) as snapshot, tempfile.TemporaryFile() as file:
        file.write(bytes(1009))
        file.flush()
        for client, server in pairs:
            assert os.sendfile(client.fileno(), file.fileno(), 0, 1009) == 1009
            server.sendall(bytes(499))
            for _ in range(3):
                assert client.recv(499, socket.MSG_PEEK)
            tcp_peer.receive(client, 499)
            (row,) = snapshot()
            assert (row.sent, row.received) == (1009, 499)
            assert snapshot() == []
            assert str(row.ends.local) == client.getsockname()[0]


def test_splicing(pairs):
    """What splice(2) takes from a connection is received, where functions of the kernel can be traced."""
    if all(Features(kernel_btf).ask(each) is Support.NO for each in ("attach:fentry", "attach:kprobe_multi")):
        needs("attach:kprobe")
    with tcptop.open(pid=ME, local_ports=ports(client for client, _ in pairs)) as snapshot:
        for client, server in pairs:
            reading, writing = os.pipe()
            try:
                server.sendall(bytes(499))
                assert os.splice(client.fileno(), writing, 499) == 499
            finally:
                os.close(reading)
                os.close(writing)
            (row,) = snapshot()
            assert (row.sent, row.received) == (0, 499)


def test_buffers(pairs):
    """A send buffer that nobody empties fills up: a count a call, the last one where the kernel says it is."""
    mine = ports(client for client, _ in pairs)
    with (
        tcpbuf.open(pid=ME, local_ports=mine) as percent,
        tcpbuf.open(pid=ME, local_ports=mine, sizes=True) as sizes,
    ):
        for client, server in pairs:
            port = min(ports((client, server)))
            calls = 0
            client.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                while client.send(bytes(65_537)):
                    calls += 1
            memory = struct.unpack("=9I", client.getsockopt(socket.SOL_SOCKET, SO_MEMINFO, 36))
            (fill,) = percent()
            (held,) = sizes()
            client.setblocking(True)
            server.sendall(b"y")
            assert client.recv(7) == b"y"
            (received,) = percent()
            sizes()
            assert fill.labels == held.labels == {"port": port, "buffer": "send"}
            assert fill.total == held.total == calls > 1
            most = memory[WMEM_QUEUED] * 100 // memory[SNDBUF]
            assert most >= 50
            last = [bucket for bucket in fill.rows() if bucket.count][-1]
            assert last.low is not None
            assert last.low <= max(most, 100)
            largest = [bucket for bucket in held.rows() if bucket.count][-1]
            assert largest.low <= memory[WMEM_QUEUED] <= largest.high
            assert (received.labels, received.total) == ({"port": port, "buffer": "receive"}, 1)
            assert [(bucket.low, bucket.count) for bucket in received.rows() if bucket.count] == [(0, 1)]


def test_round_trip_times(pairs):
    """As many as segments came in; the next one finds the time that the kernel names; by host, or in one histogram.

    By local and remote address it has the average, which is within the bounds of what was counted.
    """
    mine = ports(server for _, server in pairs)
    with (
        tcprtt.open(local_ports=mine) as hosts,
        tcprtt.open(local_ports=mine, total=True) as together,
        tcprtt.open(local_ports=mine, by_local=True, by_remote=True, average=True) as by_pair,
        tcprtt.open(local_ports=mine, by_local=True) as by_local,
    ):
        for client, server in pairs:
            address = server.getsockname()[0]
            before = info(server, SEGS_IN)
            talk(client, server)
            # The ACK of the last answer may come after it.
            segments = wait_until(lambda server=server, before=before: info(server, SEGS_IN) - before)
            (host,), (whole,), (pair,), (local,) = hosts(), together(), by_pair(), by_local()
            assert segments <= host.total <= info(server, SEGS_IN) - before
            # Each segment is counted with the time that those before it have made; then it makes another.
            now = info(server, RTT)
            client.sendall(b"x")
            tcp_peer.receive(server, 1)
            (later,) = hosts()
            together()
            by_pair()
            by_local()
            assert host.labels == {"remote host": address}
            assert local.labels == {"local host": address}
            average = pair.labels["average"]
            assert pair.labels == {"local host": address, "remote host": address, "average": average}
            assert average == round(pair.sum / pair.total, 3)
            assert pair.rows()[0].low <= average <= pair.rows()[-1].high
            assert (whole.labels, whole.unit, whole.total) == ({}, "usecs", host.total)
            assert pair.total == local.total == host.total
            assert host.total >= ROUNDS
            assert any(bucket.low <= now <= bucket.high and bucket.count for bucket in later.rows())


def test_one_histogram_is_not_told_apart():
    """-t with -b or -B is refused."""
    with pytest.raises(InvalidValue, match=r"--total: .* leave it out, or -b and -B"):
        tcprtt.Options(total=True, by_local=True)


def test_windows(tmp_path):
    """Each segment, and the establishment of both ends, with the values of struct tcp_info; drawn as SVG."""
    picture = tmp_path / "win.svg"
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        with running("tcpwin", "--json", "-L", str(port), "--plot", str(picture)) as objects:
            with socket.create_connection(listener.getsockname()) as client, listener.accept()[0] as server:
                talk(client, server)
                segments = info(server, SEGS_IN)
                window, threshold = info(server, CWND), info(server, SSTHRESH)
                objects.await_text(f'"snd_cwnd": {window}')
                own = client.getsockname()[1]
            objects.stop()
    found = objects.objects()
    events = Counter(record["event"] for record in found)
    assert events["new"] == 1
    # Those of the handshake came before it was established; the FIN may be one more.
    assert segments - 2 <= events["rcv"] <= segments + 1
    assert {(r["local_port"], r["remote_port"], len(r["sock"])) for r in found} == {(port, own, 18)}
    assert found[-1]["snd_ssthresh"] == threshold
    assert window in {record["snd_cwnd"] for record in found}
    times = [record["time_us"] for record in found]
    assert times == sorted(times)
    drawn = ET.parse(picture).getroot()
    paths = [each.get("d") for each in drawn.iter("{http://www.w3.org/2000/svg}path")]
    assert len(paths) == 4
    assert next(path.count("H") for path in paths if path) == len(found) - 1


def test_windows_of_what_is_sent_again(make_namespace):
    """`retrans` for each, with a window that has shrunk; text and CSV have the book's columns."""
    space = make_namespace()
    with tcpwin.open(address="10.9.8.2") as windows:
        told = json.loads(space.run(sys.executable, tcp_losses.__file__, "data", "4"))
        records = windows.poll(0)
    printed = Row(tcpwin.TOOL.columns_for(tcpwin.Options()))
    found = [row for row in map(printed.object, records) if row["event"] == "retrans"]
    assert len(found) == told["again"] == tcp_losses.AGAIN
    assert int(found[-1]["snd_cwnd"]) == 1
    lines = [printed.line(record) for record in records]
    assert printed.header().split() == ["EVENT", "SOCK", "TIME_US", "CWND", "SSTHRESH", "SNDBUF", "WMEM_QUEUED"]
    assert max(map(len, [printed.header(), *lines])) <= 80
    assert sum(line.startswith("retrans") for line in lines) == tcp_losses.AGAIN


def test_a_plot_that_cannot_be_written():
    """One line says so, before the tracing."""
    done = pyebpf("tcpwin", "--plot", "/nonexistent/win.svg", "-d", "60")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        "pyebpf tcpwin: --plot: /nonexistent/win.svg cannot be written: there is no directory /nonexistent\n"
    )
    assert not Path("/nonexistent").exists()
