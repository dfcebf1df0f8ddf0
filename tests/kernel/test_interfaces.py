"""Programs at network interfaces: exact counts of packets on veth pairs of the test's own, refusals, detaching."""

from __future__ import annotations

import contextlib
import socket

import pytest

from pyebpf import (
    BPF,
    TCX_DROP,
    TCX_NEXT,
    TCX_PASS,
    XDP_DROP,
    XDP_PASS,
    XDP_TX,
    KernelError,
    NotFound,
    NotSupported,
    SkBuff,
    XdpContext,
    helpers,
    u64,
)
from pyebpf.features import Features, Support
from pyebpf.kernel.interfaces import interface_index
from pyebpf.kernel.iproute import has_clsact, iproute, xdp_programs
from pyebpf.kernel.owners import owned_name
from pyebpf.kernel.rtnetlink import bpf_filters, open_rtnetlink
from pyebpf.packet import ETH_P_IP, IPPROTO_UDP, UDP, Ethernet, IPv4
from tests.support.needs import needs
from tests.support.traffic import inside, receiver, send, settled

pytestmark = pytest.mark.machine(modules=("veth", "sch_ingress", "cls_bpf"))

PORT = 7927


def dropping(kind, *where, **options):
    """A program that drops UDP packets to PORT and counts them."""
    bpf = BPF()
    seen = bpf.percpu_array(value=u64, name="seen")
    drop, other = (XDP_DROP, XDP_PASS) if kind == "xdp" else (TCX_DROP, TCX_NEXT)

    @getattr(bpf, kind)(*where, **options)
    def count(ctx: XdpContext) -> int:
        ethernet = ctx.packet.header(Ethernet)
        ip = ctx.packet.header(IPv4, at=14)
        udp = ctx.packet.header(UDP, at=34)
        if ethernet is None or ip is None or udp is None:
            return other
        if ethernet.protocol == ETH_P_IP and ip.protocol == IPPROTO_UDP and udp.destination == PORT:
            seen[0] += 1
            return drop
        return other

    return bpf


WAYS = [
    ("attach:xdp", "xdp", ("veth0",), {}, "xdp veth0, by xdp link"),
    ("attach:xdp", "xdp", ("veth0",), {"mode": "generic"}, "xdp veth0 (generic), by xdp link"),
    ("attach:xdp_netlink", "xdp", ("veth0",), {"by": "netlink", "mode": "native"}, "xdp veth0 (native), by netlink"),
    ("attach:xdp_netlink", "xdp", ("veth0",), {"by": "netlink", "mode": "generic"}, "xdp veth0 (generic), by netlink"),
    ("attach:tcx", "tc", ("veth0", "ingress"), {}, "tcx veth0 ingress, by tcx link"),
    ("attach:clsact", "tc", ("veth0", "ingress"), {"by": "clsact"}, "clsact veth0 ingress, by clsact filter"),
]


@pytest.mark.parametrize(("feature", "kind", "where", "options", "how"), WAYS, ids=[w[-1] for w in WAYS])
@pytest.mark.every_kernel
def test_each_way_counts_every_packet_and_ends(pair, feature, kind, where, options, how):
    """31 packets are dropped and counted; after detaching 17 arrive, and nothing is left at the interface."""
    needs(feature)
    here, there = pair
    with receiver(there, PORT) as arrived, inside(there):
        with dropping(kind, *where, **options) as bpf:
            assert bpf.attachments == [f"count: {how}"]
            send(here, ("10.251.0.2", PORT), 31)
            send(here, ("10.251.0.2", PORT + 1), 5)
            assert settled(arrived, 0) == 0
            assert bpf["seen"][0] == 31
        send(here, ("10.251.0.2", PORT), 17)
        assert settled(arrived, 17) == 17
        with iproute() as requests:
            assert xdp_programs(requests) == {}
            assert not has_clsact(requests, interface_index("veth0"))


