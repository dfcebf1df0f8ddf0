"""Packets in probes: what is refused, with which words, and how many instructions it takes."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from pyebpf import helpers
from pyebpf.asm import listing
from pyebpf.builder.intrinsics.dynptr import dynptr
from pyebpf.dsl.module import Module
from pyebpf.errors import InvalidValue
from pyebpf.packet import IPPROTO_UDP, UDP, Ethernet, IPv4
from pyebpf.types import u8, u64
from pyebpf.uapi.verdicts import TCX_NEXT, XDP_DROP, XDP_PASS
from tests.dsl.fake_target import FakeTarget
from tests.support.refused import compile_error


class WithDynptrs(FakeTarget):
    """A kernel that makes dynptrs of packets."""

    def function(self, name):
        return SimpleNamespace(name=name, btf_id=7)


def refused(bpf, target=None):
    return compile_error(lambda: bpf.compile(target or FakeTarget()))


def code(bpf):
    text = listing(bpf.compile(FakeTarget()).programs[0].code.instructions)
    return "\n".join(line for line in text.splitlines() if not line.lstrip().startswith(";"))


def test_a_header_is_tested_before_it_is_used():
    """What may not be there any more is an error before the verifier."""
    bpf = Module()

    @bpf.xdp()
    def drop(ctx):
        ip = ctx.packet.header(IPv4, at=14)
        return XDP_DROP if ip.protocol == IPPROTO_UDP else XDP_PASS

    assert refused(bpf) == "the record IPv4 (the packet) may be None: test it with `is None` first"


@pytest.mark.parametrize("helper", ["xdp_adjust_head", "xdp_adjust_tail"])
def test_a_header_is_gone_after_a_helper_that_moves_the_packet(helper):
    bpf = Module()
    move = getattr(helpers, helper)

    @bpf.xdp()
    def drop(ctx):
        ethernet = ctx.packet.header(Ethernet)
        if ethernet is None or move(ctx, 4) != 0:
            return XDP_DROP
        return ethernet.protocol

    assert refused(bpf) == (
        f"the record Ethernet (the packet) is used after helpers.{helper}(): copy what you need first"
    )


def test_a_header_is_gone_after_a_dynptr_wrote_to_the_packet():
    bpf = Module()

    @bpf.tc("egress")
    def mark(ctx):
        ethernet = ctx.packet.header(Ethernet)
        if ethernet is None:
            return 0
        packet = dynptr(ctx)
        packet.write(0, 7, u8)
        return ethernet.protocol

    assert "is used after write() of the packet's dynptr: copy what you need first" in refused(bpf, WithDynptrs())


def test_a_header_is_gone_in_the_next_round():
    """What a loop's own helper moved is gone where the loop begins again; read anew in each round, it is there."""
    bpf = Module()

    @bpf.xdp()
    def drop(ctx):
        ethernet = ctx.packet.header(Ethernet)
        if ethernet is None:
            return XDP_DROP
        for _ in range(3):
            if ethernet.protocol == 1:
                return XDP_DROP
            helpers.xdp_adjust_tail(ctx, -1)
        return XDP_PASS

    assert refused(bpf).startswith("the record Ethernet (the packet) is used after helpers.xdp_adjust_tail() in an")


