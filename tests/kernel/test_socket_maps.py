"""Maps of sockets: verdicts on what they send and receive, and data handed from one to another in the kernel."""

from __future__ import annotations

import os
import signal
import socket

import pytest

from pyebpf import (
    BPF,
    SK_DROP,
    SK_PASS,
    CompileError,
    InvalidValue,
    KernelError,
    SkBuff,
    SkMsgContext,
    SockOpsContext,
    Struct,
    array,
    be16,
    field,
    u8,
    u16,
    u32,
    u64,
)
from pyebpf.uapi.flags import BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB
from tests.support.cgroups import cgroup
from tests.support.needs import needs
from tests.support.waiting import wait_until

KILLS = int(os.environ.get("PYEBPF_KILLS", "5"))


class First(Struct):
    """The first byte of a message."""

    byte: u8


class Framed(Struct):
    """A message's length, and so many bytes behind it."""

    length: be16


class Line(Struct):
    """Both ports of a connection."""

    local: u16
    remote: u16


class Address(Struct):
    """An address of 16 bytes."""

    raw: bytes = field(array(u8, 16))


@pytest.fixture
def make_pair():
    """A function that makes both ends of a TCP connection over loopback."""
    made = []

    def pair():
        with socket.create_server(("127.0.0.1", 0)) as server:
            ends = socket.create_connection(server.getsockname()), server.accept()[0]
        for end in ends:
            end.settimeout(20)
        made.extend(ends)
        return ends

    yield pair
    for end in made:
        end.close()


def nothing(end):
    end.settimeout(0.05)
    with pytest.raises(TimeoutError):
        end.recv(9)
    end.settimeout(20)


def exactly(end, count):
    data = b""
    while len(data) < count:
        data += end.recv(count - len(data))
    return data


def test_sk_msg(make_pair):
    """Of 17 messages 5 are refused and 7 go to another socket's reader; only sockets of the map are concerned."""
    bpf = BPF()
    counts = bpf.array(value=u64, size=3)
    sockets = bpf.sockmap(size=7, name="sockets")

    @bpf.sk_msg(sockets)
    def sends(ctx: SkMsgContext) -> int:
        counts[0] += 1
        counts[1] += ctx.size
        first = ctx.packet.header(First)
        if first is None or first.byte == ord("n"):
            counts[2] += 1
            return SK_DROP
        if first.byte == ord("o"):
            return sockets.redirect(1, ingress=True)
        return SK_PASS

    (near, far), (_, other) = make_pair(), make_pair()
    with bpf:
        sockets[0], sockets[1] = near, other
        for number in range(7):
            near.send(b"other%d" % number)
            assert other.recv(99) == b"other%d" % number
        for _ in range(5):
            near.send(b"yes")
        assert exactly(far, 15) == b"yes" * 5
        far.send(b"no")
        assert near.recv(9) == b"no"
        for number in range(5):
            # A refusal is for good: the kernel asks no more about that socket.
            refused = make_pair()[0]
            sockets[2 + number] = refused
            for _ in range(3):
                with pytest.raises(PermissionError):
                    refused.send(b"no")
        assert dict(counts) == {0: 17, 1: 5 * 2 + 7 * 6 + 5 * 3, 2: 5}
        (line,) = bpf.attachments
        assert line in {"sends: sk_msg of map sockets, by sockmap link", "sends: sk_msg of map sockets, by map"}
        del sockets[6]
        refused.send(b"no")
        assert counts[0] == 17


def test_attached_later(make_pair):
    """A program is for sockets that are put in while it is attached; the map goes on without one."""
    bpf = BPF()
    counts = bpf.array(value=u64)
    sockets = bpf.sockhash(key=u32, size=2)

    @bpf.sk_msg()
    def sends() -> int:
        counts[0] += 1
        return SK_DROP

    with bpf:
        near, far = make_pair()
        sockets[7] = near
        assert sockets.cookies().keys() == {7}
        near.send(b"x")
        assert far.recv(9) == b"x"
        link = sends.attach(sockets)
        del sockets[7]
        sockets[7] = near
        with pytest.raises(PermissionError):
            near.send(b"x")
        assert counts[0] == 1
        link.detach()
        link.detach()
        del sockets[7]
        sockets[7] = near
        near.send(b"x")
        assert far.recv(9) == b"x"
        assert counts[0] == 1
        near.close()
        assert 7 not in sockets