@pytest.mark.parametrize("by", ["tcx", "clsact"])
def test_what_goes_out(pair, by):
    """At egress, 13 of 24 packets don't leave; the other program sees each of the 11 that it lets go."""
    needs(f"attach:{by}")
    here, there = pair
    with (
        receiver(there, PORT) as dropped,
        receiver(there, PORT + 1) as arrived,
        inside(here),
        dropping("tc", "veth0", "egress", by=by) as bpf,
    ):
        send(here, ("10.251.0.2", PORT), 13)
        send(here, ("10.251.0.2", PORT + 1), 11)
        assert settled(arrived, 11) == 11
        assert settled(dropped, 0) == 0
        assert bpf["seen"][0] == 13


def test_frames_are_sent_back(pair):
    """XDP_TX: of 19 pings, each answered by the program itself, the kernel behind it sees none."""
    here, there = pair
    bpf = BPF()
    answered = bpf.percpu_array(value=u64)

    @bpf.xdp("veth0")
    def answer(ctx: XdpContext) -> int:
        ethernet = ctx.packet.header(Ethernet)
        ip = ctx.packet.header(IPv4, at=14)
        udp = ctx.packet.header(UDP, at=34)
        if ethernet is None or ip is None or udp is None or ip.protocol != IPPROTO_UDP or udp.destination != PORT:
            return XDP_PASS
        for i in range(6):
            byte = ethernet.source[i]
            ethernet.source[i] = ethernet.destination[i]
            ethernet.destination[i] = byte
        source = ip.source
        ip.source = ip.destination
        ip.destination = source
        port = udp.source
        udp.source = udp.destination
        udp.destination = port
        udp.checksum = 0
        answered[0] += 1
        return XDP_TX

    with (
        receiver(here, PORT + 2) as asking,
        receiver(there, PORT) as behind,
        inside(here),
        dropping_nothing("veth0"),  # a veth takes frames back only where a program waits for them
        inside(there),
        bpf,
    ):
        asking.settimeout(10)
        for number in range(19):
            asking.sendto(bytes([number]), ("10.251.0.2", PORT))
            assert asking.recvfrom(100) == (bytes([number]), ("10.251.0.2", PORT))
        assert answered[0] == 19
        assert settled(behind, 0) == 0


@contextlib.contextmanager
def dropping_nothing(interface):
    bpf = BPF()

    @bpf.xdp(interface)
    def take(ctx: XdpContext) -> int:
        return XDP_PASS if len(ctx.packet) >= 14 else XDP_DROP

    with bpf:
        yield bpf


@pytest.mark.parametrize("by", ["tcx", "clsact"])
def test_packets_are_cloned(pair, by):
    """clone_redirect: 13 packets arrive, and a copy of each goes back out, where the other end counts it."""
    needs(f"attach:{by}")
    here, there = pair
    bpf = BPF()

    @bpf.tc("veth0", "ingress", by=by)
    def mirror(ctx: SkBuff) -> int:
        udp = ctx.packet.header(UDP, at=34)
        if ctx.protocol == ETH_P_IP and udp is not None and udp.destination == PORT:
            helpers.clone_redirect(ctx, ctx.ifindex, 0)
        return TCX_NEXT

    with receiver(there, PORT) as arrived, contextlib.ExitStack() as stack:
        with inside(here):
            copies = stack.enter_context(dropping("xdp", "veth0"))
        with inside(there):
            stack.enter_context(bpf)
        send(here, ("10.251.0.2", PORT), 13)
        assert settled(arrived, 13) == 13
        assert copies["seen"][0] == 13


def test_the_order_of_tcx_programs(pair):
    """Of three programs the one that stands first decides; one that says NEXT leaves it to those behind it."""
    needs("attach:tcx")
    here, there = pair

    def one(verdict, **options):
        bpf = BPF()
        seen = bpf.percpu_array(value=u64, name="seen")

        @bpf.tc("veth0", "ingress", **options)
        def decide(ctx: SkBuff) -> int:
            ip = ctx.packet.header(IPv4, at=14)
            if ip is None or ip.protocol != IPPROTO_UDP:
                return TCX_NEXT
            seen[0] += 1
            return verdict

        return bpf

    with receiver(there, PORT) as arrived, inside(there), one(TCX_DROP) as last:
        (program,) = last.programs.values()
        with one(TCX_PASS, before=program.info().id) as middle, one(TCX_NEXT, first=True) as first:
            send(here, ("10.251.0.2", PORT), 11)
            assert settled(arrived, 11) == 11
            assert [bpf["seen"][0] for bpf in (first, middle, last)] == [11, 11, 0]
        send(here, ("10.251.0.2", PORT), 7)
        assert settled(arrived, 0) == 0
        assert last["seen"][0] == 7
        with (
            pytest.raises(KernelError, match="no program with id 2147483647 is attached there"),
            one(0, after=2**31 - 1),
        ):
            pass


