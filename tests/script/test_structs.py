"""Structs that a script defines, and members of the kernel's."""

from __future__ import annotations

from pathlib import Path
from struct import pack
from typing import TYPE_CHECKING

import pytest

from pyebpf.errors import CompileError
from pyebpf.script import Script
from pyebpf.types.tracepoint import parse_format
from tests.dsl.fake_target import FakeTarget
from tests.support.scripts import printed

if TYPE_CHECKING:
    from pyebpf.testing import Simulation
    from pyebpf.types.tracepoint import TracepointFormat

EXECVE = Path(__file__).parents[1] / "types/formats/syscalls.sys_enter_execve.format"
OPEN = "tracepoint:syscalls:sys_enter_openat"


def at_memory(data: bytes, text: str) -> str:
    """What a script prints whose first argument is the address of such memory of the process."""
    found: list[str] = []

    def events(kernel: Simulation) -> None:
        kernel.tracepoint("syscalls:sys_enter_openat", filename=data)

    found.append(printed(text, events))
    return found[0]


def test_a_struct_of_a_script_is_laid_out_as_in_c() -> None:
    """Members at their alignments, nested structs, arrays, pointers."""
    script = (
        "struct point { char tag; short x; int y; }; "
        "struct shape { unsigned char kind; struct point at; uint64 area; int sizes[3]; char name[8]; }; "
        f"{OPEN} {{ $s = (struct shape *)args.filename; "
        'printf("%d %d %d %llu %d %s %d", $s->kind, $s->at.x, $s->at.y, $s->area, $s->sizes[2], $s->name, '
        "sizeof(struct shape)); }"
    )
    data = pack("<B3x", 7) + pack("<bxhi", 1, -2, 3) + pack("<4x") + pack("<Qiii8s4x", 1 << 40, 4, 5, 6, b"round")
    assert at_memory(data, script) == "7 -2 3 1099511627776 6 round 48"


class _WithExecve(FakeTarget):
    """A kernel with the tracepoint of execve(2), as Linux 6.18 describes it."""

    def tracepoint_format(self, category: str, name: str) -> TracepointFormat:
        return (
            parse_format(EXECVE.read_text())
            if name == "sys_enter_execve"
            else super().tracepoint_format(category, name)
        )


@pytest.mark.parametrize("words", ["args.argv", "$w", "(char **)args.argv", "((void **)args.argv)", "args.envp"])
def test_words_of_a_program_are_pointers(words: str) -> None:
    """Printed, in tuples, maps and keys; str() reads them."""
    data = pack("<3Q", 0x10, 0, 0x20)

    def events(kernel: Simulation) -> None:
        kernel.tracepoint("syscalls:sys_enter_execve", argv=data, envp=data)

    script = (
        f"tracepoint:syscalls:sys_enter_execve {{ $w = args.argv; $p = {words}; print($p[2]); print($p[1]); "
        "print((*$p, 1)); @[$p[2]] = $p[0]; print(@); clear(@); print(str($p[2])); print(sizeof($p[0])); }"
    )
    assert printed(script, events, target=_WithExecve()) == "0x20\n0x0\n(0x10, 1)\n@[0x20]: 0x10\n\n8\n"


