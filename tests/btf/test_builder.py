"""What the builder refuses and changes, and the records that go beside BTF."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, strategies as st

from pyebpf.btf import (
    Btf,
    BtfBuilder,
    FuncInfo,
    LineInfo,
    encode_func_info,
    encode_line_info,
    sanitise_name,
)
from pyebpf.errors import InvalidValue


@given(st.text(max_size=300))
def test_a_sanitised_name_is_one_that_the_kernel_takes(name):
    assert re.fullmatch(r"[A-Za-z_.][A-Za-z0-9_.]{0,126}", sanitise_name(name), re.ASCII)


@given(st.from_regex(r"[A-Za-z_][A-Za-z0-9_.]{0,126}", fullmatch=True))
def test_a_good_name_stays(name):
    assert sanitise_name(name) == name


def test_python_names_are_sanitised():
    assert sanitise_name("<lambda>") == "_lambda_"
    assert sanitise_name("f.<locals>.größe") == "f._locals_.gr__e"
    assert sanitise_name("2nd") == "_2nd"


@given(st.lists(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=20)))
def test_each_string_is_stored_once_and_read_back(texts):
    """File names and source lines are free text for the kernel."""
    builder = BtfBuilder()
    offsets = {text: builder.string(text) for text in texts + texts}
    data = builder.to_bytes()
    btf = Btf(data)
    assert {text: btf.string(offset) for text, offset in offsets.items()} == {text: text for text in texts}
    assert btf.string_stop == 1 + sum(len(text.encode()) + 1 for text in set(texts) - {""})


@pytest.mark.parametrize(("text", "stored"), [("\udcff", b"\xff"), ("\ud800", rb"\ud800"), ("grüße", "grüße".encode())])
def test_text_that_is_no_unicode_is_stored_too(text, stored):
    """Undecodable bytes of a source line come back as they were."""
    builder = BtfBuilder()
    builder.string(text)
    assert stored + b"\0" in builder.to_bytes()
    assert Btf(builder.to_bytes()).find(text) == []


def test_a_string_ends_at_its_first_nul():
    builder = BtfBuilder()
    assert builder.string("a\0b") == builder.string("a")


@pytest.mark.parametrize(
    "build",
    [
        lambda b: b.add_int("int", 3),
        lambda b: b.add_int("int", 4, bits=33),
        lambda b: b.add_ptr(-1),
        lambda b: b.add_ptr(2**32),
        lambda b: b.add_struct("s", 2**32, []),
        lambda b: b.add_struct("s", 4, [("x", 1, 2**24, 1)]),
        lambda b: b.add_struct("s", 4, [("x", 1, 0, 256)]),
        lambda b: b.add_enum("e", 4, [("x", -1)]),
        lambda b: b.add_enum("e", 4, [("x", 2**31)], signed=True),
        lambda b: b.add_enum64("e", 8, [("x", 2**64)]),
        lambda b: b.add_enum64("e", 8, [("x", 2**63)], signed=True),
        lambda b: b.add_func_proto(0, [("x", 1)] * 65536),
        lambda b: b.add_func("f", 1, 65536),
    ],
)
def test_a_value_that_a_field_cannot_hold_is_refused(build):
    with pytest.raises(InvalidValue):
        build(BtfBuilder())


def test_func_info_is_8_bytes_a_record():
    assert encode_func_info([FuncInfo(0, 3), FuncInfo(17, 4)]) == bytes.fromhex("0000000003000000 1100000004000000")
    assert encode_func_info([FuncInfo(1, 2)], "big") == bytes.fromhex("0000000100000002")


def test_line_info_is_16_bytes_a_record_with_line_and_column_in_one_word():
    encoded = encode_line_info([LineInfo(2, 5, 9, 23, 7)])
    assert encoded == bytes.fromhex("02000000 05000000 09000000") + (23 << 10 | 7).to_bytes(4, "little")


def test_a_column_beyond_1023_becomes_1023():
    assert encode_line_info([LineInfo(0, 1, 1, 1, 5000)])[12:] == (1 << 10 | 1023).to_bytes(4, "little")


@pytest.mark.parametrize("line", [-1, 1 << 22])
def test_a_line_that_does_not_fit_is_refused(line):
    with pytest.raises(InvalidValue, match="line_info can't hold line"):
        encode_line_info([LineInfo(0, 1, 1, line, 0)])


def test_records_must_rise_strictly():
    with pytest.raises(InvalidValue, match="line_info records must rise"):
        encode_line_info([LineInfo(3, 1, 1, 1, 0), LineInfo(3, 1, 1, 2, 0)])
    with pytest.raises(InvalidValue, match="func_info records must rise"):
        encode_func_info([FuncInfo(3, 1), FuncInfo(0, 1)])
