"""Packets in the kernel: headers at fixed and computed places, changed in place, moved; frames made by the test."""

from __future__ import annotations

import re
import runpy

import pytest

import pyebpf.endpoints
import pyebpf.packet
from pyebpf import BPF, XDP_DROP, XDP_PASS, XDP_TX, SkBuff, Struct, XdpContext, be16, field, helpers, u8, u64
from pyebpf.packet import (
    ETH_P_8021Q,
    ETH_P_IP,
    ICMP,
    IPPROTO_ICMP,
    IPPROTO_UDP,
    TCP,
    UDP,
    VLAN,
    Ethernet,
    IPv4,
    IPv6,
    checksum,
)
from pyebpf.types import array
from tests.support.python import ROOT
from tests.support.traffic import udp_frame

PORT = 7919


def run(bpf: BPF, frame: bytes, context: bytes = b""):
    """What the only program returns for a frame, and the frame after it."""
    (program,) = bpf.programs.values()
    done = program.test_run(data=frame, data_out=2048, context=context, repeat=1)
    return done.retval, done.data


@pytest.fixture
def drop_udp():
    """The example's function."""
    return runpy.run_path(str(ROOT / "docs" / "examples" / "drop_udp.py"))["drop_udp"]


def test_the_example_drops_what_it_says(drop_udp):
    """Every length of IPv4 options, other ports and protocols, and every truncation of one frame."""
    bpf = drop_udp("lo", PORT)  # which nothing is attached to: it is only loaded
    frames = [(udp_frame(PORT, options=words), XDP_DROP) for words in range(11)]
    frames += [(udp_frame(PORT + 1, options=words), XDP_PASS) for words in range(11)]
    whole = udp_frame(PORT, b"")
    frames += [(whole[:size], XDP_PASS) for size in range(14, len(whole))]
    other = bytearray(whole)
    other[23] = IPPROTO_ICMP
    frames += [(whole, XDP_DROP), (bytes(other), XDP_PASS), (b"\xff" * 60, XDP_PASS)]
    bpf.load()
    try:
        assert [(run(bpf, frame)[0], len(frame)) for frame, _ in frames] == [(v, len(f)) for f, v in frames]
        assert bpf["dropped"][0] == 12
    finally:
        bpf.close()


def test_fields_are_written_in_place():
    """A router's step: addresses exchanged, the time to live one less, its checksum kept right, sent back."""
    bpf = BPF()

    @bpf.xdp()
    def route(ctx: XdpContext) -> int:
        ethernet = ctx.packet.header(Ethernet)
        ip = ctx.packet.header(IPv4, at=14)
        if ethernet is None or ip is None or ip.ttl <= 1:
            return XDP_DROP
        first = ctx.packet.header(Station, at=6)
        if first is None:
            return XDP_DROP
        kept = Station(first.address)
        ethernet.source = ethernet.destination
        ethernet.destination = kept.address
        ip.ttl -= 1
        total = ip.checksum + 0x100
        ip.checksum = (total & 0xFFFF) + (total >> 16)
        ip.dscp = 46
        ip.dscp = 0
        return XDP_TX

    frame = bytearray(udp_frame(PORT, ttl=7))
    frame[:12] = b"abcdefABCDEF"
    bpf.load()
    try:
        verdict, after = run(bpf, bytes(frame))
        assert verdict == XDP_TX
        assert after[:12] == b"ABCDEFabcdef"
        ip = IPv4.from_bytes(after[14:34])
        assert ip.ttl == 6
        assert checksum(after[14:34]) == 0
        assert after[34:] == bytes(frame)[34:]
        assert run(bpf, udp_frame(PORT, ttl=1))[0] == XDP_DROP
    finally:
        bpf.close()


class Station(Struct):
    address: bytes = field(array(u8, 6))


class Option(Struct):
    kind: u8
    length: u8


