"""Types as C writes them."""

from __future__ import annotations

import pytest

from pyebpf.btf import Btf, BtfBuilder, c_declaration, c_definition
from pyebpf.btf.dump import c_dump
from pyebpf.errors import BtfError


@pytest.mark.parametrize(
    ("name", "declared"),
    [
        ("int", "int x"),
        ("const pid_t", "const pid_t x"),
        ("char[16]", "char x[16]"),
        ("u64[2][3]", "long unsigned int x[2][3]"),
        ("char[]", "char x[]"),
        ("inner *", "struct inner *x"),
        ("restrict", "struct outer * restrict x"),
        ("function *", "int (*x)(struct outer *to, long unsigned int count)"),
        ("variadic", "void x(struct outer * restrict fmt, ...)"),
        ("work", "int work(struct outer *to, long unsigned int count)"),
        ("state", "enum state x"),
        ("opaque union", "union choice x"),
        ("union", "union (anonymous) x"),
        ("user char *", "char *x"),
        ("void *", "void *x"),
        ("counter", "long unsigned int counter"),
    ],
)
def test_declarations(sample, name, declared):
    assert c_declaration(sample.btf, sample.ids[name], "x") == declared


def test_pointers_to_arrays_and_constant_pointers():
    b = BtfBuilder()
    number = b.add_int("int", 4)
    to_array = b.add_ptr(b.add_array(number, number, 3))
    to_const = b.add_ptr(b.add_const(number))
    const_pointer = b.add_const(b.add_ptr(number))
    functions = b.add_array(b.add_ptr(b.add_func_proto(to_const)), number, 2)
    btf = Btf(b.to_bytes())
    assert c_declaration(btf, to_array, "x") == "int (*x)[3]"
    assert c_declaration(btf, to_const, "x") == "const int *x"
    assert c_declaration(btf, const_pointer, "x") == "int * const x"
    assert c_declaration(btf, functions, "x") == "const int *(*x[2])(void)"
    assert c_declaration(btf, to_const) == "const int *"


def test_a_struct_is_defined_with_offsets_and_bit_fields(sample):
    lines = c_definition(sample.btf, sample.ids["inner"]).splitlines()
    assert [" ".join(line.split()) for line in lines] == [
        "struct inner {",
        "int x; /* 0 */",
        "union (anonymous); /* 4 */",
        "}; /* 8 bytes */",
    ]
    flags = c_definition(sample.btf, sample.ids["flags"])
    assert "unsigned int high : 27;" in flags
    assert "/* 0 bit 5 */" in flags


def test_an_enum_is_defined_with_its_values(sample):
    assert (
        c_definition(sample.btf, sample.ids["state"]) == "enum state {\n    OFF = 0,\n    ON = 1,\n    BROKEN = -1,\n};"
    )


def test_what_has_no_body_is_declared(sample):
    assert c_definition(sample.btf, sample.ids["inner *"]) == "struct inner *;"


def test_prototypes_that_take_themselves_are_refused():
    b = BtfBuilder()
    b.add_ptr(2)
    proto = b.add_func_proto(0, [(f"a{n}", 1) for n in range(50)])
    with pytest.raises(BtfError, match="without end"):
        c_declaration(Btf(b.to_bytes()), proto)


def test_types_without_a_name_are_dumped_where_they_are_used():
    """With tabs, as libbpf does: bit-fields, arrays without a length, pointers to what is defined in place."""
    b = BtfBuilder()
    number = b.add_int("unsigned int", 4)
    color = b.add_enum("", 4, [("RED", 0), ("BLUE", 2)])
    inner = b.add_union("", 4, [("x", number, 0, 0), ("y", number, 0, 0)])
    outer = b.add_struct(
        "outer",
        12,
        [
            ("", inner, 0, 0),
            ("c", b.add_ptr(b.add_const(color)), 32, 0),
            ("bits", number, 64, 3),
            ("rest", b.add_array(number, number, 0), 96, 0),
        ],
    )
    empty = b.add_struct("empty", 0, [])
    btf = Btf(b.to_bytes())
    assert c_dump(btf, outer) == (
        "struct outer {\n\tunion {\n\t\tunsigned int x;\n\t\tunsigned int y;\n\t};\n"
        "\tconst enum {\n\t\tRED = 0,\n\t\tBLUE = 2,\n\t} *c;\n\tunsigned int bits: 3;\n\tunsigned int rest[0];\n}"
    )
    assert c_dump(btf, empty) == "struct empty {}"
