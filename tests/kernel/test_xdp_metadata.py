"""Metadata: what XDP leaves in front of a frame and tc finds there."""

from __future__ import annotations

import contextlib
import errno

import pytest

from pyebpf import (
    BPF,
    TCX_NEXT,
    XDP_ABORTED,
    XDP_PASS,
    CompileError,
    SkBuff,
    Struct,
    XdpContext,
    array,
    field,
    helpers,
    s64,
    u8,
    u16,
    u32,
    u64,
)
from pyebpf.packet import ETH_P_IP, UDP, Ethernet
from tests.support.namespaces import namespace
from tests.support.traffic import connect, inside, receiver, send, settled, udp_frame

pytestmark = pytest.mark.machine(modules=("veth", "sch_ingress", "cls_bpf"))

PORT = 7931


class Verdict(Struct):
    """What XDP has to say of a frame."""

    port: u16
    length: u16
    letters: bytes = field(array(u8, 4))


@pytest.fixture(scope="module")
def pair():
    """Two namespaces, joined by a veth pair whose ends are called veth0: 10.251.0.1 and 10.251.0.2."""
    with namespace() as here, namespace() as there:
        connect(here, there)
        yield here, there


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
