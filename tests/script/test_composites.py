"""Arrays, records, and types that a script asks for."""

from __future__ import annotations

from struct import pack
from typing import TYPE_CHECKING

import pytest

from pyebpf.errors import CompileError
from pyebpf.script import Script
from tests.dsl.fake_target import FakeTarget
from tests.support.scripts import printed

if TYPE_CHECKING:
    from pyebpf.testing import Simulation

OPEN = "tracepoint:syscalls:sys_enter_openat"
PAIRS = "struct pairs { u32 a[3]; short b[2][2]; };"


def at_memory(script: str) -> str:
    """What a script prints whose first argument leads to a `struct pairs`."""

    def events(kernel: Simulation) -> None:
        kernel.tracepoint("syscalls:sys_enter_openat", filename=pack("<3I4h", 1, 2, 3, 5, -6, 7, 8))

    return printed(f"{PAIRS} {OPEN} {{ $s = (struct pairs *)args.filename; {script} }}", events)


@pytest.mark.parametrize(
    ("script", "text"),
    [
        ("$x = $s.a; $y = $s.b; print($x); print($y); print(($x[2], $y[0][1]));", "[1,2,3]\n[[5,-6],[7,8]]\n(3, -6)\n"),
        ("@x[$s.a, 4] = $s.b; $y = @x[$s.a, 4]; print($y[1]); clear(@x);", "[7,8]\n"),
        ("@x = (1, $s.a);", "@x: (1, [1,2,3])\n"),
        ("@x[$s.b] = 1;", "@x[[[5,-6],[7,8]]]: 1\n"),
        ("print(($s.a == $s.a, $s.a != $s.a, (1, $s.a) == (1, $s.a)));", "(true, false, true)\n"),
        ('$i = 0; $x = $s.a; while ($i < 4) { printf("%d ", $x[$i]); $i++; }', "1 2 3 0 "),
        ("print((uint64)$s.b);", "2251834173030405\n"),
    ],
)
def test_arrays_are_kept(script: str, text: str) -> None:
    """In variables, maps, keys and tuples; an index at run time that lies outside gives 0."""
    assert at_memory(script) == text


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        ("(uint16[2])(uint32)0x30004", "[4,3]"),
        ("(int8[8])12345", "[57,48,0,0,0,0,0,0]"),
        ("(int8[3])12345", "[57,48,0]"),
        ('(int8[])"hello"', "[104,101,108,108,111,0]"),
        ("(bool[2])(uint16)1", "[true,false]"),
        ("(uint32)(uint8[4])(uint32)258", "258"),
        ("((uint8[])(uint16)513)[1]", "2"),
        ("((int8[])0x0102, (int8[])0x010203, (int8[])1, (uint16[])0x010203)", "([2,1], [3,2,1,0], [1], [515,1])"),
        ('sizeof((uint16[3])(uint8[6])"abcde")', "6"),
        ('(color="red", size=2)', "{ .color = red, .size = 2 }"),
        ('(a=1, b=(c=2, d="x")).b.d', "x"),
        ("(a=1, b=2) == (b=2, a=1)", "true"),
        ("sizeof(uint32*[10])", "80"),
        ("sizeof(string[20])", "20"),
        ("sizeof(((int8)1, (int16)1, (int32)1))", "8"),
        ('sizeof({ $a = (int8)1; print("never"); @n = 1; $a })', "1"),
        ("(typeof((int16)1))70000", "4464"),
    ],
)
def test_composite_values_are_printed(expression: str, text: str) -> None:
    """What `sizeof` and `typeof` ask about is not run."""
    more = " END { @n = 2; clear(@n); }" if "@n" in expression else ""
    assert printed(f"BEGIN {{ print({expression}); }}{more}") == f"{text}\n"


def test_records_of_one_type_have_their_fields_in_any_order() -> None:
    """In variables, values and keys: that of the first."""
    text = printed(
        'BEGIN { $a = (color="green", size=2); $a = (size=10, color="blue"); print($a); '
        '@r[(k=1, j="s")] = $a; print(@r[(j="s", k=1)].size); for ($kv : @r) { print($kv.0.j); } }'
    )
    assert text == "{ .color = blue, .size = 10 }\n10\ns\n@r[{ .k = 1, .j = s }]: { .color = blue, .size = 10 }\n"


def test_variables_are_declared_with_types() -> None:
    """Nothing at first, and again in each turn of a loop."""
    text = printed(
        'BEGIN { let $x : uint8 = 5; let $y : int16; $y = 3; let $s : string[10] = "abc"; let $z : uint8[4]; '
        'print(($x, $y, $s, $z, sizeof($y), sizeof($s))); let $q : typeof($s) = "zz"; print($q); '
        "for ($i : 0..2) { let $n : int64; $n += 1; print($n); } }"
    )
    assert text == "(5, 3, abc, [0,0,0,0], 2, 10)\nzz\n1\n1\n"


