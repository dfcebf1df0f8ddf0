"""Types of keys and values from BTF: what has a Python side, what stays bytes."""

from __future__ import annotations

import struct

import pytest

from pyebpf.btf import Btf, BtfBuilder
from pyebpf.errors import InvalidValue
from pyebpf.types import BytesType
from pyebpf.types.enums import EnumType
from pyebpf.types.from_btf import type_from_btf


def made(builder, number):
    """The Python side of a type of this BTF."""
    btf = Btf(builder.to_bytes())
    return type_from_btf(btf, "m", btf.type_by_id(btf.resolve(number)))


@pytest.mark.parametrize(("size", "signed"), [(1, False), (4, False), (4, True), (8, False), (8, True)])
def test_enumerations_have_names(size, signed):
    """By value; another number stays one, and what the integer cannot hold is refused."""
    builder = BtfBuilder()
    add = builder.add_enum64 if size == 8 else builder.add_enum
    least = -2 if signed else 2
    kind = made(
        builder, builder.add_typedef("state_t", add("state", size, [("LOW", least), ("HIGH", 9)], signed=signed))
    )
    assert isinstance(kind, EnumType)
    assert [kind.decode(kind.encode(value)) for value in (least, 9, 11)] == [kind.members.LOW, kind.members.HIGH, 11]
    assert kind.construct.build("HIGH") == kind.encode(9)
    assert kind.construct.parse(kind.encode(kind.members.LOW)) == "LOW"
    with pytest.raises(InvalidValue, match="does not fit"):
        kind.encode(1 << 8 * size)


def test_an_enumeration_with_a_name_that_python_keeps_is_a_number():
    """`mro` cannot be a member of Python's."""
    builder = BtfBuilder()
    kind = made(builder, builder.add_enum("order", 4, [("mro", 1)]))
    assert kind.decode((1).to_bytes(4, "little")) == 1


def test_a_union_lies_where_c_puts_it():
    """After a number of one byte, at the alignment of its widest member."""
    builder = BtfBuilder()
    byte, word = builder.add_int("__u8", 1), builder.add_int("__u64", 8)
    inner = builder.add_struct("inner", 16, [("a", byte, 0, 0), ("b", word, 64, 0)])
    union = builder.add_union("either", 16, [("byte", byte, 0, 0), ("inner", inner, 0, 0)])
    kind = made(builder, builder.add_struct("whole", 24, [("first", byte, 0, 0), ("either", union, 64, 0)]))
    assert kind.decode(bytes(range(24))).either == bytes(range(8, 24))


@pytest.mark.parametrize(
    ("name", "signed", "expected"),
    [
        ("char", True, "a\udcff"),
        ("char", False, "a\udcff"),
        ("signed char", True, [97, -1, 0]),
        ("u8", False, b"a\xff\0"),
    ],
)
def test_only_char_is_text(name, signed, expected):
    """`char` is unsigned on arm64; an s8 is a number everywhere."""
    builder = BtfBuilder()
    byte, word = builder.add_int(name, 1, signed=signed), builder.add_int("__u32", 4)
    found = made(builder, builder.add_array(byte, word, 3)).decode(b"a\xff\0")
    assert found == expected


@pytest.mark.parametrize("packed", [True, False])
def test_packed_structures_and_bit_fields_are_bytes(packed):
    """There is no record with a number at an odd place, or of three bits."""
    builder = BtfBuilder()
    byte, word = builder.add_int("__u8", 1), builder.add_int("__u32", 4)
    members = [("a", byte, 0, 0), ("b", word, 8, 0)] if packed else [("a", word, 0, 3), ("b", word, 3, 29)]
    assert made(builder, builder.add_struct("odd", 5 if packed else 4, members)) == BytesType(5 if packed else 4)


def test_members_that_python_has_other_uses_for():
    """Each gets underscores at its end, and is read and written; two of one name stay two."""
    builder = BtfBuilder()
    word = builder.add_int("__u32", 4)
    names = ["from", "layout", "as_dict", "to_bytes", "__init__", "__pad", "_y", "__end__", "in", "in_", "None"]
    members = [(name, word, 32 * place, 0) for place, name in enumerate(names)]
    kind = made(builder, builder.add_struct("odd", 4 * len(names), members))
    raw = b"".join(number.to_bytes(4, "little") for number in range(len(names)))
    record = kind.decode(raw)
    attributes = [
        "from_", "layout_", "as_dict_", "to_bytes_", "__init___", "__pad__", "_y", "__end__", "in__", "in_", "None_",
    ]  # fmt: skip
    assert [getattr(record, name) for name in attributes] == list(range(len(names)))
    assert list(record.as_dict()) == attributes
    assert kind.encode(record) == record.to_bytes() == raw
    assert kind.encode(kind.make(range(len(names)))) == raw
    assert kind.construct.parse(raw)["from_"] == 0