def test_streams(make_pair):
    """A byte stream is cut into 13 messages by their lengths; 5 are dropped, 4 handed to the other socket's peer."""
    needs("kernel:6.1")  # Linux 5.10 stops in a soft lockup
    bpf = BPF()
    counts = bpf.array(value=u64, size=2)
    sockets = bpf.sockmap(size=2)

    @bpf.sk_skb_stream_parser(sockets)
    def cuts(ctx: SkBuff) -> int:
        head = ctx.packet.load(Framed)
        if head is None:
            return 0
        return 2 + head.length

    @bpf.sk_skb_stream_verdict(sockets)
    def decides(ctx: SkBuff) -> int:
        counts[0] += 1
        if ctx.len == 2 + 5:
            counts[1] += 1
            return SK_DROP
        if ctx.len == 2 + 11:
            return sockets.redirect(1)
        return SK_PASS

    def framed(size):
        return size.to_bytes(2, "big") + b"x" * size

    (near, far), (out, reader) = make_pair(), make_pair()
    far.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    with bpf:
        sockets[0], sockets[1] = near, out
        for size in [3] * 4 + [5] * 5 + [11] * 4:
            before = counts[0]
            message = framed(size)
            far.send(message[:4])  # too little, but for its length
            far.send(message[4:])
            wait_until(lambda: counts[0] > before)  # noqa: B023 - called at once
        assert exactly(near, 4 * 5) == framed(3) * 4
        assert exactly(reader, 4 * 13) == framed(11) * 4
        assert dict(counts) == {0: 13, 1: 5}
        nothing(near)
        bpf.detach()
        last, far = make_pair()
        sockets[0] = last  # which no program is given
        far.send(framed(5))
        assert exactly(last, 7) == framed(5)
        assert dict(counts) == {0: 13, 1: 5}


def test_verdict_without_parser():
    """UDP datagrams are judged one by one: 3 of 7 dropped."""
    needs("attach:sk_skb")
    bpf = BPF()
    counts = bpf.array(value=u64, size=2)
    sockets = bpf.sockmap(size=1)

    @bpf.sk_skb_verdict(sockets)
    def decides(ctx: SkBuff) -> int:
        counts[0] += 1
        first = ctx.packet.load(First)
        if first is not None and first.byte == ord("n"):
            counts[1] += 1
            return SK_DROP
        return SK_PASS

    with (
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client,
        bpf,
    ):
        server.bind(("127.0.0.1", 0))
        server.settimeout(20)
        client.connect(server.getsockname())
        client.send(b"before")
        assert server.recv(9) == b"before"
        sockets[0] = server
        for data in [b"no"] * 3 + [b"yes"] * 4:
            client.send(data)
        assert exactly(server, 12) == b"yes" * 4  # the kernel reads such datagrams as one stream
        nothing(server)
        assert dict(counts) == {0: 7, 1: 3}
        bpf.detach()
        del sockets[0]
        client.send(b"no")
        assert server.recv(9) == b"no"
        assert dict(counts) == {0: 7, 1: 3}


