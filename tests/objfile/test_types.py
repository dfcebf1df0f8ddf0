"""An object's BTF as a kernel takes it: the same ids, sections with their variables, nothing defined elsewhere."""

from __future__ import annotations

import pytest

from pyebpf.btf import Btf, DataSec, Func, FuncProto, Struct, Var
from pyebpf.errors import MalformedData
from pyebpf.objfile import read_object
from pyebpf.specs.programs import CodeTypes

SOURCE = """
struct bpf_spin_lock { u32 val; };
struct bpf_list_head { u64 opaque[2]; };
struct bpf_list_node { u64 opaque[3]; };
struct item { u64 number; struct bpf_list_node node; };
#define PRIVATE __attribute__((section(".bss.own"), visibility("hidden"), aligned(8)))
PRIVATE u64 first;
PRIVATE struct bpf_spin_lock guard;
PRIVATE struct bpf_list_head items __attribute__((btf_decl_tag("contains:item:node")));
extern void bpf_some_function(void *, int) SEC(".ksyms");
extern const void some_variable SEC(".ksyms");
struct locked { struct bpf_spin_lock lock; u32 count; };
struct { __uint(type, 1); __type(key, u32); __type(value, struct locked); __uint(max_entries, 3); } locks SEC(".maps");
u64 total;
SEC("tc") int f(void *context) {
    u32 key = (long)&some_variable;
    bpf_some_function(&items, 1);
    total = first + guard.val;
    return bpf_map_lookup_elem(&locks, &key) != 0;
}
"""


@pytest.fixture
def whole(compile_c):
    return read_object(compile_c(SOURCE, name="types"))


def test_ids_stay(whole):
    """What was one type before is one type after, by the same number."""
    before, after = whole.btf, Btf(whole.types)
    for name in ("locked", "bpf_spin_lock", "bpf_list_head"):
        (number,) = before.find(name)
        assert after.type_by_id(number) == before.type_by_id(number)
    assert [type(after.type_by_id(number)) for number in after.find("f")] == [Func]


def test_private_sections_have_offsets(whole):
    """The section's size and each variable's place in it, rising; other sections are structures without a name."""
    after = Btf(whole.types)
    (section,) = (node for number in after.find(".bss.own") if isinstance(node := after.type_by_id(number), DataSec))
    assert section.size == whole.elf.find(".bss.own").size
    places = {after.type_by_id(each.type).name: (each.offset, each.size) for each in section.variables}
    assert sorted(places) == ["first", "guard", "items"]
    offsets = [offset for offset, _ in places.values()]
    assert offsets == sorted(offsets)
    symbols = {symbol.name: symbol.value for symbol in whole.elf.symbols}
    assert places == {name: (symbols[name], size) for name, size in (("first", 8), ("guard", 4), ("items", 16))}
    for name in (".ksyms", ".maps", ".bss", "license"):
        assert not after.find(name)
        for number in whole.btf.find(name):
            node = after.type_by_id(number)
            assert (type(node), node.name, node.size) == (Struct, "", 4)


def test_nothing_is_defined_elsewhere(whole):
    """Functions and variables are the object's, each variable of a type with a size, and parameters have names."""
    after = Btf(whole.types)
    seen = set()
    for number in range(1, after.stop):
        node = after.type_by_id(number)
        seen.add(type(node))
        if isinstance(node, Func):
            assert node.linkage == (node.name != "bpf_some_function")
        elif isinstance(node, Var):
            assert node.linkage in (0, 1)
            assert after.size_of(node.type)
        elif isinstance(node, FuncProto):
            assert all(parameter.name for parameter in node.params if parameter.type)
    assert {Func, Var, FuncProto} <= seen


def test_maps_say_which_types_are_theirs(whole):
    """A map with a lock in its value, and the section; ordinary data is left to this package."""
    specs = {spec.name: spec for spec in whole.map_specs()}
    described = specs["locks"].btf
    after = Btf(described.btf)
    assert (after.size_of(described.key), after.type_by_id(described.value).name) == (4, "locked")
    own = specs[".bss.own"].btf
    assert (own.key, after.type_by_id(own.value).name) == (0, ".bss.own")
    assert specs[".bss"].btf is None
    assert whole.program_spec("f").code.btf == CodeTypes(whole.types, tuple(whole.btf.find("f")))


def test_an_object_without_debug_information(compile_c):
    """There is nothing to load."""
    plain = read_object(compile_c('SEC("tc") int f(void *c) { return 0; }', "-g0", name="plain"))
    assert plain.program_spec("f").code.btf is None
    with pytest.raises(MalformedData, match="the object has no BTF: compile it with -g"):
        _ = plain.types
