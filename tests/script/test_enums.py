"""Enums and nested structs that a script defines."""

from __future__ import annotations

import pytest

from pyebpf.errors import CompileError
from pyebpf.script import Script
from tests.dsl.fake_target import FakeTarget
from tests.support.scripts import printed

ENUM = "enum color { RED = 3, GREEN, BLUE = -1 }; enum { LONE = 9 } enum large { HUGE = 0x200000001 }"


@pytest.mark.parametrize(
    ("statements", "text"),
    [
        ('printf("%d %s|%7s|%-7s|", RED, GREEN, RED, LONE);', "3 GREEN|    RED|LONE   |"),
        ("print(BLUE);", "BLUE"),
        ("$x = GREEN; print($x);", "GREEN"),
        ("@ = RED; $y = @; print($y);", "RED"),
        ("print((RED, (LONE, 1)));", "(RED, (LONE, 1))"),
        ("print(RED + 1);", "4"),
        ("$x = 4; print((enum color)$x);", "GREEN"),
        ("$x = 77; print((enum color)$x);", "77"),
        ("$x = RED; $x = LONE; print($x);", "9"),
        ("let $x : enum color = GREEN; print($x);", "GREEN"),
        ("let $x : enum color; $x = 3; print($x);", "RED"),
        ("let $x : enum color; $x = (int64)-1; print($x);", "BLUE"),
        ("print((sizeof(enum color), sizeof(enum large)));", "(4, 8)"),
        ("$x = 0x200000001; print((enum large)$x);", "HUGE"),
        ("if (GREEN == 4) { print(1); }", "1"),
    ],
)
def test_constants_are_printed_by_their_names(statements: str, text: str) -> None:
    """Unless they were computed with, or are of several enums."""
    assert printed(f"{ENUM} BEGIN {{ {statements} }}").partition("\n")[0] == text


def test_constants_within_a_struct_are_known_outside() -> None:
    """As in C, however deep."""
    script = "struct s { enum { LOW = 4, HIGH } e; struct { enum in { DEEP = 9 } d; } t; }; "
    assert printed(f"{script} BEGIN {{ print((LOW, HIGH, DEEP, sizeof(struct s))); }}") == "(LOW, HIGH, DEEP, 8)\n"


def test_keys_and_values_of_maps_are_named() -> None:
    """Where all of them are of one enum."""
    assert printed(f"{ENUM} BEGIN {{ @[RED, 1] = GREEN; }}") == "@[RED, 1]: GREEN\n"
    assert printed(f"{ENUM} BEGIN {{ @[RED] = 1; @[GREEN] = 2; }}") == "@[RED]: 1\n@[GREEN]: 2\n"
    assert printed(f"{ENUM} BEGIN {{ @[RED] = 1; @[RED + 2] = 2; }}") == "@[3]: 1\n@[5]: 2\n"
    assert printed(f"{ENUM} BEGIN {{ $x = RED; @[$x] = $x; }}") == "@[RED]: RED\n"
    assert printed(f"{ENUM} BEGIN {{ let $x = RED; @ = (1, $x); }}") == "@: (1, RED)\n"


def test_a_value_of_an_enum_is_known() -> None:
    """Numbers, and constants before it."""
    assert printed("enum { A = 5, B = A, C } BEGIN { print(C + 0); }") == "6\n"
    assert printed("enum { A = 1 << 4, B = A | 3 } BEGIN { print(B + 0); }") == "19\n"
    assert printed("enum { A = sizeof(int) + 1, B = sizeof(char *) } BEGIN { print((A + 0, B + 0)); }") == "(5, 8)\n"
    with pytest.raises(CompileError, match=r"here sizeof\(\) knows integers and pointers"):
        Script("struct s { int x; }; enum { A = sizeof(struct s) } BEGIN { }").compile(FakeTarget())
    with pytest.raises(CompileError, match="is to be a number"):
        Script("enum { A = pid } BEGIN { }").compile(FakeTarget())


def test_structs_have_structs_inside() -> None:
    """With a name, without one, and enums; sizes are C's."""
    text = """
        struct outer {
            char a; struct inner { int x; short y; } in; struct { long b; }; enum { Z } e; union { char c; int d; } u
        }
        BEGIN {
            print((offsetof(struct outer, in.y), offsetof(struct outer, b), offsetof(struct outer, e)));
            print((offsetof(struct outer, u.d), sizeof(struct outer)));
        }"""
    assert printed(text) == "(8, 16, 24)\n(28, 32)\n"


