"""What one part of an object lacks or asks for does not spoil the others; types that are given; records from BTF."""

from __future__ import annotations

import re

import pytest

from pyebpf.asm import Form
from pyebpf.errors import MalformedData, NotFound, NotSupported
from pyebpf.objfile import list_section, read_object
from pyebpf.uapi.attach_types import AttachType
from pyebpf.uapi.bpf import MapType, ProgramType

SOURCE = """
#define __ulong(name, value) enum { __made_##name = value } name
struct inner { __uint(type, 2); __type(key, u32); __type(value, u64); __uint(max_entries, 1); };
struct inner first SEC(".maps"), second SEC(".maps");
struct { __uint(type, 12); __type(key, u32); __uint(max_entries, 5); __array(values, struct inner); } outer SEC(".maps")
    = { .values = { [1] = &first, [3] = &second } };
int on_third(void *);
struct { __uint(type, 3); __uint(key_size, 4); __uint(max_entries, 7); __array(values, int (void *));
} steps SEC(".maps")
    = { .values = { [3] = (void *)&on_third } };
struct { __uint(type, 2); __uint(max_entires, 3); } wrong SEC(".maps");
struct { __uint(type, 2); __type(key, u32); __type(value, u64); __uint(max_entries, 3); __uint(pinning, 1);
} kept SEC(".maps");
struct { __uint(type, 2); __type(key, u32); __type(value, u64); __uint(max_entries, 3); __uint(pinning, 0);
} a_name_of_more_than_fifteen_1 SEC(".maps"), a_name_of_more_than_fifteen_2 SEC(".maps");
struct { __uint(type, 33); __uint(map_flags, 1024); __uint(max_entries, 3); __ulong(map_extra, 1ull << 44);
} memory SEC(".maps");

SEC("socket") int filter(void *c) {
    u32 key = 1;
    return bpf_map_lookup_elem(&kept, &key) != bpf_map_lookup_elem(&outer, &key);
}
SEC("socket") int names(void *c) {
    u32 key = 1;
    return bpf_map_lookup_elem(&a_name_of_more_than_fifteen_1, &key)
        != bpf_map_lookup_elem(&a_name_of_more_than_fifteen_2, &key);
}
SEC("socket") int on_third(void *c) { return 0; }
SEC("socket") int spoiled(void *c) { u32 key = 1; return bpf_map_lookup_elem(&wrong, &key) != 0; }
SEC("2/7") int numbered(void *c) { return 1; }
SEC("of_my_own") int own(void *c) { return 1; }
"""


@pytest.fixture(scope="module")
def whole(compile_c):
    """The object of SOURCE."""
    return read_object(compile_c(SOURCE))


def test_a_map_that_cannot_be_made_spoils_none(whole):
    """It is refused with its name when it is asked for, by itself or through a program."""
    message = "^map wrong has the unknown attribute 'max_entires'"
    assert [symbol.name for symbol in whole.program_spec("filter").code.subprograms] == ["filter"]
    assert whole.maps["kept"].max_entries == 3
    assert "wrong" in list(whole.maps)
    for ask in (lambda: whole.maps["wrong"], whole.map_specs, lambda: whole.module_spec(program_types=KINDS)):
        with pytest.raises(MalformedData, match=message):
            ask()


KINDS = {"numbered": ProgramType.SCHED_CLS, "own": ProgramType.XDP}


def test_the_type_of_a_program_can_be_given(whole):
    """Where the section's name says none, or another; None leaves a program out."""
    with pytest.raises(NotFound, match=re.escape("program own: section 'of_my_own' names no program type")):
        whole.program_spec("own")
    own = whole.program_spec("own", program_type=ProgramType.XDP, attach_type=AttachType.XDP_CPUMAP)
    assert (own.type, own.expected_attach_type, own.flags) == (ProgramType.XDP, AttachType.XDP_CPUMAP, 0)
    assert whole.program_spec("filter", program_type=ProgramType.SCHED_CLS).type is ProgramType.SCHED_CLS
    module = whole.module_spec(program_types={**KINDS, "spoiled": None})
    assert sorted((p.name, p.type.name) for p in module.programs) == [
        ("filter", "SOCKET_FILTER"),
        ("names", "SOCKET_FILTER"),
        ("numbered", "SCHED_CLS"),
        ("on_third", "SOCKET_FILTER"),
        ("own", "XDP"),
    ]
    with pytest.raises(NotFound, match=r"^the object has no program 'owm'"):
        whole.module_spec(program_types={"owm": ProgramType.XDP})


def test_pinning_and_contents_are_told(whole):
    """Loading does neither: who loads is told what the source wants."""
    assert whole.pinned == {"kept"}
    assert whole.contents == {"outer": {1: "first", 3: "second"}, "steps": {3: "on_third"}}
    assert whole.maps["outer"].inner_map is not None


def test_map_extra_is_a_number_of_64_bits(whole):
    """Written by libbpf's __ulong, an enumeration."""
    assert (whole.maps["memory"].type, whole.maps["memory"].extra) == (MapType.ARENA, 1 << 44)