def test_a_union_has_its_members_at_one_place() -> None:
    """And a pointer moves by the size of what it leads to."""
    script = (
        f"union word {{ uint32 whole; uint8 parts[4]; }}; {OPEN} {{ $u = (union word *)args.filename; "
        'printf("%x %x %x", $u->whole, $u->parts[1], *(uint16 *)(args.filename + 2)); }'
    )
    assert at_memory(b"\x01\x02\x03\x04\x00", script) == "4030201 2 403"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("struct a { int x : 33; }; BEGIN { $a = (struct a *)1; print($a->x); }", "a bit-field has 1 to 32 bits"),
        (
            "struct a { int x[4611686018427387904]; int y; }; BEGIN { print(sizeof(struct a)); }",
            "this array is too large",
        ),
        (
            "struct b { int x[500000000]; }; struct a { struct b x; int z[40000000]; }; BEGIN { $a = (struct a *)1; }",
            "with 2160000000 bytes: give it 2147483647 at most",
        ),
        ("struct a { struct a x; }; BEGIN { $a = (struct a *)1; print($a->x); }", "struct a contains itself"),
        ("struct a { struct a { int y; } x; }; BEGIN { print(sizeof(struct a)); }", "there is a struct a already"),
        ("struct a { int x; }; BEGIN { $a = (struct a *)1; print($a->y); }", "struct a has no member y: it has x"),
        ("BEGIN { $a = (struct nothing *)1; print($a->y); }", "no struct 'nothing'|struct nothing"),
    ],
)
def test_wrong_members_are_refused(text: str, message: str) -> None:
    """At their places."""
    with pytest.raises(CompileError, match=message):
        Script(text).compile(FakeTarget())


def test_bytes_are_swapped_by_the_size_of_the_number() -> None:
    """A cast gives it, and a variable and a map keep it."""
    assert printed(
        'BEGIN { $p = (uint16)0x1234; @p = (uint32)0x12345678; printf("%x %x", bswap($p), bswap(@p)); }'
    ) == ("3412 78563412@p: 305419896\n")


def test_delete_says_whether_there_was_an_entry() -> None:
    """As a value."""
    assert printed("BEGIN { @[1] = 1; print(delete(@, 1)); print(delete(@, 1)); }") == "true\nfalse\n"


def test_a_process_limits_probes() -> None:
    """`-p`: events of others do nothing."""
    from tests.support.scripts import printed_by

    def events(kernel: Simulation) -> None:
        for pid in (41, 42, 42, 43):
            kernel.process(pid=pid)
            kernel.tracepoint("syscalls:sys_enter_openat")

    assert printed_by(Script(f"{OPEN} {{ @[pid] = count(); }}", pid=42), events) == "@[42]: 2\n"


def test_bit_fields_and_nested_definitions_lie_as_in_c() -> None:
    """Offsets, sizes and bytes are what gcc makes of this struct."""
    struct = (
        "struct f { u32 a : 3; u32 b : 7; int c : 5; u8 d; u64 e : 40; struct { int x; union { u8 y; u16 z; }; } in; "
        "struct { u16 p; u32 q; } __attribute__((packed)) pk; u8 last; };"
    )
    data = bytes.fromhex("2577079a7856341201000000020000000000090000000300")
    text = at_memory(
        data,
        f"{struct} {OPEN} {{ $s = (struct f *)args.filename; "
        'printf("%d %d %d %d %llx %d %d %d %d|", $s.a, $s.b, $s.c, $s.d, $s.e, $s.in.x, $s.in.z, $s.pk.q, $s.last); '
        'printf("%d %d %d %d", sizeof(struct f), offsetof(struct f, d), offsetof(struct f, pk.q), '
        "offsetof(struct f, in.z)); }",
    )  # fmt: skip
    assert text == "5 100 -3 7 123456789a 1 2 9 3|24 2 18 12"


def test_bit_fields_of_bools_and_enums_are_such() -> None:
    """Each bit by itself: true or false, and an enum's name."""
    struct = "enum color { RED, GREEN, BLUE }; struct f { bool a : 1; bool b : 1; enum color c : 2; bool d : 1; };"
    text = f"{struct} {OPEN} {{ $s = (struct f *)args.filename; print(($s.a, $s.b, $s.d)); print($s->c); print(*$s); }}"
    for byte, shown in ((0b11010, "(false, true, true)"), (0b0101, "(true, false, false)")):
        color = ("RED", "GREEN", "BLUE")[byte >> 2 & 3]
        found = at_memory(bytes([byte, 0, 0, 0]), text).splitlines()
        assert found[:2] == [shown, color]
        a, b, d = shown.strip("()").split(", ")
        assert found[2] == f"{{ .a = {a}, .b = {b}, .c = {color}, .d = {d} }}"