def test_attributes_of_structs_are_obeyed() -> None:
    """Packed ones have no gaps, and aligned ones are larger."""
    text = """
        struct a { char c; int i; short s } __attribute__((packed))
        struct b { char c; int i; } __attribute__((packed)) /* and */ __attribute__ ((aligned(16)))
        struct c { struct a a; int i; };
        BEGIN { print((sizeof(struct a), offsetof(struct a, s), sizeof(struct b), sizeof(struct c))); }"""
    assert printed(text) == "(7, 5, 16, 12)\n"


@pytest.mark.parametrize(
    ("members", "after", "found"),
    [
        ("char x; int a __attribute__((aligned(8)));", "", "(16, 8)"),
        ("char x; int a __attribute__((packed));", "", "(5, 1)"),
        ("char x; long a PACKED; short b;", "", "(12, 1)"),
        ("char x; struct { int q; } a __attribute__((aligned(16)));", "", "(32, 16)"),
        ("char x; struct { char c; long d; } __attribute__((__packed__)) a;", "", "(10, 1)"),
        ("char x, y; __attribute__((aligned(8))) int a;", "", "(16, 8)"),
        ("char x; _Alignas(8) int a, b;", "", "(24, 8)"),
        ("char x; int z[2] __attribute__((aligned(8))), a; char b;", "", "(24, 16)"),
        ("char x; char (*a)(int) __attribute__((aligned(16)));", "", "(32, 16)"),
        ("char x; int b : 3 __attribute__((aligned(8))); char a;", "", "(16, 9)"),
        ("char x; int a;", "__attribute__((__packed__))", "(5, 1)"),
        ("char x; int a;", "__attribute__((packed, aligned(2)))", "(6, 1)"),
        ("char x; int a;", "__attribute__((__packed__, __aligned__(8)))", "(8, 1)"),
        ("char x; int a __attribute__((aligned(2)));", "__attribute__((packed))", "(6, 2)"),
        ("char x; int a;", "__attribute__((aligned))", "(16, 4)"),
        ("char x; int a;", "__attribute__((aligned(sizeof(struct one)))) __attribute__((unused));", "(16, 4)"),
        ("char x; enum tiny a; char b;", "", "(3, 1)"),
        ("char x; enum { ONE = -1, LAST = 300 } __attribute__((packed)) a;", "", "(4, 2)"),
        ("char x; enum huge a;", "", "(16, 8)"),
        ("char x; unsigned short int a; int unsigned b; char unsigned c; long int unsigned d;", "", "(24, 2)"),
        ("char x; signed a; short signed int b; signed char c; long long unsigned d;", "", "(24, 4)"),
    ],
)
def test_types_are_laid_out_as_in_c(members: str, after: str, found: str) -> None:
    """Attributes of members, with and without underscores, and names of integers in any order; as gcc has them."""
    text = (
        "#define PACKED __attribute__((packed))\nstruct one { long a; long b; }; "
        "enum tiny { NONE, SOME } __attribute__((packed)); enum huge { MUCH = 0x100000000 };\n"
        f"struct a {{ {members} }} {after}\nBEGIN {{ print((sizeof(struct a), offsetof(struct a, a))); }}"
    )
    assert printed(text) == f"{found}\n"


def test_members_are_read_where_attributes_put_them() -> None:
    """And an enum as the bytes that it has."""
    text = """
        enum tiny { NONE, SOME } __attribute__((packed));
        struct a { char x; enum tiny e; char z PACKED; int y PACKED; };
        BEGIN { $v = (uint64)0x040302030100; $p = (struct a *)&$v; print(($p->e, $p->z, $p->y & 0xffff)); }"""
    assert printed(f"#define PACKED __attribute__((packed))\n{text}") == "(SOME, 3, 770)\n"


def test_a_name_of_a_member_is_its_own() -> None:
    """In a nested struct without a name, too."""
    for members in ("int x; char x;", "int x; struct { long x; };"):
        with pytest.raises(CompileError, match="there is a member x already"):
            Script(f"struct a {{ {members} }}; BEGIN {{ print(sizeof(struct a)); }}").compile(FakeTarget())
