"""Metadata: what XDP leaves in front of a frame and tc finds there, and what the driver tells XDP."""

from __future__ import annotations

import contextlib
import errno
import re
from pathlib import Path

import pytest

import pyebpf
from pyebpf import (
    BPF,
    TCX_NEXT,
    XDP_ABORTED,
    XDP_PASS,
    CompileError,
    InvalidValue,
    KernelError,
    NotFound,
    SkBuff,
    Struct,
    XdpContext,
    array,
    field,
    helpers,
    kfunc,
    s64,
    u8,
    u16,
    u32,
    u64,
)
from pyebpf.packet import ETH_P_IP, UDP, Ethernet
from tests.support.needs import needs
from tests.support.traffic import inside, receiver, send, settled, udp_frame

pytestmark = pytest.mark.machine(modules=("veth", "sch_ingress", "cls_bpf"))

PORT = 7931


class Verdict(Struct):
    """What XDP has to say of a frame."""

    port: u16
    length: u16
    letters: bytes = field(array(u8, 4))


def leaving(*interface, mode=""):
    """Ports of datagrams, how long the metadata is, and four letters, the third by its index."""
    bpf = BPF()

    @bpf.xdp(*interface, mode=mode)
    def leave(ctx: XdpContext) -> int:
        if helpers.xdp_adjust_meta(ctx, -8) != 0:
            return XDP_ABORTED
        verdict = ctx.data_meta.header(Verdict)
        ethernet = ctx.packet.header(Ethernet)
        udp = ctx.packet.header(UDP, at=34)
        if verdict is None or ethernet is None or udp is None:
            return XDP_PASS
        verdict.port = udp.destination
        verdict.length = len(ctx.data_meta)
        verdict.letters = b"abcd"
        verdict.letters[ethernet.protocol >> 10 & 3] = ord("X")  # ETH_P_IP: 2
        return XDP_PASS

    return bpf


def finding(*where):
    """Datagrams by the port that XDP left, if it left all else, too; those without a word of it."""
    bpf = BPF()
    found, nothing = bpf.hash(key=u32, value=u64, name="found"), bpf.array(value=u64, name="nothing")

    @bpf.tc(*where)
    def find(ctx: SkBuff) -> int:
        udp = ctx.packet.header(UDP, at=34)
        if ctx.protocol != ETH_P_IP or udp is None or udp.destination < PORT or udp.destination > PORT + 1:
            return TCX_NEXT
        verdict = ctx.data_meta.header(Verdict)
        if verdict is None:
            nothing[0] += 1
        elif verdict.length == 8 and verdict.letters == b"abXd" and ctx.data_meta.header(u8[1], at=8) is None:
            found[verdict.port] += 1
        return TCX_NEXT

    return bpf


@pytest.mark.parametrize("mode", ["native", "generic"])
def test_what_xdp_leaves_tc_finds(pair, mode):
    """23 and 11 datagrams by port; without the XDP program 7 come with nothing in front of them."""
    here, there = pair
    with contextlib.ExitStack() as stack:
        arrived = stack.enter_context(receiver(there, PORT))
        stack.enter_context(receiver(there, PORT + 1))
        stack.enter_context(inside(there))
        behind = stack.enter_context(finding("veth0", "ingress"))
        with leaving("veth0", mode=mode):
            send(here, ("10.251.0.2", PORT), 23)
            send(here, ("10.251.0.2", PORT + 1), 11)
            assert settled(arrived, 23) == 23
            assert (dict(behind["found"]), behind["nothing"][0]) == ({PORT: 23, PORT + 1: 11}, 0)
        send(here, ("10.251.0.2", PORT), 7)
        assert settled(arrived, 7) == 7
        assert (dict(behind["found"]), behind["nothing"][0]) == ({PORT: 23, PORT + 1: 11}, 7)


def test_what_the_kernel_makes_room_for():
    """Multiples of four bytes; frames look the same behind it."""
    bpf = BPF()
    answers = bpf.array(value=s64, size=3)

    @bpf.xdp()
    def asks(ctx: XdpContext) -> int:
        answers[0] = helpers.xdp_adjust_meta(ctx, -6)
        answers[1] = helpers.xdp_adjust_meta(ctx, -32)
        answers[2] = len(ctx.data_meta) * 1000 + len(ctx.packet)
        return XDP_PASS

    frame = udp_frame(PORT)
    bpf.load()
    try:
        done = asks.program.test_run(data=frame, data_out=2048)
        assert (done.retval, done.data[-len(frame) :]) == (XDP_PASS, frame)  # behind the metadata
        assert dict(answers) == {0: -errno.EACCES, 1: 0, 2: 32_000 + len(frame)}
    finally:
        bpf.close()