def test_a_struct_has_an_alignment_of_its_own() -> None:
    """`packed` has none, and zero bits begin a new unit."""
    assert printed(
        "struct a { char x; int y; } __attribute__((packed)); struct b { u8 x : 2; u8 : 0; u8 y : 2; u16 z; }; "
        "BEGIN { print((sizeof(struct a), offsetof(struct a, y), sizeof(struct b), offsetof(struct b, z))); }"
    ) == "(5, 1, 4, 2)\n"  # fmt: skip


def test_a_type_is_defined_wherever_its_body_stands() -> None:
    """Several members have it, pointers lead to it, and one with a name is known outside; alone it is no member."""
    assert printed(
        "struct a { struct { int x; char c; } one, two[2], *far; const union u { int x; long y; } const in; }; "
        "struct b { struct c { int x; }; enum e { P, Q }; int y; struct c z; union u w; enum e v; }; "
        "BEGIN { print((sizeof(struct a), offsetof(struct a, far), offsetof(struct a, in.y), sizeof(struct c))); "
        "print((sizeof(struct b), offsetof(struct b, w), offsetof(struct b, v), Q)); }"
    ) == "(40, 24, 32, 4)\n(24, 8, 16, Q)\n"  # fmt: skip


@pytest.mark.parametrize(
    ("members", "size"),
    [
        ("union __attribute__((packed, aligned(2))) { char a; int c; }; char b;", 6),
        ("struct __attribute__((aligned(2*4))) { char a; } m; char b;", 16),
        ("struct __attribute__((packed, aligned(2))) bar { char a; int c; } m; char b;", 8),
        ("enum __attribute__((packed, deprecated)) { A, B } e; char b;", 2),
        ("int a[2] __attribute((aligned(16))); char b;", 16),
        ("int a; _Alignas(long) char b;", 16),
        ("enum { TWO = 1 << 1 }; char a; _Alignas(TWO * 4) char b;", 16),
        ('int a; __attribute__((section(".x", 1), packed,, aligned(sizeof(long)))) char b;', 16),
        ("struct in { long z[3]; } x; int a; _Alignas(struct in) char b;", 40),
        ("unsigned const char a; char b;", 2),
        ("long volatile int const unsigned a; char b;", 16),
        ("char (*a)[4], (*b)[2][2]; int (*c[2])(int); int d;", 40),
        ("enum { A __attribute__((deprecated)) = 300, B } a; char b;", 8),
        ("struct nowhere *a[2], *b; union neither *c; int d;", 40),
    ],
)
def test_attributes_and_qualifiers_stand_wherever_c_has_them(members: str, size: int) -> None:
    """And pointers may lead to structs that nothing is known of. Sizes are those of gcc."""
    text = (
        f"struct s {{ {members} }}; BEGIN {{ print(sizeof(struct s)); $p = (long const int *)0; print(sizeof(*$p)); }}"
    )
    assert printed(text) == f"{size}\n8\n"


def test_alignments_are_numbers_or_types() -> None:
    """What is neither is told."""
    with pytest.raises(CompileError, match="the kernel has no type nothing"):
        printed("struct s { _Alignas(nothing) char a; }; BEGIN { print(sizeof(struct s)); }")


@pytest.mark.parametrize(
    ("definitions", "message"),
    [
        ("struct a { int x; }; struct a { int y; };", "there is a struct a already"),
        ("struct a { union b { int x; } c; }; struct b { int y; };", "there is a union b already"),
        ("enum a { A }; enum a { B };", "there is an enum a already"),
        ("enum a { A }; struct s { enum { B, A } x; };", "there is a constant A already"),
        ("struct a { struct { struct a x; } y; };", "struct a contains itself"),
    ],
)
def test_a_name_is_defined_once(definitions: str, message: str) -> None:
    """As in C, also where one stands within another."""
    with pytest.raises(CompileError, match=message):
        printed(f"{definitions} BEGIN {{ print(sizeof(struct a)); }}")