@pytest.mark.parametrize("raw", [b"abcd", b"ab\0x", b"ab\0y", b"ab\0\0", b"\0\0\0\0", b"\0\0\0z", b"\xff\0\xfe\xfd"])
def test_characters_of_others_keep_every_byte(raw):
    """No NUL need end them, and what stands behind one tells two keys apart; only zeros at the end are left out."""
    builder = BtfBuilder()
    char, word = builder.add_int("char", 1, signed=True), builder.add_int("__u32", 4)
    name = builder.add_array(char, word, 4)
    record = made(builder, builder.add_struct("key", 8, [("name", name, 0, 0), ("id", word, 32, 0)]))
    for kind, data in ((made(builder, name), raw), (record, raw + bytes(4))):
        assert kind.encode(kind.decode(data)) == data
        assert kind.construct.build(kind.construct.parse(data)) == data
    assert made(builder, name).decode(raw) == raw.rstrip(b"\0").decode(errors="surrogateescape")
    with pytest.raises(InvalidValue, match="at most 4 bytes"):
        made(builder, name).encode("abcde")


def test_numbers_of_128_bits():
    """With their sign, alone, in arrays and in records, which they align to 16 bytes."""
    builder = BtfBuilder()
    signed, unsigned = builder.add_int("__int128", 16, signed=True), builder.add_int("unsigned __int128", 16)
    word = builder.add_int("__u32", 4)
    for number, least, most in ((signed, -(1 << 127), (1 << 127) - 1), (unsigned, 0, (1 << 128) - 1)):
        kind = made(builder, number)
        for value in (least, -1 if least else 1, most):
            raw = value.to_bytes(16, "little", signed=value < 0)
            assert kind.decode(raw) == value
            assert kind.encode(value) == raw == kind.construct.build(value)
            assert kind.construct.parse(raw) == value
        with pytest.raises(InvalidValue, match="give an integer of 128 bits"):
            kind.encode(most + 1)
        with pytest.raises(InvalidValue, match=r"does not fit [su]128"):
            kind.encode(1.5)
    members = [("id", word, 0, 0), ("total", unsigned, 128, 0), ("both", builder.add_array(signed, word, 2), 256, 0)]
    record = made(builder, builder.add_struct("sums", 64, members))
    raw = bytes([7, *bytes(15), *(1 << 100).to_bytes(16, "little"), *b"\xff" * 16, *(5).to_bytes(16, "little")])
    assert record.decode(raw).as_dict() == {"id": 7, "total": 1 << 100, "both": [-1, 5]}
    assert record.encode(record.decode(raw)) == raw


def test_floating_point_numbers():
    """Float and double, alone, in arrays and in records; a long double stays bytes."""
    builder = BtfBuilder()
    single, double = builder.add_float("float", 4), builder.add_float("double", 8)
    word = builder.add_int("__u32", 4)
    for number, code, value in ((single, "f", 0.5), (double, "d", 0.1)):
        kind = made(builder, number)
        raw = struct.pack(f"<{code}", value)
        assert kind.decode(raw) == value
        assert kind.encode(value) == raw == kind.construct.build(value)
        assert kind.construct.parse(raw) == value
        for wrong in ("1", None, True):
            with pytest.raises(InvalidValue, match=r"does not fit (float|double): give a number in its range"):
                kind.encode(wrong)
    with pytest.raises(InvalidValue, match="1e\\+300 does not fit float"):
        made(builder, single).encode(1e300)
    members = [("load", builder.add_array(single, word, 2), 0, 0), ("mean", double, 64, 0)]
    record = made(builder, builder.add_struct("loads", 16, members))
    assert record.decode(struct.pack("<ffd", 0.25, -2, 1e300)).as_dict() == {"load": [0.25, -2.0], "mean": 1e300}
    assert made(builder, builder.add_float("long double", 16)) == BytesType(16)


def test_arrays_of_truth_values():
    """A list of bool, not bytes."""
    builder = BtfBuilder()
    boolean, word = builder.add_int("_Bool", 1, boolean=True), builder.add_int("__u32", 4)
    kind = made(builder, builder.add_array(boolean, word, 3))
    assert kind.decode(b"\1\0\1") == [True, False, True]
    assert kind.encode([True, False, True]) == b"\1\0\1"
