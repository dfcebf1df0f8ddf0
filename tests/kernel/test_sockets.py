"""Programs on sockets: filters, the choice among several, the search for one, and how packets are dissected."""

from __future__ import annotations

import os
import signal
import socket

import pytest

from pyebpf import (
    BPF,
    BPF_DROP,
    BPF_FLOW_DISSECTOR_CONTINUE,
    BPF_OK,
    SK_DROP,
    SK_PASS,
    FlowDissectorContext,
    InvalidValue,
    KernelError,
    NotFound,
    SkBuff,
    SkLookupContext,
    SkReuseportContext,
    Struct,
    array,
    be16,
    field,
    u8,
    u32,
    u64,
)
from pyebpf.packet import Ethernet
from tests.support.release import kernel_release
from tests.support.traffic import datagrams, inside, udp

SO_LOCK_FILTER = 44


class Ports(Struct):
    """What begins a UDP and a TCP header."""

    source: be16
    destination: be16


class Letter(Struct):
    """A datagram's header, and the first byte of its data."""

    header: bytes = field(array(u8, 8))
    first: u8


def send(address, *datagrams):
    for data in datagrams:  # a socket each, so that each has a port of its own
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
            client.sendto(data, address)


# -- filters -----------------------------------------------------------------------------------------------------------


def letters():
    """A filter that drops what begins with "n" and cuts what begins with "c"."""
    bpf = BPF()
    counts = bpf.array(value=u64, size=2)

    @bpf.socket_filter()
    def looks(ctx: SkBuff) -> int:
        counts[0] += 1
        letter = ctx.packet.load(Letter)
        if letter is None or letter.first == ord("n"):
            counts[1] += 1
            return 0
        if letter.first == ord("c"):
            return 8 + 2
        return ctx.len

    return bpf, counts, looks


@pytest.mark.every_kernel
def test_filter():
    """Of 17 datagrams 7 are dropped and 3 cut; without the filter all come, and none is counted."""
    bpf, counts, looks = letters()
    sent = [b"no"] * 7 + [b"cut off"] * 3 + [b"yes"] * 7
    with udp() as server, bpf:
        with looks.attach(server) as link:
            send(server.getsockname(), *sent)
            assert datagrams(server) == [b"cu"] * 3 + [b"yes"] * 7
            assert dict(counts) == {0: 17, 1: 7}
            assert bpf.attachments == [f"looks: filter of socket {server.fileno()}, by SO_ATTACH_BPF"]
        assert link.detached
        send(server.getsockname(), *sent)
        assert datagrams(server) == sent
        assert dict(counts) == {0: 17, 1: 7}


def test_filter_ends():
    """A filter ends with the module, and a closed socket takes its own with it; a number does for a socket."""
    bpf, counts, looks = letters()
    with udp() as server, udp() as other:
        with bpf:
            looks.attach(server.fileno())
            link = looks.attach(other)
            other.close()
            assert link.detached
            link.detach()
            send(server.getsockname(), b"no")
            assert counts[0] == 1
        send(server.getsockname(), b"no")
        assert datagrams(server) == [b"no"]


def test_filter_refused(tmp_path):
    """What is not a socket, a closed one and a locked one are one line each."""
    bpf, _, looks = letters()
    closed = udp()
    closed.close()
    with bpf, udp() as locked, (tmp_path / "file").open("w") as file:
        with pytest.raises(InvalidValue, match="looks: the socket to attach it to is closed"):
            looks.attach(closed)
        with pytest.raises(InvalidValue, match="'x' is not a socket: give one, or its descriptor"):
            looks.attach("x")
        with pytest.raises(InvalidValue, match=r"filter of a socket is attached by probe.attach\(socket\)"):
            looks.attach()
        with pytest.raises(KernelError, match="that descriptor is not a socket"):
            looks.attach(file)
        with pytest.raises(KernelError, match="the socket shares no port: set SO_REUSEPORT on it first"):
            looks.attach(locked, reuseport=True)
        locked.setsockopt(socket.SOL_SOCKET, SO_LOCK_FILTER, 1)
        with pytest.raises(KernelError, match=r"its filter is locked \(SO_LOCK_FILTER\)"):
            looks.attach(locked)


# -- the choice among sockets that share a port ------------------------------------------------------------------------


def group_of(count):
    first = udp(shared=True)
    return [first, *(udp(first.getsockname()[1], shared=True) for _ in range(count - 1))]


def test_reuseport_by_number():
    """A filter's result is the number of the socket, in the order of their bind()."""
    bpf = BPF()
    counts = bpf.array(value=u64)

    @bpf.socket_filter()
    def chooses(ctx: SkBuff) -> int:
        counts[0] += 1
        return ctx.len  # UDP's header is left out here

    sockets = group_of(3)
    with bpf:
        with chooses.attach(sockets[1], reuseport=True):
            send(sockets[0].getsockname(), b"", *[b"x"] * 5, *[b"yy"] * 11)
            assert [datagrams(one) for one in sockets] == [[b""], [b"x"] * 5, [b"yy"] * 11]
        assert counts[0] == 17
        send(sockets[0].getsockname(), *[b"x"] * 7)
        assert sum(len(datagrams(one)) for one in sockets) == 7
        assert counts[0] == 17
    for one in sockets:
        one.close()


