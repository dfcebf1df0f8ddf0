"""CO-RE relocations: clang's questions about types, answered from another kernel's BTF."""

from __future__ import annotations

import re

import pytest

from pyebpf.asm import Form, kernel_text
from pyebpf.btf import Btf, BtfBuilder
from pyebpf.errors import MalformedData
from pyebpf.objfile import list_section, read_object

SOURCE = """
#pragma clang attribute push (__attribute__((preserve_access_index)), apply_to = record)
struct inner { int x; long y[4]; };
struct job {
    u32 id; char name[8]; union { u64 as_number; void *as_pointer; }; struct inner in; u32 low : 3, high : 9;
};
struct job___old { u32 former; };
struct job___new { void *list[2]; u64 id; };
struct gone { int x; };
#pragma clang attribute pop
enum state { IDLE, BUSY = 7, LOST };
typedef struct { int a; } plain_t;

#define FIELD(what, kind) __builtin_preserve_field_info(what, kind)
#define ENUM(name, kind) __builtin_preserve_enum_value(*(enum state *)name, kind)
SEC("socket") int loads(struct job *job) {
    return job->id + job->name[2] + (int)job->as_number + (int)job->in.y[2];
}
SEC("socket") int element(struct job *job) { return job[2].id; }
SEC("socket") int sign(struct job *job) { return job->in.x; }
SEC("socket") int store(struct job *job) { job->in.x = 5; return 0; }
SEC("socket") int former(struct job___old *job) {
    if (FIELD(job->former, 2)) return job->former;
    return 11;
}
SEC("socket") int flavoured(struct job___new *job) { return job->id; }
SEC("socket") int vanished(struct gone *gone) { return gone->x; }
SEC("socket") int questions(struct job *job) {
    return FIELD(job->in.y, 0) * 1000000 + FIELD(job->in.y, 1) * 1000 + FIELD(job->in.x, 2) * 100 + FIELD(job->in.x, 3);
}
SEC("socket") int bits(struct job *job) {
    return FIELD(job->high, 0) * 1000000 + FIELD(job->high, 1) * 10000
        + FIELD(job->high, 4) * 100 + FIELD(job->high, 5);
}
SEC("socket") int types(void *context) {
    return __builtin_preserve_type_info(*(struct job *)0, 1) * 10000
        + __builtin_preserve_type_info(*(struct gone *)0, 0) * 1000 + __builtin_preserve_type_info(*(plain_t *)0, 0);
}
SEC("socket") int enums(void *context) {
    return ENUM(BUSY, 1) * 100 + ENUM(BUSY, 0) * 10 + ENUM(LOST, 0);
}
"""


def kernel():
    """Other offsets than the source's: `job` begins with a list, `id` and `inner.x` have 8 bytes, LOST is gone."""
    builder = BtfBuilder()
    u32, u64, char = builder.add_int("u32", 4), builder.add_int("u64", 8), builder.add_int("char", 1, signed=True)
    s64 = builder.add_int("long", 8, signed=True)
    pointer = builder.add_ptr(0)
    inner = builder.add_struct(
        "inner", 72, [("pad", u64, 0, 0), ("x", s64, 64, 0), ("y", builder.add_array(s64, u32, 7), 128, 0)]
    )
    either = builder.add_union("", 8, [("as_pointer", pointer, 0, 0), ("as_number", u64, 0, 0)])
    members = [
        ("list", builder.add_array(pointer, u32, 2), 0, 0),
        ("name", builder.add_array(char, u32, 16), 16 * 8, 0),
        ("id", u64, 32 * 8, 0),
        ("", either, 40 * 8, 0),
        ("in", inner, 48 * 8, 0),
        ("low", u32, 120 * 8, 5),
        ("high", u32, 120 * 8 + 5, 12),
    ]
    builder.add_struct("job", 128, members)
    builder.add_enum("state", 4, [("IDLE", 0), ("BUSY", 9)])
    return Btf(builder.to_bytes())


@pytest.fixture(scope="module")
def whole(compile_c):
    """The object of SOURCE."""
    return read_object(compile_c(SOURCE, "-mcpu=v3", name="core"))


def code(whole, name):
    return [kernel_text(instruction) for instruction in whole.program_spec(name, kernel()).code.instructions]


def test_members_are_loaded_where_the_kernel_has_them(whole):
    """Also elements, members of anonymous unions and nested structs; as wide as there."""
    loads = re.findall(r"\*\((\w+) \*\)\(r\d \+ (\d+)\)", "\n".join(code(whole, "loads")))
    assert sorted(loads) == [("u64", "32"), ("u64", "40"), ("u64", "80"), ("u8", "18")]


def test_flavours_stand_for_the_type_without_the_suffix(whole):
    """Their own members say how wide the source loads; here as wide as the kernel has it."""
    assert "r0 = *(u64 *)(r1 + 32)" in code(whole, "flavoured")


def test_elements_of_an_array_of_structs(whole):
    """As far apart as the kernel's structs are large."""
    assert "r0 = *(u64 *)(r1 + 288)" in code(whole, "element")


@pytest.mark.parametrize("name", ["store", "sign"])
def test_another_width_is_refused(whole, name):
    """Of a store, which would write what the source did not, and of a number with a sign."""
    message = r"^socket, slot \d+: in.x has 8 bytes in the kernel, and 4 where this was compiled$"
    with pytest.raises(MalformedData, match=message):
        whole.program_spec(name, kernel())


def test_what_is_not_there_is_never_loaded(whole):
    """Whether it exists is 0, and its load a call that no verifier takes; flavours are one type."""
    assert "call 195896080" in code(whole, "former")
    assert [text for text in code(whole, "former") if "= 0" in text and "goto" not in text]
    assert "call 195896080" in code(whole, "vanished")


def test_questions_stand_in_the_listing(whole):
    """Beside the instructions that they change, by the names of the source; the listing needs no kernel."""
    text = list_section(whole, "socket", source=False)
    assert re.search(r"\*\(u32 \*\)\(r\d \+ \d+\)  ; CO-RE byte_off job.in.x$", text, re.MULTILINE)
    for comment in (
        "field_exists job.former",
        "byte_off job.in.y[2]",
        "type_size job",
        "byte_off job[2].id",
        "enumval_value state.BUSY",
    ):
        assert f"; CO-RE {comment}\n" in text


def answers(whole, name):
    """The constants that CO-RE filled in, by where they stand in the code."""
    offsets = {relocation.offset // 8 for relocation in whole.debug.core["socket"]}
    section = whole.elf.code_section("socket")
    start = next(f.value for f in whole.elf.functions(section) if f.name == name) // 8
    found = []
    slot = start
    for instruction in whole.program_spec(name, kernel()).code.instructions:
        if slot in offsets:
            assert instruction.op.form in (Form.DST_IMM, Form.LDDW)
            found.append(instruction.imm)
        slot += instruction.slots
    return sorted(found)


def test_questions_about_members(whole):
    """Offset, size, existence, sign."""
    assert answers(whole, "questions") == sorted([48 + 16, 56, 1, 1])


def test_questions_about_bit_fields(whole):
    """The bytes to load and the shifts that leave the bits."""
    assert answers(whole, "bits") == sorted([120, 4, 64 - 17, 64 - 12])


def test_questions_about_types(whole):
    """Size of one that is there; existence of two that are not."""
    assert answers(whole, "types") == [0, 0, 128]


def test_questions_about_enumerators(whole):
    """The kernel's value, existence, absence."""
    assert answers(whole, "enums") == [0, 1, 9]
