"""Frames that XDP programs send elsewhere: to interfaces, to processors, to Python; counted exactly on veth pairs."""

from __future__ import annotations

import contextlib
import socket

import pytest

from pyebpf import BPF, XDP_PASS, KernelError, NotFound, XdpContext, XdpSocket, u64
from pyebpf.packet import IPPROTO_UDP, UDP, Ethernet, IPv4
from tests.support.needs import needs
from tests.support.traffic import inside, receiver, send, settled
from tests.support.waiting import wait_until

pytestmark = pytest.mark.machine(modules=("veth",))

PORT = 7937


def test_frames_are_redirected_to_another_interface(make_namespace):
    """Of three namespaces the middle one forwards 23 frames by a devmap; without the entry they go up its own stack."""
    left, middle, right = make_namespace(), make_namespace(), make_namespace()
    left.connect(middle, name="veth0", network="10.251.0")
    middle.connect(right, name="veth1", network="10.251.1")
    bpf = BPF()
    ports = bpf.devmap(size=4)

    @bpf.xdp("veth0")
    def forward(ctx: XdpContext) -> int:
        ethernet = ctx.packet.header(Ethernet)
        ip = ctx.packet.header(IPv4, at=14)
        if ethernet is None or ip is None or ip.protocol != IPPROTO_UDP:
            return XDP_PASS
        for i in range(6):
            ethernet.destination[i] = 0xFF
        ip.ttl -= 0
        return ports.redirect(2, XDP_PASS)

    caught = BPF()
    frames = caught.percpu_array(value=u64)

    @caught.xdp("veth1")
    def catch(ctx: XdpContext) -> int:
        ip = ctx.packet.header(IPv4, at=14)
        if ip is not None and ip.protocol == IPPROTO_UDP:
            frames[0] += 1
        return XDP_PASS

    with receiver(middle, PORT) as own, contextlib.ExitStack() as stack:
        with inside(right):
            stack.enter_context(caught)
        with inside(middle):
            stack.enter_context(bpf)
            send(left, ("10.251.0.2", PORT), 7)
            assert settled(own, 7) == 7
            ports[2] = "veth1"
            assert list(ports) == [2]
            send(left, ("10.251.0.2", PORT), 23)
            wait_until(lambda: frames[0] >= 23)
            assert frames[0] == 23
            with pytest.raises(NotFound, match="no network interface 'veth2'"):
                ports[1] = "veth2"


def test_frames_are_handed_to_another_processor(pair):
    """Through a cpumap 29 packets take the way by processor 0's queue, and arrive."""
    here, there = pair
    bpf = BPF()
    queues = bpf.cpumap(size=1)
    handed = bpf.percpu_array(value=u64)

    @bpf.xdp("veth0")
    def hand(ctx: XdpContext) -> int:
        ip = ctx.packet.header(IPv4, at=14)
        if ip is None or ip.protocol != IPPROTO_UDP:
            return XDP_PASS
        handed[0] += 1
        return queues.redirect(0)

    with receiver(there, PORT) as arrived, inside(there), bpf:
        send(here, ("10.251.0.2", PORT), 3)
        assert settled(arrived, 0) == 0  # no such processor in the map: XDP_ABORTED
        queues[0] = 192
        send(here, ("10.251.0.2", PORT), 29)
        assert settled(arrived, 29) == 29
        assert handed[0] == 32


def test_frames_come_to_python_and_go_out_again(pair):
    """Through an xskmap 37 frames reach an AF_XDP socket byte for byte, its answers the other side; others pass."""
    needs("map:xskmap")
    here, there = pair
    bpf = BPF()
    sockets = bpf.xskmap(size=1)

    @bpf.xdp("veth0")
    def take(ctx: XdpContext) -> int:
        udp = ctx.packet.header(UDP, at=34)
        ip = ctx.packet.header(IPv4, at=14)
        if ip is None or udp is None or ip.protocol != IPPROTO_UDP or udp.destination != PORT:
            return XDP_PASS
        return sockets.redirect(ctx.rx_queue_index, XDP_PASS)

    with (
        receiver(here, PORT + 3) as back,
        receiver(there, PORT) as behind,
        receiver(there, PORT + 1) as passed,
        inside(there),
        bpf,
        XdpSocket("veth0", size=64) as frames,
    ):
        send(here, ("10.251.0.2", PORT), 3)
        assert settled(behind, 3) == 3  # nobody is in the map
        sockets[0] = frames
        back.setsockopt(socket.SOL_SOCKET, 11, 1)  # SO_NO_CHECK
        for number in range(37):
            back.sendto(bytes([number]) * 100, ("10.251.0.2", PORT))
        send(here, ("10.251.0.2", PORT + 1), 5)
        assert settled(passed, 5) == 5
        got: list[bytes] = []
        while len(got) < 37:
            more = frames.receive(timeout=10)
            assert more
            got += more
        assert [frame[42:] for frame in got] == [bytes([number]) * 100 for number in range(37)]
        assert settled(behind, 0) == 0
        assert frames.lost == 0
        for frame in got[:11]:
            ethernet, ip, udp = (kind.from_bytes(frame[at:][: kind.layout.size]) for kind, at in HEADERS)
            ethernet.source, ethernet.destination = ethernet.destination, ethernet.source
            ip.source, ip.destination = ip.destination, ip.source
            udp.source, udp.destination = udp.destination, udp.source
            assert frames.send(ethernet.to_bytes() + ip.to_bytes() + udp.to_bytes() + frame[42:])
        assert settled(back, 11) == 11
        with pytest.raises(KernelError, match="another socket serves that queue"):
            XdpSocket("veth0")
        with pytest.raises(KernelError, match="the interface has no such queue"):
            XdpSocket("veth0", 99)
        with pytest.raises(NotFound, match="no network interface 'veth7' in this network namespace"):
            XdpSocket("veth7")
        bpf.detach()
        send(here, ("10.251.0.2", PORT), 7)
        assert settled(behind, 7) == 7
        assert frames.receive() == []


HEADERS = ((Ethernet, 0), (IPv4, 14), (UDP, 34))
