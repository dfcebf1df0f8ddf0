"""Many values at once against the types' own codecs, one by one: every type, per-CPU slots, what does not fit."""

from __future__ import annotations

import ipaddress
from struct import error as bad_pack

import construct
import pytest
from hypothesis import given, strategies as st

from pyebpf.errors import InvalidValue
from pyebpf.objects.btf import map_types
from pyebpf.types import BOOL, INTEGERS, CharArray, IntType, Struct, Type, array_of, char, field, s16, type_of, u64
from pyebpf.types.codecs import decoder, encode_all, in_first_slots, slot_decoder, slot_size
from pyebpf.types.prefix import PrefixType, ipv4_prefix, ipv6_prefix, prefix
from pyebpf.types.special import SpecialType, spin_lock, timer


class Inner(Struct):
    a: s16
    b: u64


class Outer(Struct):
    name: str = field(char[7])
    inner: Inner
    flag: bool = False
    lock: None = field(spin_lock, default=None)
    rest: list = field(array_of(INTEGERS["be32"], 3), default=[0, 0, 0])


class Pair(Struct):
    count: u64
    at: s16


class Derived(Pair):
    pass


PACKED = type_of(construct.Struct("port" / construct.Int16ub, "tail" / construct.Bytes(3)))
TYPES = [
    *INTEGERS.values(), CharArray(5), CharArray(16), array_of(INTEGERS["u8"], 3), array_of(INTEGERS["s32"], 5),
    Inner.layout, Outer.layout, array_of(Inner.layout, 2), ipv4_prefix, ipv6_prefix, prefix(3),
    spin_lock, timer, PACKED, Pair.layout, type_of((s16,)), type_of((s16, u64)), type_of((u64, char[5], bool)),
]  # fmt: skip
TEXT = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=16)


def values(kind: Type) -> st.SearchStrategy:
    """Python values of a type."""
    if isinstance(kind, IntType):
        return st.booleans() if kind == BOOL else st.integers(kind.minimum, kind.maximum)
    if isinstance(kind, CharArray):
        return TEXT.filter(lambda text: len(text.encode()) < kind.length)
    if isinstance(kind, SpecialType):
        return st.none()
    if isinstance(kind, PrefixType):
        bits = 8 * kind.address_size
        raw = st.tuples(st.integers(0, bits), st.integers(0, (1 << bits) - 1))
        if kind is ipv4_prefix or kind is ipv6_prefix:
            network = ipaddress.IPv4Network if kind is ipv4_prefix else ipaddress.IPv6Network
            return raw.map(lambda pair: network((pair[1], pair[0]), strict=False))
        return raw.map(lambda pair: (pair[0], (pair[1] >> bits - pair[0] << bits - pair[0]).to_bytes(bits // 8, "big")))
    if kind is PACKED:
        return st.builds(
            lambda port, tail: {"port": port, "tail": tail}, st.integers(0, 65535), st.binary(min_size=3, max_size=3)
        )
    if hasattr(kind, "fields"):
        parts = st.tuples(*(values(f.type) for f in kind.fields))
        return parts if kind.cls is None else parts.map(lambda parts: kind.cls(*parts))
    if kind.element == INTEGERS["u8"]:
        return st.binary(min_size=kind.length, max_size=kind.length)
    return st.lists(values(kind.element), min_size=kind.length, max_size=kind.length)


@given(st.data(), st.sampled_from(TYPES))
def test_all_at_once_is_what_each_is_alone(data, kind):
    """Encoding and decoding, packed and in slots of 8 bytes."""
    given_values = data.draw(st.lists(values(kind), max_size=5))
    packed = encode_all(kind, given_values)
    assert packed == b"".join(kind.encode(value) for value in given_values)
    assert decoder(kind)(packed) == [kind.decode(kind.encode(value)) for value in given_values] == given_values
    slots = b"".join(kind.encode(value).ljust(slot_size(kind.size), b"\xff") for value in given_values)
    assert slot_decoder(kind)(slots) == given_values
    size = 3 * slot_size(kind.size)
    assert in_first_slots(kind, given_values, 3) == b"".join(kind.encode(v).ljust(size, b"\0") for v in given_values)


@pytest.mark.parametrize("kind", TYPES, ids=lambda kind: kind.name)
@pytest.mark.parametrize("wrong", [object(), 1 << 130, -(1 << 130), 1.5, "x" * 99, [1] * 99], ids=repr)
def test_what_does_not_fit_is_an_invalid_value(kind, wrong):
    """Also in the middle of many; never struct's own error."""
    try:
        with pytest.raises(InvalidValue):
            encode_all(kind, [wrong])
    except bad_pack as error:
        pytest.fail(f"{kind}: {error}")


@pytest.mark.parametrize("wrong", [(1,), (1, 2, 3), (1 << 15, 2), ("a", 2), {1: 2, 3: 4}, "ab", Pair(1, 2)], ids=repr)
def test_what_is_no_such_tuple_is_found_among_many(wrong):
    """As many parts of other types, too many, too few, or no tuple."""
    with pytest.raises(InvalidValue):
        encode_all(type_of((s16, u64)), [(1, 2), wrong])


def test_what_each_takes_all_take():
    """Lists as tuples, and records of a class that is derived."""
    assert encode_all(type_of((s16, u64)), [(1, 2), [3, 4]]) == encode_all(type_of((s16, u64)), [(1, 2), (3, 4)])
    assert encode_all(Pair.layout, [Pair(1, 2), Derived(3, 4)]) == encode_all(Pair.layout, [Pair(1, 2), Pair(3, 4)])
    with pytest.raises(InvalidValue, match="Pair"):
        encode_all(Pair.layout, [Pair(1, 2), Inner(3, 4)])
    with pytest.raises(InvalidValue, match="32768 does not fit s16"):
        encode_all(Pair.layout, [Pair(1, 2), Pair(3, 1 << 15)])


@pytest.mark.parametrize("kind", TYPES, ids=lambda kind: kind.name)
def test_every_type_has_btf_of_its_size(kind):
    """What is read back from the bytes that were made."""
    from pyebpf.btf import Btf

    made = map_types(kind, kind)
    assert made.key == made.value > 0
    assert Btf(made.btf).size_of(made.key) == kind.size