@pytest.mark.parametrize(
    ("decorator", "line", "message"),
    [
        ("xdp()", "x = ctx.data_meta.header(u8[4])[0]", r"the metadata may be None: test it with `is None` first"),
        ("xdp()", "x = ctx.data_meta.load(u8[4])", r"the metadata is read in place: write .header\(u8\[4\], at=…\)"),
        ("socket_filter()", "x = ctx.data_meta", r"an sk_buff has no field data_meta"),
    ],
)
def test_refusals(decorator, line, message):
    """What may not be there is tested; only tc programs have what XDP left."""
    bpf = BPF()
    bpf.define(f"@bpf.{decorator}\ndef wrong(ctx) -> int:\n    {line}\n    return 1\n", {"u8": u8})
    with pytest.raises(CompileError, match=message):
        bpf.specs()


def test_room_that_moves_ends_headers():
    """What was found before more room was made is found again, or refused."""
    bpf = BPF()
    bpf.define(
        "@bpf.xdp()\ndef wrong(ctx) -> int:\n    ip = ctx.packet.header(u8[20])\n    if ip is None:\n        return 1\n"
        "    helpers.xdp_adjust_meta(ctx, -4)\n    return ip[0]\n",
        {"u8": u8, "helpers": helpers},
    )
    with pytest.raises(CompileError, match=r"helpers\.xdp_adjust_meta\(\)"):
        bpf.specs()


class Answer(Struct):
    """What a driver writes."""

    value: u32


def asking(*interfaces, **options):
    """Hashes of datagrams by their kind, and what the driver answers."""
    bpf = BPF()
    answers, kinds = bpf.hash(key=s64, value=u64, name="answers"), bpf.hash(key=u32, value=u64, name="kinds")

    @bpf.xdp(*interfaces, **options)
    def asks(ctx: XdpContext) -> int:
        udp = ctx.packet.header(UDP, at=34)
        if udp is None or udp.destination != PORT:
            return XDP_PASS
        found, kind = Answer(value=0), Answer(value=0)
        answer = kfunc("bpf_xdp_metadata_rx_hash")(ctx, found, kind)
        answers[answer] += 1
        if answer == 0 and found.value != 0:
            kinds[kind.value] += 1
        return XDP_PASS

    return bpf


@pytest.mark.parametrize("by", ["link", "netlink"])
def test_what_the_driver_knows(pair, by):
    """Veth's driver hashes 17 datagrams by their ports (XDP_RSS_TYPE_L4, 8); detached, it is asked no more."""
    needs("kfunc:bpf_xdp_metadata_rx_hash")
    here, there = pair
    with receiver(there, PORT) as arrived, inside(there), asking("veth0", hints=True, by=by) as bpf:
        send(here, ("10.251.0.2", PORT), 17)
        assert settled(arrived, 17) == 17
        assert (dict(bpf["answers"]), dict(bpf["kinds"])) == ({0: 17}, {8: 17})
        bpf.detach()
        send(here, ("10.251.0.2", PORT), 5)
        assert settled(arrived, 5) == 5
        assert dict(bpf["answers"]) == {0: 17}


def test_a_driver_is_named(pair):
    """A program is for the one interface that it names, in its driver; one that asks without saying so is refused."""
    needs("kfunc:bpf_xdp_metadata_rx_hash")
    _, there = pair
    with inside(there):
        with pytest.raises(CompileError, match=r"calls the driver of one interface: write @bpf.xdp\(…, hints=True\)"):
            asking("veth0").specs()
        for interfaces, options in (((), {}), (("veth0",), {"mode": "generic"})):
            with pytest.raises(InvalidValue, match="name the interface whose driver is asked, and no generic mode"):
                asking(*interfaces, hints=True, **options)
        with pytest.raises(NotFound, match="no network interface 'veth8'"), asking("veth8", hints=True):
            pass
        with (
            pytest.raises(KernelError, match="the driver of lo has no functions for XDP programs"),
            asking("lo", hints=True),
        ):
            pass


def test_the_page_keeps_its_word(pair):
    """The program of docs/packets.md counts each of 7 frames once, at the interface that it is loaded for."""
    needs("kfunc:bpf_xdp_metadata_rx_hash")
    here, there = pair
    page = (Path(__file__).resolve().parents[2] / "docs" / "packets.md").read_text("utf-8")
    (block,) = (
        text for text in re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL) if "hints" in text
    )
    bpf = BPF()
    dropped = bpf.percpu_array(value=u64, size=8, name="dropped")
    names = {name: getattr(pyebpf, name) for name in pyebpf.__all__}
    bpf.define(block.replace('"eth0"', '"veth0"'), {**names, "bpf": bpf, "dropped": dropped})
    with receiver(there, PORT) as arrived, inside(there), bpf:
        send(here, ("10.251.0.2", PORT), 7)
        assert settled(arrived, 7) == 7
        assert sum(dropped.values()) >= 7  # frames of neighbours' discovery come, too