@pytest.mark.parametrize(
    ("text", "marked", "message"),
    [
        ("BEGIN { $r = (a=1); print($r.b); }", "$r.b", "this record has no field b: it has a"),
        (
            "BEGIN { $r = (a=1); $r = (b=1); }",
            "$r = (b=1)",
            "$r holds a record (.a = integer) elsewhere, and a record (.b = integer) here",
        ),
        ("BEGIN { print((a=1) == (b=1)); }", "(a=1) == (b=1)", "these records have different fields"),
        ("BEGIN { $a = (int8[4])5; print($a[4]); }", "$a[4]", "index 4 lies outside the array of 4"),
        ("BEGIN { $a = (int8[4])(int16)5; }", "(int8[4])(int16)5", "the array has 4 bytes, and the value 2"),
        (
            "BEGIN { $a = (int8[4])5; print($a == (int8[2])5); }",
            None,
            "arrays are compared with arrays of the same",
        ),
        ("BEGIN { $a = (int8[4])5; print((int16)$a); }", "(int16)$a", "the array has 4 bytes, and the type 2"),
        ("BEGIN { $a = (int8[4])5; print($a + 1); }", None, "this is an array, and a number is needed here"),
        ("BEGIN { let $a : uint8[0]; }", "0", "a length of 0: give 1 to 1024"),
        ("BEGIN { let $a : uint64[1000]; }", "uint64[1000]", "this array has 8000 bytes, and scripts keep at most 512"),
        ('BEGIN { let $a : uint8 = "x"; }', None, "$a holds an integer elsewhere, and a string here"),
        (
            'BEGIN { let $s : string[5]; $s = "abcd"; $s = "abcdef"; }',
            '$s = "abcdef"',
            "this is declared as string[5], and this is a string[7], with its NUL: declare it longer",
        ),
        (
            "BEGIN { let $s : string[15] = comm; }",
            "let $s : string[15] = comm",
            "and this is a string[16], with its NUL",
        ),
        ("BEGIN { let $a : nothing = 5; }", "nothing", "nothing"),
    ],
)
def test_wrong_composites_are_refused_at_their_places(text: str, marked: str | None, message: str) -> None:
    """The message, and the characters that it is about."""
    with pytest.raises(CompileError) as caught:
        Script(text).compile(FakeTarget())
    assert message in caught.value.message
    where = caught.value.location
    assert where is not None
    if marked is not None:
        assert where.text[where.column : where.end_column] == marked


@pytest.mark.parametrize("length", [32, 64, 100, 200])
def test_many_short_texts_find_room(length: int) -> None:
    """Each is small, and a stack has no room for all: those of 64 bytes, too, go where larger ones do."""
    kept = " ".join([f"$t{n} = ({n}, $s); $s{n} = $t{n}.1; @[$s{n}, $s] = 1;" for n in range(6)])
    shown = ", ".join([f"$s{n}" for n in range(6)])
    text = (
        f"config = {{ max_strlen = {length} }} tracepoint:syscalls:sys_enter_openat "
        f"{{ $s = str(args.filename); {kept} print(({shown})); clear(@); }}"
    )
    found = printed(text, lambda kernel: kernel.tracepoint("syscalls:sys_enter_openat", filename="/etc/passwd"))
    assert found == f"({', '.join(['/etc/passwd'] * 6)})\n"


def test_many_tuples_find_room() -> None:
    """Of 16 bytes each, all kept to the end."""
    kept = " ".join([f"$t{n} = (nsecs + {n}, {n}); $t{n} = ($t{n}.1, $t{n}.0);" for n in range(40)])
    used = " ".join([f"@[$t{n}] = 1; $sum += $t{n}.0;" for n in range(40)])
    text = f"tracepoint:syscalls:sys_enter_openat {{ $sum = 0; {kept} {used} print($sum); clear(@); }}"
    assert printed(text, lambda kernel: kernel.tracepoint("syscalls:sys_enter_openat", filename="")) == "780\n"


@pytest.mark.parametrize("length", [7, 31, 33, 40, 65, 127, 200])
def test_texts_in_tuples_are_compared(length: int) -> None:
    """They stand at any byte: of many of these no register and no stack holds all."""
    one = "y" * length
    for other in (one, f"{one[:-1]}z", one[:-1], f"z{one[1:]}"):
        text = f'BEGIN {{ $v = ("a{one}", "a{other}"); print(($v.0 == $v.1, $v.1 != $v.0)); }}'
        assert printed(text) == ("(true, false)\n" if other == one else "(false, true)\n")