def test_maps_whose_cut_names_are_equal_are_two(whole):
    """The kernel's names have 15 characters; programs and maps are joined by them here."""
    used = [i.symbol for i in whole.program_spec("names").code.instructions if i.op.form is Form.LDDW_MAP]
    assert len(set(used)) == 2
    assert {spec.name for spec in whole.module_spec(program_types={**KINDS, "spoiled": None}).maps} >= set(used)


def test_what_a_map_begins_with_is_among_the_specs(compile_c):
    """Maps that are reached only through a map of maps too; a long name is cut in `contents` as in the specs."""
    source = """
        struct inner { __uint(type, 2); __type(key, u32); __type(value, u64); __uint(max_entries, 1); };
        struct inner reached_only_through_outer SEC(".maps");
        struct { __uint(type, 12); __type(key, u32); __uint(max_entries, 5); __array(values, struct inner);
        } outer SEC(".maps") = { .values = { [3] = &reached_only_through_outer } };
        SEC("socket") int f(void *c) { u32 key = 1; return bpf_map_lookup_elem(&outer, &key) != 0; }
    """
    whole = read_object(compile_c(source, name="reached"))
    assert sorted(spec.name for spec in whole.module_spec().maps) == ["outer", "reached_only_th"]
    assert whole.contents == {"outer": {3: "reached_only_th"}}


def test_struct_ops_are_not_read(compile_c):
    """The error says what to write instead; the rest of the object can be loaded, and all of it listed."""
    source = """
        SEC("struct_ops/ssthresh") u32 ss(u64 *arguments) { return 10; }
        struct table { void *ssthresh; };
        SEC(".struct_ops") struct table made = { .ssthresh = (void *)ss };
        SEC("socket") int f(void *c) { return 0; }
    """
    whole = read_object(compile_c(source, name="table"))
    message = r"^program ss: struct_ops of objects are not read: write the table with bpf.struct_ops\(\), or leave"
    for ask in (whole.module_spec, lambda: whole.program_spec("ss")):
        with pytest.raises(NotSupported, match=message):
            ask()
    assert [program.name for program in whole.module_spec(program_types={"ss": None}).programs] == ["f"]
    assert "exit" in list_section(whole, "struct_ops/ssthresh")


def test_functions_without_a_type_are_programs(whole):
    """As LLVM made them before version 10."""
    symbols = tuple(s._replace(kind="STT_NOTYPE") if s.kind == "STT_FUNC" else s for s in whole.elf.symbols)
    old = type(whole)(whole.elf._replace(symbols=symbols))
    assert old.programs == whole.programs
    assert old.program_spec("filter").code.instructions == whole.program_spec("filter").code.instructions


RECORDS = r"""
enum color { RED, GREEN };
struct address { u8 bytes[16]; u16 port; };
struct key { u32 pid; char comm[16]; struct address both[2]; enum color color; void *place; _Bool on;
    signed char low; };
struct odd { u32 a : 3; u32 b : 29; };
struct packed { u8 a; u32 b; } __attribute__((packed));
union either { u32 a; u64 b; };
#define MAP(n, t) \
    struct { __uint(type, 1); __type(key, u32); __type(value, t); __uint(max_entries, 3); } n SEC(".maps");
MAP(typed, struct key) MAP(odd, struct odd) MAP(packed, struct packed) MAP(either, union either) MAP(words, u32[5])
struct { __uint(type, 1); __type(key, struct address); __type(value, u64); __uint(max_entries, 3); } keyed SEC(".maps");
SEC("socket") int filter(void *c) { return !!bpf_map_lookup_elem(&typed, c) + !!bpf_map_lookup_elem(&odd, c)
    + !!bpf_map_lookup_elem(&packed, c) + !!bpf_map_lookup_elem(&either, c) + !!bpf_map_lookup_elem(&words, c)
    + !!bpf_map_lookup_elem(&keyed, c); }
"""


def test_structures_are_records(compile_c):
    """Members by their names: numbers, text, bytes, records in arrays; the bytes are C's."""
    value = read_object(compile_c(RECORDS, name="records")).maps["typed"].value
    data = bytes(range(1, 4)) + bytes([0]) + b"python".ljust(16, b"\0") + bytes(range(36))
    data += (1).to_bytes(4, "little") + bytes(4) + (1 << 40).to_bytes(8, "little") + bytes([1, 0xFE]) + bytes(6)
    made = value.decode(data)
    assert (made.pid, made.comm, made.color, made.place, made.low) == (0x030201, "python", 1, 1 << 40, -2)
    assert [each.port for each in made.both] == [0x1110, 0x2322]
    assert value.encode(made) == data


@pytest.mark.parametrize(("name", "type_name"), [
    ("odd", "u8[4]"), ("packed", "u8[5]"), ("either", "u8[8]"), ("words", "u32[5]"),
])  # fmt: skip
def test_what_python_has_no_layout_for_is_bytes(compile_c, name, type_name):
    """Bit-fields, packed members, unions; arrays of numbers are lists."""
    value = read_object(compile_c(RECORDS, name="records")).maps[name].value
    assert value.name == type_name
