"""Walks through packets where each header tells the next: tested before, at the end of a round, or not at all."""

from __future__ import annotations

import random

import pytest

from pyebpf import BPF, XDP_DROP, XDP_PASS, SkBuff, Struct, XdpContext, s64, u8
from pyebpf.types import array
from tests.support.needs import needs


class Option(Struct):
    kind: u8
    size: u8


WALK = """
@bpf.xdp()
def walk(ctx: XdpContext) -> int:
    at = 14
    seen = 0
    {loop}:
        option = ctx.packet.{read}(Option, at=at)
        if option is None:
            {missing}
        seen += option.kind
        if option.size == 0:
            break
        at += option.size
        {last}
    told[0], told[1] = seen, at
    return XDP_PASS
"""
#: Each way to write the loop: the feature that it needs, its beginning, how a header is read, what is done without one,
#: and what stands at the end of a round.
WALKS = {
    "bound_at_the_end": (
        "isa:may_goto", "while True", "header", "return XDP_DROP", "if at + 2 > len(ctx.packet): break"
    ),
    "limited_at_the_end": (
        "isa:may_goto", "while True", "header", "return XDP_DROP", "if at > len(ctx.packet) - 2 or at > 1500: break"
    ),
    "counted": (
        "program:xdp", "for _ in range(200)", "header", "return XDP_DROP", "if at + 2 > len(ctx.packet): break"
    ),
    "never_tested": ("helper:xdp_load_bytes@xdp", "for _ in range(200)", "load", "break", ""),
}  # fmt: skip


def model(frame):
    """Kinds added up, and where the walk ended."""
    at, seen = 14, 0
    while at + 2 <= len(frame):
        seen += frame[at]
        if frame[at + 1] == 0:
            break
        at += frame[at + 1]
    return seen, at


def frames(count):
    """Frames of options of 2 to 40 bytes, some with an option of size 0 in the middle, cut anywhere."""
    chance = random.Random(19)
    for _ in range(count):
        data = bytearray(14)
        while len(data) < chance.randrange(60, 800):
            size = chance.choice((2, 2, 3, 7, 40)) if chance.random() > 0.01 else 0
            data += bytes((chance.randrange(256), size)) + bytes(max(size - 2, 0))
        yield bytes(data[: chance.randrange(16, len(data))])


@pytest.mark.parametrize(("feature", "loop", "read", "missing", "last"), WALKS.values(), ids=WALKS)
def test_options_are_walked_as_a_model_walks_them(feature, loop, read, missing, last):
    """The same sum of the kinds and the same last offset, whichever way the loop is written."""
    needs(feature)
    bpf = BPF()
    told = bpf.array(value=s64, size=2, name="told")
    text = WALK.format(loop=loop, read=read, missing=missing, last=last)
    names = {"told": told, "Option": Option, "XdpContext": XdpContext, "XDP_DROP": XDP_DROP, "XDP_PASS": XDP_PASS}
    bpf.define(text, names)
    bpf.load()
    try:
        (program,) = bpf.programs.values()
        for frame in frames(37):
            told[0] = told[1] = -1
            assert program.test_run(data=frame, data_out=2048).retval == XDP_PASS
            assert (told[0], told[1]) == model(frame), frame.hex()
    finally:
        bpf.close()


def test_no_header_is_outside_the_packet():
    """Whatever number the offset is: below zero, beyond every packet, or one whose low bits lie inside."""
    needs("helper:xdp_load_bytes@xdp")
    bpf = BPF()
    offset = bpf.array(value=s64, name="offset")

    @bpf.xdp()
    def program(ctx: XdpContext) -> int:
        found = ctx.packet.header(array(u8, 2), at=offset[0])
        copied = ctx.packet.load(array(u8, 2), at=offset[0])
        if found is None:
            return 0 if copied is None else 1
        return 2 if copied is None else 10 + found[1]

    bpf.load()
    try:
        (program,) = bpf.programs.values()
        for at in (0, 5, 62, 63, 64, 1500, 65533, 65534, 65536, -1, -2, 1 << 31, (1 << 32) + 4, -(1 << 32), -(1 << 63)):
            offset[0] = at
            expected = 10 + at + 1 if 0 <= at <= 62 else 0
            assert program.test_run(data=bytes(range(64)), data_out=2048).retval == expected, at
    finally:
        bpf.close()


def test_a_header_found_anywhere_is_written():
    """What is written at an offset that nothing bounds is in the frame; tc programs, too."""
    bpf = BPF()

    @bpf.tc("lo", "ingress")
    def program(ctx: SkBuff) -> int:
        found = ctx.packet.header(array(u8, 2), at=ctx.mark)
        if found is None:
            return 0
        found[0] = 7
        return 1

    bpf.load()
    try:
        (program,) = bpf.programs.values()
        done = program.test_run(data=bytes(64), data_out=2048)
        assert (done.retval, done.data[:3]) == (1, b"\x07\x00\x00")
    finally:
        bpf.close()
