"""Members by name and path: anonymous ones, bit-fields, arrays."""

from __future__ import annotations

import pytest

from pyebpf.btf import Btf, BtfBuilder, MemberAccess
from pyebpf.errors import BtfError, InvalidValue, NotFound


@pytest.mark.parametrize(
    ("path", "bit_offset", "bit_size", "type_name"),
    [
        ("pid", 0, 0, "const pid_t"),
        ("low", 32, 3, "u32"),
        ("high", 37, 27, "u32"),
        ("name", 64, 0, "char[16]"),
        ("name[15]", 64 + 15 * 8, 0, "char"),
        ("grid[1]", 192 + 192, 0, "u64[3]"),
        ("grid[1][2]", 192 + 192 + 128, 0, "u64"),
        ("in.x", 576, 0, "int"),
        ("in.left", 608, 0, "int"),
        ("in.right", 608, 0, "char"),
        ("to", 640, 0, "inner *"),
        ("tail[1000]", 768 + 8000, 0, "char"),
    ],
)
def test_paths(either_sample, path, bit_offset, bit_size, type_name):
    """Anonymous structs and unions are walked, arrays indexed, a flexible one at any index."""
    btf, ids = either_sample.btf, either_sample.ids
    access = btf.resolve_path(ids["outer"], path)
    assert access == MemberAccess(path, ids[type_name], bit_offset, bit_size)
    assert access.offset == bit_offset // 8


def test_a_bit_field_without_the_kind_flag_takes_its_place_from_its_int(sample):
    """As compilers wrote them before Linux 5.0: an INT of 3 bits from its bit 2."""
    b = BtfBuilder()
    odd = b.add_int("unsigned int", 4, bits=3, bit_offset=2)
    struct = b.add_struct("s", 8, [("old", odd, 32, 0)])
    assert Btf(b.to_bytes()).member(struct, "old") == MemberAccess("old", odd, 34, 3)


def test_members_are_listed_flat_in_order_of_declaration(sample):
    names = list(sample.btf.members(sample.ids["outer"]))
    assert names == ["pid", "low", "high", "name", "grid", "in", "to", "old", "tail"]


def test_a_typedef_of_a_struct_has_its_members():
    b = BtfBuilder()
    number = b.add_int("int", 4)
    alias = b.add_typedef("point_t", b.add_const(b.add_struct("", 4, [("x", number, 0, 0)])))
    assert Btf(b.to_bytes()).member(alias, "x").bit_offset == 0


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("pidd", r"struct outer has no member 'pidd' \(did you mean pid\?\)"),
        ("in.lft", r"struct inner has no member 'lft' \(did you mean left\?\)"),
        ("pid.x", "Int 'int' has no members"),
        ("to.x", "Ptr '' has no members"),
    ],
)
def test_an_unknown_member_names_the_closest(sample, path, message):
    with pytest.raises(NotFound, match=message):
        sample.btf.resolve_path(sample.ids["outer"], path)


@pytest.mark.parametrize("path", ["", ".", "pid.", ".pid", "name[", "name[-1]", "name[1]x", "in..x", "[0]", "in x"])
def test_text_that_is_no_path_is_refused(sample, path):
    with pytest.raises(InvalidValue, match="is not a path of members"):
        sample.btf.resolve_path(sample.ids["outer"], path)


def test_indices_are_checked(sample):
    with pytest.raises(InvalidValue, match="index 16 where the array has 16 elements"):
        sample.btf.resolve_path(sample.ids["outer"], "name[16]")
    with pytest.raises(InvalidValue, match="not an array but Int"):
        sample.btf.resolve_path(sample.ids["outer"], "pid[0]")


def test_an_anonymous_struct_inside_itself_ends():
    """Garbled BTF: each anonymous type is walked once."""
    b = BtfBuilder()
    number = b.add_int("int", 4)
    struct = b.add_struct("s", 8, [("", 3, 0, 0), ("x", number, 32, 0)])
    assert b.add_struct("", 8, [("", 3, 8, 0), ("", struct, 0, 0), ("y", number, 64, 0)]) == 3
    assert list(Btf(b.to_bytes()).members(struct)) == ["y", "x"]


def test_anonymous_structs_nested_without_end_are_refused():
    b = BtfBuilder()
    inner = b.add_int("int", 4)
    for _ in range(5000):
        inner = b.add_struct("", 4, [("", inner, 0, 0)])
    with pytest.raises(BtfError, match="more than 64 deep"):
        Btf(b.to_bytes()).members(inner)