def test_reuseport_by_map():
    """A program chooses by the first letter from a map; 3 of 17 datagrams are dropped."""
    bpf = BPF()
    counts = bpf.array(value=u64, size=2)
    choices = bpf.reuseport_sockarray(size=26)

    @bpf.sk_reuseport()
    def chooses(ctx: SkReuseportContext) -> int:
        counts[0] += 1
        letter = ctx.packet.header(Letter)
        if letter is None or ctx.ip_protocol != socket.IPPROTO_UDP:
            return SK_DROP
        if choices.select(letter.first - ord("a")) != 0:
            counts[1] += 1
            return SK_DROP
        return SK_PASS

    sockets = group_of(3)
    with bpf:
        choices[0], choices[25] = sockets[2], sockets[0]
        assert choices.cookies().keys() == {0, 25}
        with chooses.attach(sockets[1]):
            send(sockets[0].getsockname(), *[b"a"] * 5, *[b"z"] * 9, *[b"m"] * 3)
            assert [datagrams(one) for one in sockets] == [[b"z"] * 9, [], [b"a"] * 5]
        assert dict(counts) == {0: 17, 1: 3}
        send(sockets[0].getsockname(), *[b"m"] * 3)
        assert sum(len(datagrams(one)) for one in sockets) == 3
        assert dict(counts) == {0: 17, 1: 3}
    for one in sockets:
        one.close()


def test_reuseport_alone():
    """A socket that shares its port with none is one line."""
    bpf = BPF()

    @bpf.sk_reuseport(migrate=True)
    def chooses() -> int:
        return SK_PASS

    with bpf, udp() as alone, pytest.raises(KernelError, match="shares no port: set SO_REUSEPORT on it first"):
        chooses.attach(alone)


# -- the search for a socket -------------------------------------------------------------------------------------------


def looking(*namespaces):
    """One listener for the ports 7000 to 7010, of which 7007 is refused."""
    bpf = BPF()
    counts = bpf.array(value=u64, size=2)
    servers = bpf.sockmap(size=1, name="servers")

    @bpf.sk_lookup(*namespaces)
    def looks(ctx: SkLookupContext) -> int:
        if ctx.protocol != socket.IPPROTO_TCP or ctx.local_port not in range(7000, 7011):
            return SK_PASS
        counts[0] += 1
        if ctx.local_port == 7007 and ctx.local_ip4 == 0x7F000001:
            return SK_DROP
        counts[1] += servers.assign(0) == 0
        return SK_PASS

    return bpf, counts, servers, looks


def ports_answer(namespace):
    """Connect to each port from 7000 to 7010: "c" for each that is there, "r" for each refused."""
    answer = ""
    with inside(namespace):
        for port in range(7000, 7011):
            with socket.socket() as client:
                client.settimeout(20)
                try:
                    client.connect(("127.0.0.1", port))
                except ConnectionRefusedError:
                    answer += "r"
                else:
                    answer += "c" if client.getpeername() == ("127.0.0.1", port) else "?"
    return answer


def test_sk_lookup(make_namespace):
    """10 of 11 ports lead to one listener, one is refused; without the program nobody is there."""
    namespace = make_namespace()
    bpf, counts, servers, looks = looking()
    with inside(namespace):
        server = socket.create_server(("127.0.0.1", 0), backlog=64)
    with server, bpf:
        servers[0] = server
        assert ports_answer(namespace) == "r" * 11
        with looks.attach(namespace.path):
            assert ports_answer(namespace) == "c" * 7 + "r" + "c" * 3
        assert dict(counts) == {0: 11, 1: 10}
        assert ports_answer(namespace) == "r" * 11
        assert dict(counts) == {0: 11, 1: 10}
        del servers[0]
        with looks.attach(namespace.path):
            assert ports_answer(namespace) == "r" * 11
        assert dict(counts) == {0: 22, 1: 10}


