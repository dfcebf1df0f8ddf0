"""Truncated or garbled BTF gives pyebpf's own errors, soon."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings, strategies as st

from pyebpf.btf import Btf, BtfBuilder, Index, Kind, c_declaration, c_definition, raw_tracepoint
from pyebpf.errors import BtfError, InvalidValue, NotFound
from tests.support.errors import only_own_errors

OUR_OWN = (BtfError, NotFound, InvalidValue)


def attempt(ask, *arguments):
    return only_own_errors(ask, *arguments, kinds=OUR_OWN)


def ask_everything(data, base=None):
    """Call each public question; only pyebpf's errors may come out."""
    btf = only_own_errors(Btf, data, base, kinds=BtfError)
    if isinstance(btf, BtfError):
        return
    stop = only_own_errors(lambda: btf.stop, kinds=BtfError)
    if isinstance(stop, BtfError):
        return
    for type_id in range(stop + 1):
        for ask in (btf.type_by_id, btf.kind, btf.size_of, btf.members, btf.skip_modifiers, btf.resolve):
            attempt(ask, type_id)
        attempt(btf.resolve_path, type_id, "in.left")
        attempt(btf.nullable_parameters, type_id)
        attempt(c_declaration, btf, type_id)
        attempt(c_definition, btf, type_id)
    for name in ("outer", "BROKEN", "work", "job", "int"):
        for ask in (btf.find, btf.struct, btf.enumerator, btf.prototype):
            attempt(ask, name)
        attempt(raw_tracepoint, btf, name)
    attempt(lambda: list(btf.names(frozenset(Kind))))
    if base is None:
        attempt(btf.index.to_bytes, b"")


@given(st.data())
@settings(max_examples=60)
def test_cut_short(sample, data):
    ask_everything(sample.data[: data.draw(st.integers(0, len(sample.data) - 1))])


@given(st.data())
@settings(max_examples=100)
def test_bits_flipped(sample, data):
    garbled = bytearray(sample.data)
    for at in data.draw(st.lists(st.integers(0, len(garbled) - 1), min_size=1, max_size=6)):
        garbled[at] ^= 1 << data.draw(st.integers(0, 7))
    ask_everything(bytes(garbled))


@given(st.data())
@settings(max_examples=60)
def test_words_replaced(sample, data):
    """Whole words, as ids and counts are: more of these get past the first look."""
    garbled = bytearray(sample.data)
    words = (len(garbled) - 24) // 4
    for at in data.draw(st.lists(st.integers(0, words - 1), min_size=1, max_size=6)):
        word = data.draw(st.integers(0, 70) | st.integers(0, 2**32 - 1))
        garbled[24 + at * 4 : 28 + at * 4] = word.to_bytes(4, "little")
    ask_everything(bytes(garbled))


@given(st.binary(max_size=200))
def test_any_bytes(data):
    ask_everything(data)
    ask_everything(bytes.fromhex("9feb0100 18000000") + data)


@given(st.data())
@settings(max_examples=40)
def test_split_btf_garbled(sample, data):
    builder = BtfBuilder(sample.btf)
    builder.add_struct("device", 112, [("in", sample.ids["outer"], 0, 0), ("own", 1, 32, 0)])
    builder.add_typedef("name_t", sample.btf.stop)
    garbled = bytearray(builder.to_bytes())
    at = data.draw(st.integers(0, len(garbled) - 1))
    garbled[at] = data.draw(st.integers(0, 255))
    ask_everything(bytes(garbled), sample.btf)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d: d[:23], "shorter than its header"),
        (lambda d: b"\0\0" + d[2:], "not BTF: it starts with 0000"),
        (lambda d: d[:2] + b"\2" + d[3:], "version 2"),
        (lambda d: d[:3] + b"\1" + d[4:], "flags 0x1"),
        (lambda d: d[:-1], "cut short"),
        (lambda d: d[:12] + b"\xff\xff\xff\xff" + d[16:], "cut short"),
        (lambda d: d[:8] + b"\1\0\0\0" + d[12:], "not aligned"),
        (lambda d: d[:16] + b"\0\0\0\0" + d[20:], "overlap|first string|does not end"),
        (lambda d: d[:-1] + b"x", "last string does not end"),
    ],
)
def test_a_bad_header_says_what_is_wrong(sample, change, message):
    with pytest.raises(BtfError, match=message):
        Btf(change(sample.data))