def test_structs_lead_to_others_of_their_kind() -> None:
    """A list: each entry has the address of the next one, whose size is known."""
    second: list[int] = []

    def events(kernel: Simulation) -> None:
        second.append(kernel.user(pack("<QQI4x", 0, 0, 9)))
        kernel.tracepoint("syscalls:sys_enter_openat", filename=pack("<QQI4x", second[0], second[0] - 32, 7))

    text = printed(
        "struct entry { struct entry *next; struct other *far; u32 n; }; struct other { char x[32]; u32 y; }; "
        f"{OPEN} {{ $e = (struct entry *)args.filename; "
        'printf("%d %d %d %d", $e.n, $e.next.n, $e.next.next == 0, (uint64)($e.next + 1) - (uint64)$e.next); '
        "$f = $e.far; print(sizeof(*$f)); print($f.y); }",
        events,
    )
    assert text == "7 9 1 2436\n0\n"


@pytest.mark.parametrize(
    ("statements", "text"),
    [
        ("print(*$s);", "{ .a = 3, .b = -2, .n = { .c = 7, .d = 9 }, .name = abc, .k = TWO }\n"),
        ("@x = *$s; print(@x.n.d); print(@x.n); clear(@x);", "9\n{ .c = 7, .d = 9 }\n"),
        ("@y[$s.n] = 5; print(@y); clear(@y);", "@y[{ .c = 7, .d = 9 }]: 5\n"),
        ("$n = $s.n; print(($n.c, $n == $s.n, ($n, 1)));", "(7, true, ({ .c = 7, .d = 9 }, 1))\n"),
        ('printf("%s|%d\\n", $s.n, $s.k);', "{ .c = 7, .d = 9 }|2\n"),
        ("print((sizeof(*$s), sizeof($s.n), sizeof($s)));", "(20, 8, 8)\n"),
        ("$t = ((int32)1, (uint16[4])(uint64)5); print(sizeof($t));", "12\n"),
    ],
)
def test_a_whole_struct_is_a_record_of_its_members(statements: str, text: str) -> None:
    """Printed, kept in maps and variables, as a key: always a copy."""
    script = (
        "enum kind { ONE = 1, TWO = 2 }; struct inner { int c; int d; }; "
        "struct outer { int a : 4; int b : 4; struct inner n; char name[4]; enum kind k; }; "
        f"{OPEN} {{ $s = (struct outer *)args.filename; {statements} }}"
    )
    data = pack("<B3xii4siI", 0xE3, 7, 9, b"abc", 2, 0)
    assert (
        at_memory(data, script.replace(" struct { uint8 pad; };", " int pad_ : 1;")).replace(", .pad_ = 0", "") == text
    )


@pytest.mark.parametrize(
    "moves",
    [
        "$p--; $p--;",
        "$p -= 2;",
        "$p = $p - 2;",
        "++$p; $p--; --$p; $p--;",
        "@p = $p; @p -= 2; $p = @p; clear(@p);",
        "@p = $p; @p--; @p--; @p++; --@p; $p = @p; clear(@p);",
    ],
)
def test_a_pointer_is_moved_back(moves: str) -> None:
    """By elements, where its type is found only while the script is compiled, too."""
    script = f"struct all {{ int n[5]; }}; {OPEN} {{ $s = (struct all *)args.filename; $q = (int32 *)$s; $p = $q + 4; "
    assert at_memory(pack("<5i", 1, 2, 3, 4, 5), script + moves + " print((*$p, $p - 2 == $q)); }") == "(3, true)\n"