def test_namespaces(make_namespace, tmp_path):
    """A link does not keep its namespace; what is gone, or is none, is one line."""
    namespace = make_namespace()
    other = make_namespace()
    bpf, _, _, looks = looking(namespace.path, other.path)
    with bpf:
        assert bpf.attachments == [f"looks: sk_lookup of {each.path}, by netns link" for each in (namespace, other)]
    bpf, _, _, looks = looking()
    with bpf:
        with pytest.raises(
            NotFound, match=r"^no network namespace /run/netns/pyebpf-none: it does not exist, or its process has ended"
        ):
            looks.attach("pyebpf-none")
        (tmp_path / "file").touch()
        with pytest.raises(NotFound, match=r"file is not a network namespace: give a file such as /proc/self/ns/net"):
            looks.attach(tmp_path / "file")
        with pytest.raises(InvalidValue, match=r"^3.5 names no network namespace"):
            looks.attach(3.5)
        link = looks.attach(other.path)
        os.kill(other.pid, signal.SIGKILL)
        os.waitid(os.P_PID, other.pid, os.WEXITED | os.WNOWAIT)
        with pytest.raises(NotFound, match=rf"^no network namespace {other.path}"):
            looks.attach(other.path)
        link.detach()


# -- how packets are dissected -----------------------------------------------------------------------------------------

SOL_PACKET, PACKET_FANOUT, PACKET_FANOUT_HASH = 263, 18, 0


def thirteen_packets(namespace):
    """13 datagrams; a packet socket that spreads packets by their hash has each of them dissected once."""
    with (
        inside(namespace),
        socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, 0x0008) as tap,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client,
    ):
        tap.bind(("lo", 0x0800))
        tap.setsockopt(SOL_PACKET, PACKET_FANOUT, 1 | PACKET_FANOUT_HASH << 16)
        server.bind(("127.0.0.1", 5000))
        for _ in range(13):
            client.sendto(b"x", ("127.0.0.1", 5000))
            server.recv(9)


def dissecting():
    """IPv4 without options, as far as the ports."""
    bpf = BPF()
    counts = bpf.hash(key=u32, value=u64)

    @bpf.flow_dissector()
    def dissects(ctx: FlowDissectorContext) -> int:
        keys = ctx.flow_keys
        ports = ctx.packet.header(Ports, at=keys.nhoff + 20 & 63)
        if keys.n_proto != 0x0800 or ports is None:
            return BPF_FLOW_DISSECTOR_CONTINUE
        counts[ports.destination] += 1
        keys.thoff = keys.nhoff + 20
        keys.addr_proto = 0x0800
        keys.ip_proto = 17
        keys.ipv4_src = 0x0AFB0001
        keys.sport = ports.source
        keys.dport = ports.destination
        return BPF_OK if ports.source == 53 else BPF_DROP

    return bpf, counts, dissects


def test_dissected():
    """What the program writes is what the kernel has: offsets, protocol, addresses and ports."""
    bpf, counts, _ = dissecting()
    # Before Linux 6.1 a run tells no more than whether the packet is dissected.
    told = int if kernel_release() >= (6, 1) else lambda verdict: int(verdict == BPF_OK)
    with bpf:
        program = next(iter(bpf.programs.values()))
        packet = bytes(12) + b"\x08\0" + b"\x45" + bytes(19) + b"\0\x35\x13\x88" + bytes(20)
        run = program.test_run(data=packet, data_out=64)
        assert run.retval == told(BPF_OK)
        assert run.data[0:10] == b"\x0e\0\x22\0\0\x08\0\0\0\x11"
        assert run.data[12:24] == b"\0\x35\x13\x88\x0a\xfb\0\x01" + bytes(4)
        run = program.test_run(data=packet.replace(b"\0\x35", b"\0\x36"), data_out=64)
        assert run.retval == told(BPF_DROP)
        assert program.test_run(data=bytes(60), data_out=64).retval == told(BPF_FLOW_DISSECTOR_CONTINUE)
        assert dict(counts) == {5000: 2}


def test_flow_dissector(make_namespace):
    """13 packets of a namespace are dissected by the program, and no other once it is detached; there is one."""
    namespace = make_namespace()
    bpf, counts, dissects = dissecting()
    with bpf:
        with pytest.raises(
            NotFound, match=r"^no network namespace /run/netns/pyebpf-none: it does not exist, or its process has ended"
        ):
            dissects.attach("pyebpf-none")
        try:
            link = dissects.attach(namespace.path)
        except KernelError as error:
            assert "or in the initial namespace" in str(error)  # noqa: PT017 - the host has one
            pytest.skip("probe hook:flow_dissector: no")
        with link:
            thirteen_packets(namespace)
            with pytest.raises(KernelError, match="a namespace has one flow dissector, and another is attached"):
                dissects.attach(namespace.path)
        assert dict(counts) == {5000: 13}
        thirteen_packets(namespace)
        assert dict(counts) == {5000: 13}


def test_ethernet_is_not_seen():
    """A filter at UDP sees copies; a header in place is refused with what to write."""
    bpf = BPF()

    @bpf.socket_filter()
    def looks(ctx: SkBuff) -> int:
        ethernet = ctx.packet.header(Ethernet)
        return 0 if ethernet is None else 1

    with pytest.raises(Exception, match=r"read copies of their packet: write ctx.packet.load\(Ethernet, at=…\)"):
        bpf.specs()
