"""Types of keys and values from BTF: what has a Python side, what stays bytes."""

from __future__ import annotations

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


@pytest.mark.parametrize("packed", [True, False])
def test_packed_structures_and_bit_fields_are_bytes(packed):
    """There is no record with a number at an odd place, or of three bits."""
    builder = BtfBuilder()
    byte, word = builder.add_int("__u8", 1), builder.add_int("__u32", 4)
    members = [("a", byte, 0, 0), ("b", word, 8, 0)] if packed else [("a", word, 0, 3), ("b", word, 3, 29)]
    assert made(builder, builder.add_struct("odd", 5 if packed else 4, members)) == BytesType(5 if packed else 4)