def test_a_variable_has_an_array_of_structs() -> None:
    """A copy of a small one, and the place of one that maps have no room for."""
    text = "$i = *(int32 *)args.filename; $y = $x[1]; print(($x[1].a, $x[$i].b, $y.b, $x[0], sizeof($x)));"
    for length in (3, 40):
        structs = f"struct one {{ int a; uint8 b; }}; struct all {{ int n; struct one s[{length}]; }}; {OPEN} {{ $x = "
        script = structs + "((struct all *)args.filename)->s; "
        data = pack("<i", 2) + b"".join(pack("<iB3x", *each) for each in ((1, 2), (-3, 200), (5, 6))) + bytes(320)
        assert at_memory(data, script + text + " }") == f"(-3, 6, 200, {{ .a = 1, .b = 2 }}, {8 * length})\n"
    for wrong, message in (
        ("print($x[40].a);", "index 40 lies outside the array of 40"),
        ("@a = $x;", "an array of structs or floats is not kept: write an element"),
        ("print($x + 1);", "an array of structs or floats is not kept"),
    ):
        with pytest.raises(CompileError, match=message):
            Script(script + wrong + " }").compile(FakeTarget())


def test_an_array_of_structs_is_kept_and_compared() -> None:
    """In maps, as a key, in a struct that is kept whole, of a declared variable; each a copy."""
    data = pack("<i", 2) + b"".join(pack("<iB3x", *each) for each in ((1, 2), (-3, 200)))
    structs = f"struct one {{ int a; uint8 b; }}; struct all {{ int n; struct one s[2]; }}; {OPEN} {{ "
    body = (
        "$s = *(struct all *)args.filename; @m = $s.s; $m = @m; @k[$s.s] = 1; let $x : struct one[2]; $x = $m; "
        "print(($m == $s.s, $x == $s.s, $m[0] == $m[1], $x[1].a)); print($s); for ($kv : @k) { print($kv.0[1]); } "
        "clear(@k); clear(@m); }"
    )
    assert at_memory(data, structs + body) == (
        "(true, true, false, -3)\n{ .n = 2, .s = [{ .a = 1, .b = 2 },{ .a = -3, .b = 200 }] }\n{ .a = -3, .b = 200 }\n"
    )


def test_a_large_struct_is_not_kept_whole() -> None:
    """A variable has its address; elsewhere the error says what to write."""
    members = " ".join([f"uint64 m{number};" for number in range(49)])
    text = f"struct big {{ {members} }}; {OPEN} {{ $b = *(struct big *)args.filename; print($b.m1); }}"
    assert at_memory(pack("<49Q", *range(49)), text) == "1\n"
    whole = text.replace("print($b.m1)", "print(*(struct big *)args.filename)")
    message = "a struct big in user memory is not kept whole: write the members that you mean"
    with pytest.raises(CompileError, match=rf"{message} \(it has more than 48 values\)"):
        Script(whole).compile(FakeTarget())
    with pytest.raises(CompileError, match=rf"{message} \(its member p is a struct pair\[49\]\)"):
        Script("struct pair { int a; };" + whole.replace(members, "int n; struct pair p[49];")).compile(FakeTarget())


@pytest.mark.parametrize("use", ["@[$p] = count();", "@x = $p;", "print($p);", "print(($p, 1));", 'printf("%d", $p);'])
def test_a_variable_of_a_large_struct_is_no_number(use: str) -> None:
    """What is not kept whole is refused through a variable, too; its size and members are the struct's."""
    script = "struct pair { int a; int b; }; struct two { int n; struct pair p[25]; }; "
    begin = f"{script}{OPEN} {{ $s = *(struct two *)args.filename; $p = $s;"
    text = at_memory(
        pack("<51i", *range(1, 52)), f"{begin} print((sizeof($p), $p.n, $p.p[1].a)); $q = &$p; print((*$q).n); }}"
    )
    assert text == "(204, 1, 4)\n1\n"
    with pytest.raises(CompileError, match="a struct two in user memory is not kept whole: write the members"):
        Script(f"{begin} {use} }}").compile(FakeTarget())


