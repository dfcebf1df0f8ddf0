"""Strings in packets, which other machines wrote: full to the last byte, or with junk behind their NUL."""

from __future__ import annotations

import struct

import pytest

from pyebpf import BPF, CompileError, Struct, be16, char, field, s64, u8, u16, u64
from tests.support.needs import needs


class Inner(Struct):
    tag: str = field(char[5])
    more: u8


class Head(Struct):
    kind: u8
    odd: be16
    name: str = field(char[8])
    inner: Inner
    raw: bytes = field(u8[4])
    numbers: list = field(u16[3])


class Kept(Struct):
    at: u64
    head: Head
    name: str = field(char[4])


#: What a name looks like on the wire, and the string that it is.
NAMES = {
    b"abc": "abc",
    b"abc\0xyz": "abc",
    b"\0bc\0xyz": "",
    b"abcdefg": "abcdefg",
    b"abcdefgh": "abcdefg",
    b"\xff\xfe\x80\x81\x01\0\x01\x01": "\udcff\udcfe\udc80\udc81\x01",
    b"\x01\x01\0\x01\x01\x01\x01\x01": "\x01\x01",
}


def packet(name, tag=b"t\0ag!", kind=5):
    """A frame with a Head at byte 16."""
    packed = struct.pack("<BxH8s5sB4s3H", kind, 0x0201, name, tag, 9, b"wxyz", 10, 11, 12)
    assert len(packed) == Head.layout.size
    return bytes(16) + packed + bytes(40)


def test_a_name_is_what_c_reads():
    """Length, equality, beginnings, single bytes, keys and records: all up to the NUL, in place and in copies."""
    needs("helper:xdp_load_bytes@xdp")
    bpf = BPF()
    out = bpf.array(value=s64, size=16)
    names = bpf.hash(key=char[8], value=u64)
    kept = bpf.array(value=Kept, size=2)

    @bpf.xdp()
    def look(ctx):
        head = ctx.packet.header(Head, at=16)
        copy = ctx.packet.load(Head, at=16)
        if head is None or copy is None:
            return 1
        name = head.name
        out[0] = len(head.name)
        out[1] = head.name == "abc"
        out[2] = head.name == "abcdefg"
        out[3] = head.name.startswith("abc")
        out[4] = head.name[head.kind & 7]
        out[5] = name != copy.name
        out[6] = head.name in ("x", "abc")
        out[7] = head.name[0]
        names[head.name] += 1
        names[name] += 1
        names[copy.name] += 1
        kept[0] = Kept(at=1, head=head, name=head.name)
        kept[1].head = copy
        for i in range(len(name)):
            out[8] += name[i]
        if head.name:
            out[9] = head.raw[head.kind & 3] + head.numbers[head.kind & 1] + len(head.raw)
        head.name = "new"
        out[10] = head.name == "new" and len(head.name) == 3
        return 2

    with bpf:
        for wire, text in NAMES.items():
            names.clear()
            out.clear()
            assert look.program.test_run(data=packet(wire)).retval == 2
            raw = text.encode("utf-8", "surrogateescape")
            padded = raw.ljust(8, b"\0")
            expected = [len(raw), text == "abc", text == "abcdefg", text.startswith("abc"), padded[5], 0, text == "abc"]
            expected += [padded[0], sum(raw), ord("x") + 11 + 4 if raw else 0, 1]
            assert [out[i] for i in range(11)] == expected, wire
            assert dict(names.items()) == {text: 3}
            head = Head(kind=5, odd=0x0102, name=text, inner=Inner(tag="t", more=9), raw=b"wxyz", numbers=[10, 11, 12])
            assert (kept[0].head, kept[1].head) == (head, head)
            assert kept[0].name == raw[:3].decode("utf-8", "surrogateescape")


def test_what_a_name_in_a_packet_does_not_do():
    """Strings are not cut, or compared by order, in packets as elsewhere."""
    for text, message in (
        ('head.name < "b"', "the char[8] of the packet has no operator <: strings are compared by == and !="),
        ('head.name == "12345678"', "'12345678' can never fit char[8]: at most 7 bytes, none of them NUL"),
        ("head.name[8]", "index 8 is outside the char[8] of the packet: 0 to 7"),
    ):
        bpf = BPF()
        bpf.define(
            "@bpf.xdp()\ndef look(ctx):\n    head = ctx.packet.header(Head, at=16)\n"
            f"    if head is None:\n        return 1\n    return 1 if {text} else 2\n",
            {"Head": Head},
        )
        with pytest.raises(CompileError) as caught:
            bpf.specs()
        assert caught.value.message == message
