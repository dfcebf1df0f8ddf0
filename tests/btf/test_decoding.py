"""Each kind decodes to the node it was built from, in both byte orders."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from pyebpf.btf import (
    Array,
    Btf,
    BtfBuilder,
    Const,
    DataSec,
    DeclTag,
    Enum,
    Enum64,
    Float,
    Func,
    FuncProto,
    Fwd,
    Int,
    Kind,
    Ptr,
    Restrict,
    Struct,
    Typedef,
    TypeTag,
    Union,
    Var,
    Void,
    Volatile,
)
from pyebpf.errors import BtfError


def test_every_kind_decodes_to_what_was_built(either_sample):
    btf, i = either_sample.btf, either_sample.ids
    expected = [
        Void(0, "void"),
        Int(i["int"], "int", 4, 32, 0, signed=True, char=False, bool=False),
        Int(i["bool"], "_Bool", 1, 8, 0, signed=False, char=False, bool=True),
        Int(i["odd"], "unsigned int", 4, 3, 2, signed=False, char=False, bool=False),
        Float(i["double"], "double", 8),
        Typedef(i["pid_t"], "pid_t", i["int"]),
        Const(i["const pid_t"], "", i["pid_t"]),
        Volatile(i["volatile"], "", i["const pid_t"]),
        Restrict(i["restrict"], "", i["outer *"]),
        Array(i["u64[3]"], "", i["u64"], i["u32"], 3),
        Union(i["union"], "", 4, (("left", i["int"], 0, 0), ("right", i["char"], 0, 0))),
        Struct(i["flags"], "", 4, (("low", i["u32"], 0, 3), ("", i["u32"], 3, 2), ("high", i["u32"], 5, 27))),
        Ptr(i["inner *"], "", i["inner"]),
        Enum(i["state"], "state", 4, signed=True, enumerators=(("OFF", 0), ("ON", 1), ("BROKEN", -1))),
        Enum64(i["limits"], "limits", 8, signed=False, enumerators=(("MOST", 2**64 - 1), ("LEAST", 0))),
        Enum64(i["depths"], "depths", 8, signed=True, enumerators=(("DEEPEST", -(2**40)),)),
        Fwd(i["opaque"], "opaque", union=False),
        Fwd(i["opaque union"], "choice", union=True),
        FuncProto(i["proto"], "", i["int"], (("to", i["outer *"]), ("count", i["u64"]))),
        Func(i["work"], "work", i["proto"], 1),
        TypeTag(i["user char"], "user", i["char"]),
        Var(i["counter"], "counter", i["u64"], 1),
        DataSec(i["section"], ".data", 8, ((i["counter"], 0, 8),)),
        DeclTag(i["tag"], "kfunc", i["work"], -1),
        DeclTag(i["arg tag"], "arg:nullable", i["work"], 0),
    ]
    assert [btf.type_by_id(node.id) for node in expected] == expected
    assert {type(node).__name__.upper() for node in expected} == {kind.name.replace("_", "") for kind in Kind}, (
        "a kind is missing from this test"
    )


def test_the_kind_is_known_without_decoding(sample):
    btf = sample.btf
    assert [btf.kind(type_id).name.replace("_", "") for type_id in range(btf.stop)] == [
        type(btf.type_by_id(type_id)).__name__.upper() for type_id in range(btf.stop)
    ]


def test_nodes_of_different_kinds_differ_though_their_fields_are_equal(sample):
    assert Ptr(1, "", 2) != Const(1, "", 2)
    assert Struct(1, "", 0, ()) != Union(1, "", 0, ())


def test_a_prototype_that_ends_in_an_ellipsis_is_variadic(sample):
    btf = sample.btf
    assert btf.prototype("log").variadic
    assert not btf.prototype("work").variadic


def test_an_id_beyond_the_last_is_an_error(sample):
    btf = sample.btf
    for type_id in (btf.stop, 2**32 - 1, -1):
        with pytest.raises(BtfError, match=rf"names type {type_id}, but its types end at {btf.stop - 1}"):
            btf.type_by_id(type_id)


@pytest.mark.parametrize(
    ("name", "size"),
    [
        ("pid_t", 4),
        ("volatile", 4),
        ("u64[2][3]", 48),
        ("char[]", 0),
        ("outer", 112),
        ("outer *", 8),
        ("restrict", 8),
        ("state", 4),
        ("limits", 8),
        ("double", 8),
        ("counter", 8),
        ("section", 8),
    ],
)
def test_sizes(sample, name, size):
    """Typedefs and qualifiers add nothing, arrays multiply, a pointer has 8 bytes."""
    assert sample.btf.size_of(sample.ids[name]) == size


@pytest.mark.parametrize("name", ["opaque", "work", "proto", "tag"])
def test_what_has_no_size_is_refused(sample, name):
    with pytest.raises(BtfError, match="has no size"):
        sample.btf.size_of(sample.ids[name])


def test_modifiers_are_skipped_with_and_without_typedefs(sample):
    btf, ids = sample.btf, sample.ids
    assert btf.skip_modifiers(ids["volatile"]) == ids["pid_t"]
    assert btf.resolve(ids["volatile"]) == ids["int"]
    assert btf.resolve(ids["user char"]) == ids["char"]


NAMES = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,8}", fullmatch=True)
WORD = st.integers(0, 2**32 - 1)


@given(st.lists(st.tuples(NAMES, WORD, st.integers(0, 2**24 - 1), st.integers(0, 255)), max_size=9), WORD, NAMES)
def test_members_survive_the_round_trip(members, size, name):
    """Whatever fits the fields comes back, bit-fields or none."""
    builder = BtfBuilder()
    new = builder.add_struct(name, size, members)
    assert Btf(builder.to_bytes()).type_by_id(new) == Struct(new, name, size, tuple(members))


@given(st.lists(st.tuples(NAMES, st.integers(-(2**63), 2**63 - 1)), max_size=9), NAMES)
def test_signed_constants_of_64_bits_survive_the_round_trip(constants, name):
    builder = BtfBuilder()
    new = builder.add_enum64(name, 8, constants, signed=True)
    assert Btf(builder.to_bytes()).type_by_id(new) == Enum64(new, name, 8, signed=True, enumerators=tuple(constants))


def test_memory_may_be_given_as_a_view(sample):
    assert Btf(memoryview(sample.data)).struct("outer") == sample.btf.struct("outer")