def test_a_program_without_a_place_is_only_loaded(pair):
    """attach() names the interface and the mode; its link is detached by itself."""
    here, there = pair
    with receiver(there, PORT) as arrived, inside(there):
        bpf = dropping("xdp")
        (probe,) = bpf.probes
        with bpf:
            assert bpf.attachments == []
            link = probe.attach("veth0", mode="generic")
            send(here, ("10.251.0.2", PORT), 5)
            assert settled(arrived, 0) == 0
            link.detach()
            assert link.detached
            send(here, ("10.251.0.2", PORT), 3)
            assert settled(arrived, 3) == 3
            assert bpf["seen"][0] == 5
            with pytest.raises(NotFound, match=r"no network interface 'veth' in this network namespace \(did you mean"):
                probe.attach("veth")


def test_refusals(pair):
    """An unknown interface, one with a program, a driver without XDP, frames too large: one line each."""
    _, there = pair
    cases = [
        (
            ("xdp", "wlp3s0"),
            {},
            NotFound,
            "no network interface 'wlp3s0' in this network namespace: there is lo, veth",
        ),
        (("xdp", "lo"), {"mode": "native"}, KernelError, 'the driver of lo has no XDP: write mode="generic"'),
    ]
    with inside(there):
        for where, options, kind, message in cases:
            with pytest.raises(kind, match=message.replace("(", r"\(")) as caught, dropping(*where, **options):
                pass
            assert "\n" not in str(caught.value)
        with dropping("xdp", "veth0"):
            with pytest.raises(KernelError, match="a program is attached there by a link"), dropping("xdp", "veth0"):
                pass
            with (
                pytest.raises(KernelError, match="a program is attached there"),
                dropping("xdp", "veth0", by="netlink"),
            ):
                pass


def test_large_frames(make_namespace):
    """Jumbo frames are refused without `frags`, whose name the error says."""
    here, there = make_namespace(), make_namespace()
    here.connect(there)
    for end in (here, there):
        end.run("ip", "link", "set", "veth0", "mtu", "9000")
    with inside(there):
        with pytest.raises(KernelError, match=r"write @bpf.xdp\(…, frags=True\)"), dropping("xdp", "veth0"):
            pass
        if Features().ask("program:xdp@frags") is Support.NO:
            words = r"has no XDP programs with frags=True \(needs Linux 5\.18 or later\): lower the interface's"
            with pytest.raises(NotSupported, match=words), dropping("xdp", "veth0", frags=True):
                pass
            return
        with dropping("xdp", "veth0", frags=True) as bpf:
            assert len(bpf.attachments) == 1


def test_a_filter_stands_beside_others(pair):
    """A clsact queue that was there stays, with its other filter, when one goes; the lowest priority is asked first."""
    needs("attach:clsact")
    here, there = pair
    there.run("tc", "qdisc", "add", "dev", "veth0", "clsact")
    with receiver(there, PORT) as arrived, inside(there), open_rtnetlink() as netlink, iproute() as requests:
        with dropping("tc", "veth0", "ingress", by="clsact", priority=7) as second:
            with dropping("tc", "veth0", "ingress", by="clsact", priority=3) as first:
                found = bpf_filters(netlink.fileno(), interface_index("veth0"), "ingress")
                assert sorted(each.info >> 16 for each in found) == [3, 7]
                assert all(each.name.startswith(owned_name()) for each in found)
                send(here, ("10.251.0.2", PORT), 5)
                assert settled(arrived, 0) == 0
                assert (first["seen"][0], second["seen"][0]) == (5, 0)
            send(here, ("10.251.0.2", PORT), 3)
            assert settled(arrived, 0) == 0
            assert second["seen"][0] == 3
        assert has_clsact(requests, interface_index("veth0"))
    there.run("tc", "qdisc", "delete", "dev", "veth0", "clsact")