def test_an_array_of_texts_is_a_key() -> None:
    """By itself, in a variable, in a struct that is kept whole: pointers, one type wherever it is written."""
    structs = f"struct all {{ char *texts[2]; int n; }}; {OPEN} {{ "
    body = (
        "$s = (struct all *)args.filename; $t = $s->texts; @a[$t] = 1; @a[$s->texts] = 2; @b[*$s] = 3; @c = $t; "
        "@c = $s->texts; }"
    )
    assert at_memory(pack("<2Qi4x", 1, 0x20, 7), structs + body) == (
        "@a[[0x1,0x20]]: 2\n@b[{ .texts = [0x1,0x20], .n = 7 }]: 3\n@c: [0x1,0x20]\n"
    )


def test_sizes_of_structs_that_are_kept_are_those_of_c() -> None:
    """Of unions and bit-fields, whose members take more room one by one: wherever a copy of one is."""
    body = (
        "struct one { union { char a; char b[3]; }; int z; }; struct bits { unsigned char a:3; unsigned char b:5; }; "
        f"struct all {{ struct one i[2]; struct bits f; }}; {OPEN} {{ $s = (struct all *)args.filename; $o = $s->i[1]; "
        "@o = $s->i[0]; @i = $s->i; $f = $s->f; $t = ((int64)1, $f); "
        "print((sizeof($s->i[0]), sizeof($o), sizeof(@o), sizeof(@i), sizeof($s->i), sizeof($f), sizeof($t))); "
        "clear(@o); clear(@i); }"
    )
    assert at_memory(bytes(32), body) == "(8, 8, 8, 16, 16, 1, 16)\n"


def test_a_variable_of_literals_is_swapped_by_its_size() -> None:
    """It has that of the greatest that is assigned to it."""
    body = f"{OPEN} {{ $m = 300; $n = 5; @a = 40000; print((bswap($m), bswap($n), bswap(@a))); $n = 6; clear(@a); }}"
    assert at_memory(b"", body) == "(11265, 5, 1083965440)\n"


@pytest.mark.parametrize(
    ("statements", "text"),
    [
        (
            "print($s->n); print(($s->m, 1)); print(*$s);",
            "[he\x01,lloo]\n([x,abcd], 1)\n{ .n = [he\x01,lloo], .m = [x,abcd] }\n",
        ),
        (
            "@ = $s->n; $y = @; print($y[1]); @a[$s->m] = *$s;",
            "lloo\n@: [he\x01,lloo]\n@a[[x,abcd]]: { .n = [he\x01,lloo], .m = [x,abcd] }\n",
        ),
        (
            '$x = $s->n; $i = 1; print(($x[0], $x[$i], $x[1][0])); print($x[1] == "lloo");',
            "(he\x01, lloo, 108)\ntrue\n",
        ),
        ("@[$s->n] = 1; @[$s->m] = 2; delete(@, $s->m); print(has_key(@, $s->m));", "false\n@[[he\x01,lloo]]: 1\n"),
        ("$x = $s->m; print(sizeof($x)); print(buf($x)); print(buf($s->m));", "8\nx\\x00yzabcd\nx\\x00yzabcd\n"),
        ("print((uint64)$s->n == (uint64)$s->n); print((uint8[8])$s->m);", "true\n[120,0,121,122,97,98,99,100]\n"),
    ],
)
def test_an_array_of_characters_of_two_dimensions_is_of_texts(statements: str, text: str) -> None:
    """Each ends with a NUL or with its array; the bytes behind a NUL are kept, and not printed."""
    script = (
        f"struct two {{ char n[2][4]; char m[2][4]; }}; {OPEN} {{ $s = (struct two *)args.filename; {statements} }}"
    )
    assert at_memory(b"he\x01\0llooo"[:8] + b"x\0yzabcd", script) == text
