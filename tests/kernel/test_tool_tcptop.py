"""tcptop, tcpbuf, tcprtt and tcpwin: a connection whose bytes, buffers and segments the kernel tells the test, too."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import struct
import sys
import tempfile
import xml.etree.ElementTree as ET
from collections import Counter
from pathlib import Path

import pytest

from pyebpf.features import Features, Support
from pyebpf.programs import tcpbuf, tcprtt, tcptop
from pyebpf.runtime.host import kernel_btf
from tests.support import tcp_losses, tcp_peer
from tests.support.command import running
from tests.support.needs import needs
from tests.support.waiting import wait_until

ME = os.getpid()
ADDRESSES = {"4": "127.0.0.1", "6": "::1"}
#: include/uapi/asm-generic/socket.h; of include/uapi/linux/sock_diag.h the size and the fill of the send buffer.
SO_MEMINFO, SNDBUF, WMEM_QUEUED = 55, 3, 5
#: Offsets in struct tcp_info.
RTT, SSTHRESH, CWND, SEGS_IN = 68, 76, 80, 140
ROUNDS = 23


@pytest.fixture(params=ADDRESSES)
def ends(request):
    """Both ends of a connection: the client's, the server's."""
    address = ADDRESSES[request.param]
    family = tcp_peer.family(address)
    with socket.create_server((address, 0), family=family) as listener:
        client = socket.create_connection(listener.getsockname()[:2])
        server, _ = listener.accept()
        with client, server:
            yield client, server


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


def test_bytes_of_both_ends(ends):
    """As many as were sent and received, in intervals; the busiest on top, under the load average, in 80 columns."""
    client, server = ends
    port = client.getsockname()[1]
    with running("tcptop", "--json", "1") as objects, running("tcptop", "60") as text:
        talk(client, server)
        for tool in (objects, text):
            tool.stop()
    sums = Counter()
    for record in objects.objects():
        if port in (record["local_port"], record["remote_port"]):
            assert record["pid"] == ME
            sums[record["local_port"], "sent"] += record["sent_bytes"]
            sums[record["local_port"], "received"] += record["received_bytes"]
    other = server.getsockname()[1]
    assert sums == {
        (port, "sent"): QUESTIONS, (port, "received"): ANSWERS,
        (other, "sent"): ANSWERS, (other, "received"): QUESTIONS,
    }  # fmt: skip
    load, heading, *lines = [line for line in text.out.splitlines() if line]
    assert load.split()[1] == "loadavg:"
    assert heading.split() == ["PID", "COMM", "LADDR", "RADDR", "RX_KB", "TX_KB"]
    mine = [line for line in lines if line.split()[0] == str(ME) and str(port) in line]
    assert sorted(line.split()[-2:] for line in mine) == sorted(
        [[str(ANSWERS // 1024), str(QUESTIONS // 1024)], [str(QUESTIONS // 1024), str(ANSWERS // 1024)]]
    )
    assert len(heading) <= 80
    total = [sum(map(int, line.split()[-2:])) for line in lines]
    assert total == sorted(total, reverse=True)


def test_peeking_and_files(ends):
    """What is only looked at is not received; sendfile(2) sends."""
    client, server = ends
    with tcptop.open(pid=ME, local_ports=(client.getsockname()[1],)) as snapshot, tempfile.TemporaryFile() as file:
        file.write(bytes(1009))
        file.flush()
        assert os.sendfile(client.fileno(), file.fileno(), 0, 1009) == 1009
        server.sendall(bytes(499))
        for _ in range(3):
            assert client.recv(499, socket.MSG_PEEK)
        tcp_peer.receive(client, 499)
        (row,) = snapshot()
        assert (row.sent, row.received) == (1009, 499)
        assert snapshot() == []
    assert str(row.ends.local) == client.getsockname()[0]


def test_splicing(ends):
    """What splice(2) takes from a connection is received, where functions of the kernel can be traced."""
    if all(Features(kernel_btf).ask(each) is Support.NO for each in ("attach:fentry", "attach:kprobe_multi")):
        needs("attach:kprobe")
    client, server = ends
    with tcptop.open(pid=ME, local_ports=(client.getsockname()[1],)) as snapshot:
        reading, writing = os.pipe()
        try:
            server.sendall(bytes(499))
            assert os.splice(client.fileno(), writing, 499) == 499
        finally:
            os.close(reading)
            os.close(writing)
        (row,) = snapshot()
    assert (row.sent, row.received) == (0, 499)


def test_buffers(ends):
    """A send buffer that nobody empties fills up: a count a call, the last one where the kernel says it is."""
    client, server = ends
    port = min(client.getsockname()[1], server.getsockname()[1])
    mine = (client.getsockname()[1],)
    calls = 0
    with (
        tcpbuf.open(pid=ME, local_ports=mine) as percent,
        tcpbuf.open(pid=ME, local_ports=mine, sizes=True) as sizes,
    ):
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


def test_round_trip_times(ends):
    """As many as segments came in; the next one finds the time that the kernel names; by host, or in one histogram."""
    client, server = ends
    address, port = server.getsockname()[:2]
    before = info(server, SEGS_IN)
    with tcprtt.open(local_ports=(port,)) as hosts, tcprtt.open(local_ports=(port,), total=True) as together:
        talk(client, server)
        # The ACK of the last answer may come after it.
        segments = wait_until(lambda: info(server, SEGS_IN) - before)
        (host,), (whole,) = hosts(), together()
        assert segments <= host.total <= info(server, SEGS_IN) - before
        # Each segment is counted with the time that those before it have made; then it makes another.
        now = info(server, RTT)
        client.sendall(b"x")
        tcp_peer.receive(server, 1)
        (later,) = hosts()
    assert host.labels == {"remote host": address}
    assert (whole.labels, whole.unit, whole.total) == ({}, "usecs", host.total)
    assert host.total >= ROUNDS
    assert any(bucket.low <= now <= bucket.high and bucket.count for bucket in later.rows())


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
    with (
        running("tcpwin", "--csv", "--address", "10.9.8.2") as rows,
        running("tcpwin", "--address", "10.9.8.2") as text,
    ):
        told = json.loads(make_namespace().run(sys.executable, tcp_losses.__file__, "data", "4"))
        for tool in (rows, text):
            wait_until(lambda tool=tool: tool.out.count("retrans") >= tcp_losses.AGAIN, lambda tool=tool: tool.out)
            tool.stop()
    found = [row for row in rows.rows() if row["event"] == "retrans"]
    assert len(found) == told["again"] == tcp_losses.AGAIN
    assert int(found[-1]["snd_cwnd"]) == 1
    heading, *lines = text.out.splitlines()
    assert heading.split() == ["EVENT", "SOCK", "TIME_US", "CWND", "SSTHRESH", "SNDBUF", "WMEM_QUEUED"]
    assert max(map(len, [heading, *lines])) <= 80
    assert sum(line.startswith("retrans") for line in lines) == tcp_losses.AGAIN


def test_a_plot_that_cannot_be_written():
    """One line says so, when it is time to write it."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = str(listener.getsockname()[1])
        with running("tcpwin", "-L", port, "--plot", "/nonexistent/win.svg") as tool:
            socket.create_connection(listener.getsockname()).close()
            tool.await_text("new")
            os.kill(tool.process.pid, signal.SIGINT)
            assert tool.wait() == 1
            tool.keep()
    assert tool.err.splitlines()[-1].startswith(
        "pyebpf tcpwin: --plot: /nonexistent/win.svg cannot be written: No such"
    )
    assert not Path("/nonexistent").exists()