def test_the_queue_goes_with_the_last_filter(pair):
    """Whoever comes and goes first: the queue that the first filter needed is gone after the last."""
    needs("attach:clsact")
    _, there = pair
    with inside(there), iproute() as requests:
        bpf = dropping("tc", "ingress", by="clsact")
        (probe,) = bpf.probes
        with bpf:
            first, second = probe.attach("veth0"), probe.attach("veth0")
            first.detach()
            third = probe.attach("veth0")
            second.detach()
            assert has_clsact(requests, interface_index("veth0"))
            third.detach()
            assert not has_clsact(requests, interface_index("veth0"))


def test_an_interface_that_goes_takes_the_attachment_along(make_namespace):
    """The link says that its place is gone, and detaches without complaint; so does what netlink attached."""
    here, there = make_namespace(), make_namespace()
    here.connect(there)
    with inside(there):
        with dropping("xdp", "veth0") as bpf, dropping("xdp", by="netlink") as other:
            (program,) = bpf.programs.values()
            (probe,) = bpf.probes
            link = bpf.links[0]
            here.run("ip", "link", "delete", "veth0")
            with pytest.raises(KernelError, match="its target no longer exists"):
                link.update(program)
            (probe,) = other.probes
            with pytest.raises(NotFound, match="no network interface 'veth0'"):
                probe.attach("veth0")
        here.connect(there)
        with dropping("tc", "veth0", "egress", by="clsact"), dropping("xdp", "veth0", by="netlink"):
            here.run("ip", "link", "delete", "veth0")


def test_netkit(make_namespace):
    """What the primary end of a netkit pair sends and what its peer sends are seen apart: 11 and 7 packets."""
    needs("attach:netkit")
    here, there = make_namespace(), make_namespace()
    with inside(here), iproute() as requests:
        requests.link("add", ifname="first", kind="netkit")  # the kernel calls its peer nk0
        peer = next(name for _, name in socket.if_nameindex() if name not in ("lo", "first"))
    here.run("ip", "link", "set", peer, "netns", str(there.pid), "name", "nk1")
    for end, name, address in ((here, "first", 1), (there, "nk1", 2)):
        end.run("ip", "address", "add", f"10.251.0.{address}/24", "dev", name)
        end.run("ip", "link", "set", name, "up")
    bpf = BPF()
    seen = bpf.percpu_array(value=u64, size=2)

    @bpf.netkit("first", "primary")
    def leaving(ctx: SkBuff) -> int:
        ip = ctx.packet.header(IPv4, at=14)
        if ip is not None and ip.protocol == IPPROTO_UDP:
            seen[0] += 1
        return TCX_NEXT

    @bpf.netkit("first", "peer")
    def coming(ctx: SkBuff) -> int:
        ip = ctx.packet.header(IPv4, at=14)
        if ip is None or ip.protocol != IPPROTO_UDP:
            return TCX_NEXT
        seen[1] += 1
        return TCX_DROP

    with receiver(here, PORT) as back, receiver(there, PORT) as arrived, inside(here), bpf:
        send(here, ("10.251.0.2", PORT), 11)
        assert settled(arrived, 11) == 11
        send(there, ("10.251.0.1", PORT), 7)
        assert settled(back, 0) == 0
        assert [seen[0], seen[1]] == [11, 7]
        bpf.detach()
        send(here, ("10.251.0.2", PORT), 3)
        send(there, ("10.251.0.1", PORT), 5)
        assert (settled(arrived, 3), settled(back, 5)) == (3, 5)
        assert [seen[0], seen[1]] == [11, 7]
    with inside(here), dropping("netkit", "primary") as other:
        (probe,) = other.probes
        with pytest.raises(NotFound, match="no network interface 'third'"):
            probe.attach("third")
        with pytest.raises(KernelError, match=r"lo is not a (primary )?netkit device"):
            probe.attach("lo")