def test_an_offset_needs_no_bounds():
    """One known only at run time may lie anywhere: there is no header then."""
    bpf = Module()

    @bpf.tc("ingress")
    def classify(ctx):
        udp = ctx.packet.header(UDP, at=ctx.mark)
        return TCX_NEXT if udp is None else 0

    assert code(bpf)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (
            "ctx.packet.header(u64)",
            "ctx.packet.header() takes a Struct, such as IPv4 of pyebpf.packet, or u8[n]",
        ),
        ("ctx.packet.header(UDP, at=70000)", "at=70000 lies outside every packet: give 0 to 65527"),
        ("ctx.packet.header(UDP, at=-1)", "at=-1 lies outside every packet: give 0 to 65527"),
        ("ctx.packet.headers(UDP)", "the packet has no attribute headers (did you mean header?)"),
        ("ctx.packet[0]", "the packet cannot be indexed: write ctx.packet.header("),
        ("ctx.ifindex", "the context of an XDP program has no field ifindex (did you mean ingress_ifindex?)"),
    ],
)
def test_refusals_of_xdp(body, message):
    bpf = Module()
    bpf.define(f"@bpf.xdp()\ndef drop(ctx):\n    x = {body}\n    return 1\n", {"u64": u64, "UDP": UDP})
    assert refused(bpf).startswith(message)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("ctx.len = 3", "len is only read here; what can be written is cb, mark, priority, queue_mapping, tc_classid"),
        ("ctx.cb = 3", "cb has elements to assign to; what can be written is cb,"),
        ("x = ctx.family", "family: sched cls programs cannot access this field of the sk_buff"),
        ("x = ctx.marks", "an sk_buff has no field marks (did you mean mark?)"),
        ("x = ctx.cb[5]", "index 5 is outside"),
        ("ctx.cb[0] += 1\n    ctx.mark = ctx.hash\n    return ctx.ip", "an sk_buff has no field ip"),
    ],
)
def test_refusals_of_tc(body, message):
    bpf = Module()
    bpf.define(f"@bpf.tc('ingress')\ndef classify(ctx):\n    {body}\n    return 0\n")
    assert refused(bpf).startswith(message)


def test_every_path_returns_a_verdict():
    bpf = Module()

    @bpf.xdp()
    def drop(ctx):
        if len(ctx.packet) > 100:
            return XDP_DROP

    assert "return" in refused(bpf)


@pytest.mark.parametrize(
    ("decorate", "message"),
    [
        (lambda b: b.xdp("eth0", mode="fast"), "@bpf.xdp(mode='fast'): mode is 'native' or 'generic'"),
        (lambda b: b.xdp("eth0", by="ip"), "@bpf.xdp(by='ip'): by is 'link' or 'netlink'"),
        (lambda b: b.tc("eth0"), '@bpf.tc(\'eth0\'): write tc("eth0", "ingress") or "egress"'),
        (lambda b: b.netkit("nk0", "out"), '@bpf.netkit(\'nk0\', \'out\'): write netkit("nk0", "primary") or "peer"'),
    ],
)
def test_decorators_refuse_what_no_kernel_takes(decorate, message):
    with pytest.raises(InvalidValue) as caught:
        decorate(Module())
    assert str(caught.value) == message


def test_constants_are_swapped_while_compiling():
    """Fields in network order are compared as they lie; the context is read once."""
    bpf = Module()

    @bpf.xdp()
    def drop(ctx):
        ethernet = ctx.packet.header(Ethernet)
        if ethernet is None or ethernet.protocol != 0x0800:
            return XDP_PASS
        udp = ctx.packet.header(UDP, at=34)
        if udp is None or udp.destination != 53:
            return XDP_PASS
        return XDP_DROP

    text = code(bpf)
    assert "be16" not in text
    assert text.count("(r1 + ") == 2
    assert "!= 8 " in text
    assert str(53 << 8) in text


def test_bits_are_read_and_written_in_their_field():
    bpf = Module()

    @bpf.tc("egress")
    def mark(ctx):
        ip = ctx.packet.header(IPv4, at=14)
        if ip is None:
            return TCX_NEXT
        ip.dscp = 46
        ip.ecn = ip.ecn | 1
        return ip.header_length

    assert "call" not in code(bpf)
    header = IPv4(version_and_length=0x46)
    assert header.header_length == 24
    header.header_length = 20
    assert header.version_and_length == 0x45
    with pytest.raises(InvalidValue, match="22 does not fit header_length, which holds 0 to 60 in steps of 4"):
        header.header_length = 22


def test_a_constant_that_the_bits_cannot_hold_is_refused():
    bpf = Module()

    @bpf.tc("egress")
    def mark(ctx):
        ip = ctx.packet.header(IPv4)
        if ip is not None:
            ip.dscp = 64
        return 0

    assert refused(bpf) == "64 does not fit dscp, which holds 0 to 63"