def test_offsets_computed_from_the_packet():
    """TCP options are walked to the wanted one; a 16-bit offset in network order is tested before it is used."""
    bpf = BPF()

    @bpf.xdp()
    def find(ctx: XdpContext) -> int:
        tcp = ctx.packet.header(TCP, at=34)
        if tcp is None:
            return 0
        where = 54
        for _ in range(10):
            if not 0 < where < 200:
                break
            option = ctx.packet.header(Option, at=where)
            if option is None or where >= 34 + tcp.header_length:
                break
            if option.kind == 8:
                return where
            where += 1 if option.kind == 1 else option.length
        urgent = tcp.urgent
        if urgent > 1400:
            return 1
        pointed = ctx.packet.header(array(u8, 2), at=urgent)
        return 2 if pointed is None else 1000 + pointed[0]

    def frame(options: bytes, urgent: int = 0) -> bytes:
        padded = options.ljust(-(-len(options) // 4) * 4, b"\1")
        tcp = TCP(urgent=urgent)
        tcp.header_length = 20 + len(padded)
        return Ethernet().to_bytes() + IPv4(protocol=6).to_bytes() + tcp.to_bytes() + padded + b"data"

    bpf.load()
    try:
        assert run(bpf, frame(b"\2\4\5\xb4\1\1\x08\x0a12345678"))[0] == 54 + 6
        assert run(bpf, frame(b"\1\1\1\x08\x0a12345678", 77))[0] == 54 + 3
        assert run(bpf, frame(b"\2\4\5\xb4", 58))[0] == 1000 + ord("d")
        assert run(bpf, frame(b"\2\4\5\xb4", 500))[0] == 2
        assert run(bpf, frame(b"\2\4\5\xb4", 1401))[0] == 1
    finally:
        bpf.close()


def test_elements_are_found_by_computed_indices():
    """An index that each packet has for itself, tested or masked: read and written where the bytes lie."""
    bpf = BPF()

    @bpf.xdp()
    def pick(ctx: XdpContext) -> int:
        numbers = ctx.packet.header(array(be16, 8), at=14)
        chosen = ctx.packet.header(array(u8, 2), at=30)
        if numbers is None or chosen is None:
            return 0
        first, second = chosen[0], chosen[1] & 7
        if first >= 8:
            return 1
        numbers[second] = numbers[first] + 1
        for i in range(8):
            numbers[i] += i
        return numbers[first]

    def frame(first: int, second: int) -> bytes:
        numbers = b"".join((1000 * i).to_bytes(2, "big") for i in range(8))
        return Ethernet().to_bytes() + numbers + bytes([first, second]) + b"tail"

    bpf.load()
    try:
        verdict, after = run(bpf, frame(5, 2 + 8))
        assert verdict == 5005
        numbers = [int.from_bytes(after[14 + 2 * i : 16 + 2 * i], "big") for i in range(8)]
        assert numbers == [0, 1001, 5001 + 2, 3003, 4004, 5005, 6006, 7007]
        assert run(bpf, frame(8, 2))[0] == 1
    finally:
        bpf.close()


def test_headers_of_every_kind_read_as_they_were_made():
    """VLAN, IPv6 with ICMP, IPv4 with TCP flags: each field that a program reads is the one that Python wrote."""
    bpf = BPF()
    seen = bpf.array(value=u64, size=8)

    @bpf.xdp()
    def read(ctx: XdpContext) -> int:
        ethernet = ctx.packet.header(Ethernet)
        vlan = ctx.packet.header(VLAN, at=14)
        ip = ctx.packet.header(IPv6, at=18)
        icmp = ctx.packet.header(ICMP, at=58)
        if ethernet is None or vlan is None or ip is None or icmp is None:
            return XDP_DROP
        seen[0] = ethernet.protocol
        seen[1] = vlan.id
        seen[2] = vlan.priority
        seen[3] = ip.flow_label
        seen[4] = ip.hop_limit
        seen[5] = icmp.identifier
        seen[6] = icmp.sequence
        if ip.source == b"\xfd" + bytes(14) + b"\x07":
            seen[7] = len(ctx.packet)
        return XDP_PASS

    vlan = VLAN(protocol=0x86DD)
    vlan.id, vlan.priority = 4057, 5
    ip = IPv6(source=b"\xfd" + bytes(14) + b"\x07", hop_limit=3)
    ip.flow_label = 0xABCDE
    icmp = ICMP(128)
    icmp.identifier, icmp.sequence = 31337, 11
    frame = Ethernet(protocol=ETH_P_8021Q).to_bytes() + vlan.to_bytes() + ip.to_bytes() + icmp.to_bytes() + b"12345"
    bpf.load()
    try:
        assert run(bpf, frame)[0] == XDP_PASS
        assert [seen[i] for i in range(8)] == [ETH_P_8021Q, 4057, 5, 0xABCDE, 3, 31337, 11, len(frame)]
    finally:
        bpf.close()


class Tag(Struct):
    destination: bytes = field(array(u8, 6))
    source: bytes = field(array(u8, 6))
    tpid: be16
    tci: be16


def test_a_packet_grows_and_shrinks_at_its_head():
    """A VLAN tag is put in by one program and taken out by another: the frame is as before, byte for byte."""
    push, pop = BPF(), BPF()

    @push.xdp()
    def tag(ctx: XdpContext) -> int:
        before = ctx.packet.header(Ethernet)
        if before is None:
            return XDP_DROP
        kept = Tag(before.destination, before.source, ETH_P_8021Q, 42)
        if helpers.xdp_adjust_head(ctx, -4) != 0:
            return XDP_DROP
        after = ctx.packet.header(Tag)
        if after is None:
            return XDP_DROP
        after.destination = kept.destination
        after.source = kept.source
        after.tpid = kept.tpid
        after.tci = kept.tci
        return XDP_PASS

    @pop.xdp()
    def untag(ctx: XdpContext) -> int:
        tag = ctx.packet.header(Tag)
        if tag is None or tag.tpid != ETH_P_8021Q or tag.tci != 42:
            return XDP_DROP
        kept = Tag(tag.destination, tag.source, 0, 0)
        if helpers.xdp_adjust_head(ctx, 4) != 0:
            return XDP_DROP
        ethernet = ctx.packet.header(Ethernet)
        if ethernet is None:
            return XDP_DROP
        ethernet.destination = kept.destination
        ethernet.source = kept.source
        return XDP_PASS

    frame = b"abcdefABCDEF" + udp_frame(PORT)[12:]
    push.load()
    pop.load()
    try:
        verdict, tagged = run(push, frame)
        assert verdict == XDP_PASS
        assert tagged == frame[:12] + b"\x81\x00\x00\x2a" + frame[12:]
        assert run(pop, tagged) == (XDP_PASS, frame)
        assert run(pop, frame)[0] == XDP_DROP
    finally:
        push.close()
        pop.close()


def test_a_packet_is_cut_in_a_loop():
    """The packet is cut by one byte at a time up to its first `x`; each round finds its end anew."""
    bpf = BPF()

    @bpf.xdp()
    def cut(ctx: XdpContext) -> int:
        for _ in range(30):
            last = ctx.packet.header(array(u8, 1), at=41)
            if last is None:
                return XDP_PASS
            if helpers.xdp_adjust_tail(ctx, -1) != 0:
                return XDP_DROP
        return XDP_DROP

    bpf.load()
    try:
        verdict, after = run(bpf, udp_frame(PORT, b"x" * 19))
        assert (verdict, len(after)) == (XDP_PASS, 41)
    finally:
        bpf.close()


# struct __sk_buff as PROG_TEST_RUN takes it: 192 bytes; mark at 8, priority at 32, cb at 48.
SKB = 192


def test_fields_of_an_sk_buff():
    """Fields read and written by name; ports and protocols are numbers of this machine."""
    bpf = BPF()

    @bpf.tc("ingress")
    def classify(ctx: SkBuff) -> int:
        if ctx.protocol != ETH_P_IP or ctx.len != len(ctx.packet) or ctx.mark != 5:
            return 1
        ctx.mark = ctx.mark + 3
        ctx.priority = ctx.cb[1] + 1
        ctx.cb[0] = ctx.len
        ctx.cb[4] = 0
        return 0

    context = bytearray(SKB)
    context[8], context[52], context[64] = 5, 30, 9
    bpf.load()
    try:
        (program,) = bpf.programs.values()
        done = program.test_run(data=udp_frame(PORT), data_out=2048, context=bytes(context), repeat=1)
        assert done.retval == 0
        words = [int.from_bytes(done.context[at : at + 4], "little") for at in (8, 32, 48, 52, 64)]
        assert words == [8, 31, len(udp_frame(PORT)), 30, 0]
    finally:
        bpf.close()


class Port(Struct):
    number: be16


def test_helpers_of_an_sk_buff():
    """A port is rewritten by skb_store_bytes, its checksum by l4_csum_replace, a tag put on; copies by load()."""
    bpf = BPF()

    @bpf.tc("egress")
    def rewrite(ctx: SkBuff) -> int:
        udp = ctx.packet.load(UDP, at=34)
        if udp is None or udp.destination != PORT:
            return 2
        if ctx.packet.load(UDP, at=5000) is not None:
            return 3
        before = Port(PORT)
        after = Port(PORT + 2)
        if helpers.l4_csum_replace(ctx, 40, PORT, PORT + 2, 2) != 0:
            return 4
        if helpers.skb_store_bytes(ctx, 36, after, 2, 0) != 0:
            return 5
        if helpers.skb_vlan_push(ctx, 0x0081, 7) != 0:
            return 6
        ip = ctx.packet.header(IPv4, at=14)
        if ip is None or ip.protocol != IPPROTO_UDP or before.number != PORT:
            return 7
        return 0

    bpf.load()
    try:
        frame = udp_frame(PORT)
        verdict, after = run(bpf, frame)
        assert verdict == 0
        udp = UDP.from_bytes(after[34:42])
        assert (udp.source, udp.destination) == (1024, PORT + 2)
        assert run(bpf, udp_frame(PORT + 1))[0] == 2
    finally:
        bpf.close()


def test_the_page_keeps_its_word():
    """Every program of docs/packets.md, and of the sections on XDP, tc and links, compiles and passes the verifier."""
    pages = [(ROOT / "docs" / name).read_text() for name in ("packets.md", "attachments.md")]
    attachments = pages[1].partition("\n## XDP\n")[2].partition("\n## Sockets\n")[0]
    blocks = re.findall(r"^```python\n(.*?)^```$", pages[0] + attachments, re.MULTILINE | re.DOTALL)
    programs = [
        text.partition("\nwith bpf")[0].replace('"eth0"', '"lo"')
        for text in blocks
        # `lo` has no driver to ask: tests/kernel/test_xdp_metadata.py
        if "\n@bpf." in "\n" + text
        and "hints=True" not in text
        and "\nbpf = BPF()" not in text  # a whole program: tests/kernel/test_examples_of_pages.py
    ]
    assert len(programs) >= 4
    for text in programs:
        bpf = BPF()
        names = {
            **vars(pyebpf.packet),
            **vars(pyebpf.endpoints),
            **{name: getattr(pyebpf, name) for name in pyebpf.__all__},
            "BPF": None,
        }
        dropped = bpf.percpu_array(value=u64, size=8, name="dropped")
        bpf.define(text, {**names, "dropped": dropped})
        bpf.load()
        assert bpf.programs
        bpf.close()


@pytest.mark.any_kernel
def test_the_page_lists_the_fields_of_headers():
    """All of them, in their order."""
    rows = re.findall(r"^\| `(\w+)` \| (`.+`) \|$", (ROOT / "docs" / "packets.md").read_text(), re.MULTILINE)
    listed = {name: re.findall(r"`(\w+)`", fields) for name, fields in rows if name in pyebpf.packet.__all__}
    found = {name: getattr(pyebpf.packet, name) for name in pyebpf.packet.__all__}
    assert listed == {name: list(each.__annotations__) for name, each in found.items() if isinstance(each, type)}
