"""Codecs of every type: bytes as C lays them out, back to the same value; what does not fit is refused."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, strategies as st

from pyebpf.errors import InvalidValue
from pyebpf.types import BOOL, INTEGERS, S64, Struct, char, field, ptr, u8, u16, u32, u64
from pyebpf.types.arrays import array_of

#: Bytes, signed, byte order: the C types that the names stand for.
EXPECTED = {
    "u8": (1, False, "little"), "u16": (2, False, "little"), "u32": (4, False, "little"), "u64": (8, False, "little"),
    "s8": (1, True, "little"), "s16": (2, True, "little"), "s32": (4, True, "little"), "s64": (8, True, "little"),
    "be16": (2, False, "big"), "be32": (4, False, "big"), "be64": (8, False, "big"),
}  # fmt: skip
NUMBERS = [INTEGERS[name] for name in EXPECTED]


def test_every_integer_type_is_here() -> None:
    assert {*EXPECTED, "bool"} == set(INTEGERS)


@pytest.mark.parametrize("type_", NUMBERS, ids=str)
@given(number=st.integers(-(1 << 70), 1 << 70))
def test_integers(type_: Any, number: int) -> None:
    """`wrap` keeps the low bytes; what fits encodes as C has it and comes back; what does not is refused."""
    size, signed, order = EXPECTED[type_.name]
    wrapped = int.from_bytes((number & ((1 << 8 * size) - 1)).to_bytes(size, "little"), "little", signed=signed)
    assert type_.wrap(number) == type_(number) == wrapped
    assert type_.decode(type_.encode(wrapped)) == wrapped
    assert type_.encode(wrapped) == wrapped.to_bytes(size, order, signed=signed)
    if wrapped != number:
        with pytest.raises(InvalidValue, match="does not fit"):
            type_.encode(number)


@pytest.mark.parametrize("type_", NUMBERS, ids=str)
def test_the_ends_of_each_type(type_: Any) -> None:
    """Its least and greatest number are inside, their neighbours outside."""
    size, signed, _ = EXPECTED[type_.name]
    least, most = (-(1 << 8 * size - 1), (1 << 8 * size - 1) - 1) if signed else (0, (1 << 8 * size) - 1)
    assert (type_.minimum, type_.maximum, type_.size, type_.align) == (least, most, size, size)
    assert [type_.decode(type_.encode(number)) for number in (least, most)] == [least, most]
    for outside in (least - 1, most + 1):
        with pytest.raises(InvalidValue, match=f"from {least} to {most}"):
            type_.encode(outside)


def test_bool() -> None:
    """A store of any number but 0 reads back as 1; only 0 and 1 are encoded."""
    assert [BOOL.wrap(number) for number in (-7, 0, 1, 256)] == [1, 0, 1, 1]
    assert [BOOL.encode(value) for value in (False, True, 0, 1)] == [b"\0", b"\1", b"\0", b"\1"]
    assert [BOOL.decode(bytes([byte])) for byte in (0, 1, 2, 255)] == [False, True, True, True]
    for outside in (-1, 2):
        with pytest.raises(InvalidValue, match="from 0 to 1"):
            BOOL.encode(outside)


@given(st.binary(max_size=20))
def test_strings(raw: bytes) -> None:
    """Any bytes without a NUL that leave room for one, zeros behind them; what is not UTF-8 survives."""
    type_ = char[16]
    text = raw.decode("utf-8", "surrogateescape")
    if len(raw) > 15 or 0 in raw:
        with pytest.raises(InvalidValue, match="at most 15 bytes, none of them NUL"):
            type_.encode(text)
        return
    assert type_.encode(text) == type_.encode(raw) == raw.ljust(16, b"\0")
    assert type_.decode(type_.encode(text)) == text
    assert type_.decode(raw + b"\0" + b"x" * (15 - len(raw))) == text


@given(st.binary(max_size=9), st.lists(st.integers(-(1 << 63), (1 << 63) - 1), max_size=4))
def test_arrays(raw: bytes, numbers: list[int]) -> None:
    """`u8[N]` is bytes, any other array a list; both of one length alone."""
    for type_, value, length in ((array_of(u8, 7), raw, 7), (array_of(S64, 3), numbers, 3)):
        if len(value) != length:
            with pytest.raises(InvalidValue, match="give"):
                type_.encode(value)
        else:
            assert type_.decode(type_.encode(value)) == value
    if len(numbers) == 3:
        assert array_of(S64, 3).encode(numbers) == b"".join(n.to_bytes(8, "little", signed=True) for n in numbers)


class Inner(Struct):
    """Two bytes of padding at its end."""

    count: u32
    short: u16


class Outer(Struct):
    """Every kind of hole: between fields, inside a nested record, at the end."""

    flag: u8
    at: u64
    inner: Inner
    name: str = field(char[5])
    where: int = field(ptr[u32])
    port: int = field(INTEGERS["be16"])
    cells: list[int] = field(u16[3])


def test_a_record_is_laid_out_as_c_does() -> None:
    """Offsets, holes, size and the bytes themselves, by hand."""
    assert [(f.name, f.offset) for f in Outer.layout.fields] == [
        ("flag", 0), ("at", 8), ("inner", 16), ("name", 24), ("where", 32), ("port", 40), ("cells", 42),
    ]  # fmt: skip
    assert (Outer.layout.size, Outer.layout.align, Inner.layout.size) == (48, 8, 8)
    assert Outer.layout.padding == ((1, 7), (29, 3))
    record = Outer(1, 2, Inner(3, 4), "five", 6, 0x0708, [9, 10, 11])
    assert record.to_bytes() == bytes.fromhex(
        "01" + "00" * 7 + "0200000000000000" + "0300000004000000" + "6669766500000000" + "0600000000000000" + "0708"
        "09000a000b00"
    )
    assert Outer.from_bytes(record.to_bytes()) == record


@given(st.binary(min_size=48, max_size=48))
def test_any_bytes_are_a_record(raw: bytes) -> None:
    """Whatever the kernel sends decodes; encoded again, only padding and what follows a NUL differ."""
    record = Outer.from_bytes(raw)
    if 0 not in raw[24:29]:  # no NUL: the kernel fills such a name whole, Python would not
        return
    again = record.to_bytes()
    assert Outer.from_bytes(again) == record
    assert again[8:22] == raw[8:22]
    assert again[32:] == raw[32:]
    assert (again[:1], again[1:8], again[29:32]) == (raw[:1], bytes(7), bytes(3))