def test_a_longer_header_is_passed_over(sample):
    """Sections are counted from the header's end, wherever that is."""
    data = sample.data
    longer = data[:4] + (32).to_bytes(4, "little") + data[8:24] + bytes(8) + data[24:]
    btf = Btf(longer)
    assert btf.stop == sample.btf.stop
    assert [btf.type_by_id(n).name for n in range(1, btf.stop)] == [
        sample.btf.type_by_id(n).name for n in range(1, btf.stop)
    ]


def test_sections_may_not_overlap(sample):
    """Strings that begin before the types, and reach into them, as well."""
    data = sample.data
    types, strings = (int.from_bytes(data[at : at + 4], "little") for at in (12, 20))
    whole = data[:16] + bytes(4) + (types + strings).to_bytes(4, "little") + data[24:]
    with pytest.raises(BtfError, match="sections overlap"):
        Btf(whole)


def test_no_string_begins_where_they_end(sample):
    """The first offset beyond them is an error."""
    assert sample.btf.string(sample.btf.string_stop - 1) == ""
    with pytest.raises(BtfError, match="beyond its strings"):
        sample.btf.string(sample.btf.string_stop)


def test_a_struct_of_many_members_has_them_all():
    """Their number takes 16 bits. Bits that mean nothing are refused."""
    b = BtfBuilder()
    number = b.add_int("int", 4, signed=True)
    b.add_struct("wide", 1200, [(f"m{n}", number, 32 * n, 0) for n in range(300)])
    data = bytearray(b.to_bytes())
    last = Btf(bytes(data)).type_by_id(2).members[-1]
    assert (last.name, last.bit_offset, last.bit_size) == ("m299", 32 * 299, 0)
    assert len(Btf(bytes(data)).type_by_id(2).members) == 300
    data[24 + 16 + 4 + 3] |= 0x40  # after the header and the int, behind the name
    with pytest.raises(BtfError):
        Btf(bytes(data)).type_by_id(2)


def test_circles_end():
    """Typedefs, modifiers, arrays and pointers that lead back to themselves."""
    b = BtfBuilder()
    b.add_typedef("a", 2)
    b.add_const(1)
    b.add_array(3, 3, 3)
    b.add_ptr(4)
    b.add_var("v", 5)
    btf = Btf(b.to_bytes())
    with pytest.raises(BtfError, match="refers to itself"):
        btf.resolve(1)
    with pytest.raises(BtfError, match="is an array of itself"):
        btf.size_of(3)
    with pytest.raises(BtfError, match="refers to itself"):
        c_declaration(btf, 4)
    with pytest.raises(BtfError, match="is an array of itself"):
        btf.size_of(5)


def test_megabytes_of_nonsense_are_refused_in_bounded_time():
    """Sections that claim to be types, and a string section of one letter."""
    header = bytes.fromhex("9feb0100 18000000 00000000")
    size = 3_000_000
    started = time.process_time()
    for filler in (b"\0\0\0\x02", b"\1\1\1\1", b"\xff\xff\xff\xff"):
        types = filler * (size // 4)
        sizes = [size, size, size]
        data = header + b"".join(n.to_bytes(4, "little") for n in sizes) + types + b"\0" + b"x" * (size - 2) + b"\0"
        try:
            btf = Btf(data)
            attempt(btf.find, "x")
            attempt(btf.enumerator, "x")
        except BtfError:
            pass
    assert time.process_time() - started < 5


@given(st.binary(max_size=300))
def test_any_bytes_are_no_stored_index(data):
    assert Index.from_bytes(data, b"\0" * 32) is None
