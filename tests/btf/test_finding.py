"""Types by name, in one BTF and in split BTF."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from pyebpf.btf import Btf, BtfBuilder, Kind
from pyebpf.errors import BtfError, NotFound

FEW_NAMES = st.sampled_from(["a", "b", "ab", "ba", "a_b", "int", "x" * 90])


def test_all_types_of_a_name_are_found_and_kinds_select():
    b = BtfBuilder()
    number = b.add_int("size", 4)
    struct = b.add_struct("size", 4, [("size", number, 0, 0)])
    alias = b.add_typedef("size", number)
    btf = Btf(b.to_bytes())
    assert btf.find("size") == [number, struct, alias]
    assert btf.find("size", (Kind.STRUCT, Kind.TYPEDEF)) == [struct, alias]
    assert btf.find("siz") == btf.find("") == btf.find("size\0") == btf.find("ize") == []


def _add(builder, names):
    for number, name in enumerate(names):
        (builder.add_typedef, builder.add_fwd, builder.add_type_tag)[number % 3](name, *[1] * (number % 3 != 1))


@given(st.lists(FEW_NAMES, max_size=40), st.lists(FEW_NAMES, max_size=40), FEW_NAMES)
def test_finding_agrees_with_looking_at_every_type(base_names, split_names, sought):
    """In the base and in split BTF that counts ids and strings on from it."""
    builder = BtfBuilder()
    _add(builder, base_names)
    base = Btf(builder.to_bytes())
    split_builder = BtfBuilder(base)
    _add(split_builder, split_names)
    split = Btf(split_builder.to_bytes(), base)
    assert (split.start, split.stop) == (len(base_names) + 1, len(base_names) + len(split_names) + 1)
    names = [*base_names, *split_names]
    assert split.find(sought) == [number for number, name in enumerate(names, 1) if name == sought]
    assert [split.type_by_id(number).name for number in range(1, split.stop)] == names
    assert base.find(sought) == [number for number, name in enumerate(base_names, 1) if name == sought]
    assert list(split.names(frozenset(Kind))) == names


def test_a_module_refers_to_types_of_its_base(sample):
    builder = BtfBuilder(sample.btf)
    device = builder.add_struct("device", 120, [("outer", sample.ids["outer"], 0, 0), ("own", 1, 896, 0)])
    split = Btf(builder.to_bytes(), sample.btf)
    assert split.struct("device").id == device == sample.btf.stop
    assert split.resolve_path(device, "outer.name[3]").offset == 11
    assert split.size_of(split.member(device, "outer").type) == 112
    assert split.kind(sample.ids["work"]) is Kind.FUNC
    assert split.enumerator("BROKEN") == -1


def test_a_base_of_another_byte_order_is_refused(sample):
    with pytest.raises(BtfError, match="another byte order"):
        Btf(BtfBuilder(byteorder="big").to_bytes(), sample.btf)


def test_an_allocator_is_found_by_the_name_that_it_got():
    """Linux 6.10 made a macro of `__kmalloc`; others are more like it."""
    b = BtfBuilder()
    prototype = b.add_func_proto(0, [])
    for name in ("__alloc", "__kmalloc_noprof"):
        b.add_func(name, prototype)
    with pytest.raises(NotFound, match=r"no function '__kmalloc' \(did you mean __kmalloc_noprof, as .* 6\.10"):
        Btf(b.to_bytes()).function("__kmalloc")


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda btf: btf.struct("outr"), r"no struct 'outr' \(did you mean outer\?\)"),
        (lambda btf: btf.union("outer"), r"no union 'outer'$"),
        (lambda btf: btf.function("wrok"), r"no function 'wrok'$"),
        (lambda btf: btf.function("works"), r"no function 'works' \(did you mean work\?\)"),
        (lambda btf: btf.enumerator("BROKN"), r"no enumerator 'BROKN' \(did you mean BROKEN\?\)"),
        (lambda btf: btf.enumerator("ON", "limits"), r"enum limits has no enumerator 'ON'"),
        (lambda btf: btf.enumerator("ON", "stat"), r"no enum 'stat' \(did you mean state\?\)"),
    ],
)
def test_a_missing_name_is_answered_with_the_closest(sample, ask, message):
    with pytest.raises(NotFound, match=message):
        ask(sample.btf)


@pytest.mark.parametrize(
    ("name", "value"),
    [("OFF", 0), ("ON", 1), ("BROKEN", -1), ("MOST", 2**64 - 1), ("DEEPEST", -(2**40)), ("BIT_31", 2**31)],
)
def test_enumerators_of_named_and_anonymous_enums(either_sample, name, value):
    assert either_sample.btf.enumerator(name) == value
    assert either_sample.btf.find_enumerator(name) == value


def test_an_enumerator_is_not_the_enum_of_that_name_nor_a_member():
    """The name's offset stands elsewhere in the types too; only an enumerator counts."""
    b = BtfBuilder()
    number = b.add_int("int", 4)
    b.add_struct("s", 4, [("LISTEN", number, 0, 0)])
    b.add_enum("LISTEN", 4, [("OTHER", 3)])
    btf = Btf(b.to_bytes())
    assert btf.find_enumerator("LISTEN") is None
    with pytest.raises(NotFound):
        btf.enumerator("LISTEN")


def test_a_string_repeated_without_end_is_refused():
    """It would make every look-up of it quadratic."""
    b = BtfBuilder()
    b.add_int("a", 4)
    data = bytearray(b.to_bytes()) + b"a\0" * 100_000
    data[20:24] = (len(data) - 24 - 16).to_bytes(4, "little")
    with pytest.raises(BtfError, match="repeats the string 'a' more than 64 times"):
        Btf(bytes(data)).find("a")