def test_sock_ops_fill_the_map():
    """A control group's connections come into a map by themselves; what they send goes straight to their reader."""
    bpf = BPF()
    counts = bpf.array(value=u64, size=2)
    lines = bpf.sockhash(key=Line, size=64)

    @bpf.cgroup_sock_ops()
    def happens(ctx: SockOpsContext) -> int:
        if ctx.op == BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB or ctx.op == 5:
            counts[0] += lines.update(Line(local=ctx.local_port, remote=ctx.remote_port)) == 0
        return 1

    @bpf.sk_msg(lines)
    def sends(ctx: SkMsgContext) -> int:
        counts[1] += 1
        return lines.redirect(Line(local=ctx.remote_port, remote=ctx.local_port), ingress=True)

    def work():
        received = []
        with socket.create_server(("127.0.0.1", 0)) as server:
            for number in range(7):
                with socket.create_connection(server.getsockname()) as client, server.accept()[0] as peer:
                    client.send(b"there%d" % number)
                    received.append(peer.recv(9))
                    peer.send(b"back")
                    received.append(client.recv(9))
        return received

    with cgroup() as group, bpf, happens.attach(group.path):
        assert group.run(work) == [each for number in range(7) for each in (b"there%d" % number, b"back")]
        assert dict(counts) == {0: 14, 1: 14}
        assert not lines.cookies()


def test_refused(make_pair):
    """What is not a map of sockets, a second program, and a method of other programs are one line each."""
    bpf = BPF()
    counts = bpf.array(value=u64)
    sockets = bpf.sockmap(size=1)

    @bpf.sk_msg()
    def sends() -> int:
        return SK_PASS

    @bpf.sk_msg()
    def others() -> int:
        counts[0] += 1
        return SK_PASS

    near, _ = make_pair()
    with bpf:
        with pytest.raises(InvalidValue, match=r"sends: 'x' is not a map: give a bpf.sockmap"):
            sends.attach("x")
        with pytest.raises(KernelError, match=r"attaching sends to sk_msg of map counts: that is not a map of sockets"):
            sends.attach(counts)
        with pytest.raises(InvalidValue, match="has indices 0 to 0, not 1"):
            sockets[1] = near
        with pytest.raises(KernelError), socket.socket() as fresh:
            sockets[0] = fresh  # neither connected nor listening
        if "link" in sends.attach(sockets).how:
            with pytest.raises(KernelError, match="the map has another program there"):
                others.attach(sockets)
    for decorator, call, message in (
        ("sk_msg", "select(0)", r"select\(\) is for sk_reuseport programs"),
        ("sk_lookup", "redirect(0)", r"redirect\(\) is for sk_msg and sk_skb programs, to a sockmap or sockhash"),
        ("sk_msg", "update(0)", r"update\(\) is for sock_ops programs"),
        ("sk_msg", "assign(0)", r"assign\(\) is for sk_lookup and tc programs"),
        ("sk_msg", "redirect(0, ingress=ctx.size)", r"ingress= is True"),
        ("sk_msg", "get(0)", r"the map of sockets sockets has no attribute get"),
    ):
        wrong = BPF()
        sockets = wrong.sockmap(size=1)
        text = f"@bpf.{decorator}()\ndef wrong(ctx) -> int:\n    sockets.{call}\n    return 1\n"
        wrong.define(text, {"sockets": sockets, "bpf": wrong})
        with pytest.raises(CompileError, match=message):
            wrong.specs()


def sent(end):
    try:
        end.send(b"x")
    except PermissionError:
        return False
    return True


def test_killed(make_pair):
    """However a process ends, its program leaves the sockets that it was given."""
    near, far = make_pair()

    def attach(ready):
        bpf = BPF()
        sockets = bpf.sockmap(size=1)

        @bpf.sk_msg(sockets)
        def sends() -> int:
            return SK_DROP

        with bpf:
            sockets[0] = near
            os.write(ready, b"x")
            signal.pause()

    for _ in range(KILLS):
        reading, writing = os.pipe()
        child = os.fork()
        if not child:
            attach(writing)
        os.close(writing)
        assert os.read(reading, 1) == b"x"
        with pytest.raises(PermissionError):
            near.send(b"x")
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os.close(reading)
        # The map is freed a moment later, and lets go of its sockets then.
        wait_until(lambda: sent(near))
        assert far.recv(9) == b"x"
