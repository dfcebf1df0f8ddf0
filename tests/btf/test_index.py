"""The index: where types lie, and its form on disk."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from pyebpf.btf import Btf, BtfBuilder, Index, digest
from pyebpf.errors import BtfError


def test_a_stored_index_serves_as_a_built_one(either_sample):
    data = either_sample.data
    stored = Btf(data).index.to_bytes(digest(data))
    index = Index.from_bytes(stored, digest(data))
    restored = Btf(data, index=index)
    assert restored.index is index
    assert [restored.type_by_id(n) for n in range(restored.stop)] == [
        Btf(data).type_by_id(n) for n in range(restored.stop)
    ]
    assert restored.find("outer") == [either_sample.ids["outer"]]


def test_an_index_of_other_content_is_not_taken(sample):
    stored = sample.btf.index.to_bytes(digest(sample.data))
    assert Index.from_bytes(stored, digest(sample.data + b"\0")) is None


@given(st.data())
def test_a_damaged_index_is_never_believed(sample, data):
    """Any bit flipped, any length cut, anything added: None."""
    content = digest(sample.data)
    stored = sample.btf.index.to_bytes(content)
    at = data.draw(st.integers(0, len(stored) - 1))
    bit = data.draw(st.integers(0, 7))
    flipped = bytearray(stored)
    flipped[at] ^= 1 << bit
    assert Index.from_bytes(bytes(flipped), content) is None
    assert Index.from_bytes(stored[:at], content) is None
    assert Index.from_bytes(stored + stored[:at] + b"x", content) is None


def test_nothing_is_indexed_until_it_is_needed(sample):
    """Types that can't be walked do no harm to one that only wants the header and strings."""
    broken = bytearray(sample.data)
    broken[24 + 4 : 24 + 8] = b"\xff\xff\xff\xff"
    btf = Btf(bytes(broken))
    assert btf.string(1) == "int"
    with pytest.raises(BtfError):
        btf.type_by_id(1)


def test_reserved_bits_and_unknown_kinds_are_refused():
    for info, message in ((20 << 24, "unknown kind 20"), (0, "unknown kind 0"), (1 << 24 | 1 << 16, "reserved bits")):
        builder = BtfBuilder()
        builder.add_ptr(0)
        data = bytearray(builder.to_bytes())
        data[28:32] = info.to_bytes(4, "little")
        with pytest.raises(BtfError, match=message):
            _ = Btf(bytes(data)).index


def test_counts_that_exceed_the_data_are_refused():
    builder = BtfBuilder()
    builder.add_struct("s", 8, [])
    data = bytearray(builder.to_bytes())
    data[28:30] = b"\xff\xff"
    with pytest.raises(BtfError, match="ends in the middle of type 1"):
        _ = Btf(bytes(data)).index


FEW_NAMES = st.sampled_from(["a", "b", "ab", "ba", "a_b", "int", "x" * 90])


@given(st.lists(FEW_NAMES, max_size=30), st.lists(st.tuples(FEW_NAMES, st.booleans()), max_size=20), FEW_NAMES)
def test_a_stored_index_finds_what_a_built_one_finds(types, constants, sought):
    """By sorted names instead of by searching the strings: types, and enumerators of both widths."""
    builder = BtfBuilder()
    for name in types:
        builder.add_fwd(name)
    for value, (name, wide) in enumerate(constants):
        (builder.add_enum64 if wide else builder.add_enum)("", 8 if wide else 4, [("other", 99), (name, value)])
    data = builder.to_bytes()
    stored = Btf(data, index=Index.from_bytes(Btf(data).index.to_bytes(digest(data)), digest(data)))
    assert stored.index.sorted is not None
    assert stored.find(sought) == Btf(data).find(sought)
    assert stored.find_enumerator(sought) == Btf(data).find_enumerator(sought)
    first = next((value for value, (name, _) in enumerate(constants) if name == sought), None)
    assert stored.find_enumerator(sought) == first


def test_a_restored_index_can_be_stored_again(sample):
    content = digest(sample.data)
    stored = sample.btf.index.to_bytes(content)
    assert Index.from_bytes(stored, content).to_bytes(content) == stored


def test_names_beyond_the_strings_are_refused_when_sorting():
    builder = BtfBuilder()
    builder.add_fwd("name")
    data = bytearray(builder.to_bytes())
    data[24:28] = (1000).to_bytes(4, "little")
    with pytest.raises(BtfError, match="string at 1000, beyond"):
        Btf(bytes(data)).index.to_bytes(digest(data))
