"""`#define` in scripts: values in probes, and tokens in C's definitions."""

from __future__ import annotations

import pytest

from pyebpf.errors import CompileError
from pyebpf.script import Script
from tests.dsl.fake_target import FakeTarget
from tests.support.scripts import printed


@pytest.mark.parametrize(
    ("lines", "statements", "text"),
    [
        (["BAR (1 << 3)"], "print(BAR);", "8\n"),
        (["BAR (FOO+1)", "FOO 5"], "print(BAR);", "6\n"),
        (["BAR 5+1"], "print(BAR * 2);", "12\n"),
        (["MINUS -1"], "print(5 -MINUS);", "6\n"),
        (["A 5", "A 6"], "print(A);", "6\n"),
        (["BAR /* three */ (3 + \\\n 4) // seven"], "print(BAR);", "7\n"),
        (["X $x"], "$x = 3; print(X); $x = 4; print((X, -X));", "3\n(4, -4)\n"),
        (["M @m"], "@m = 7; print(M); print((M, 1)); clear(M);", "@m: 7\n(7, 1)\n"),
        (["M @m", "MK @m[2]"], "@m[2] = 7; print((len(M), MK)); delete(MK); print(len(M));", "(1, 7)\n0\n"),
        (["C count()"], "@ = C;", "@: 1\n"),
        (["P print(5)", "UP $x++"], "P; $x = 1; UP; UP; print($x);", "5\n3\n"),
        (["T (uint8)300", "S sizeof(uint32)", "U 0x10UL", "O 010"], "print((T, S, U, O));", "(44, 4, 16, 8)\n"),
        (["NEAR pid > 0 ? 4 : 5"], "print(NEAR + 1);", "5\n"),
        (["T (1, 2)", "R (a=1, b=2)"], "print((T.1, R.b));", "(2, 2)\n"),
        (["B { print(1); 5 }"], "print(B);", "1\n5\n"),
        (['F "%d\\n"', 'TEXT "a\\tb"'], "printf(F, 5); print(TEXT);", "5\na\tb\n"),
        (["N (1+2)"], "for ($i : 0..N) { print($i); } unroll(N) { print(7); }", "0\n1\n2\n7\n7\n7\n"),
        (["N 3"], "@[N] = N; print(@[N]); clear(@); print(sizeof(N)); print(comptime (N + 1));", "3\n1\n4\n"),
        (["print printf", "x 42"], "$x = (x=1, y=2); @x = 3; print(($x.x, @x)); clear(@x);", "(1, 3)\n"),
        (["comm 42", "pid 42", "cpu 42"], "print((pid == 42, cpu == 42));", "(false, false)\n"),
        (["AF_INET AF_INET", "AF_UNIX 9"], "print((AF_INET, AF_UNIX));", "(2, 9)\n"),
        (["UNUSED (3", "NOTE '('", "__user"], "print(1);", "1\n"),
    ],
)
def test_a_name_has_the_value_of_its_text(lines: list[str], statements: str, text: str) -> None:
    """As one value, whatever stands around it; functions, members, variables and builtins keep their names."""
    defines = "".join(f"#define {each}\n" for each in lines)
    assert printed(f"{defines}BEGIN /1/ {{ {statements} }}") == text


@pytest.mark.parametrize(
    ("script", "text"),
    [
        ("macro m() { X } BEGIN { $x = 1; print(m()); }", "1\n"),
        ("macro m() { let $x = 5; X } BEGIN { $x = 1; print(m()); }", "1\n"),
        ("macro m(FIVE) { FIVE } BEGIN { print(m(3)); print(m(FIVE)); }", "3\n5\n"),
        ("macro m(y) { y + FIVE } BEGIN { print(m(FIVE)); print(BOTH); }", "10\n13\n"),
        ("macro FIVE() { 6 } BEGIN { print(FIVE); print(FIVE()); }", "6\n6\n"),
        ("fn f($x : int64) : int64 { return X + FIVE; } BEGIN { print(f(2)); }", "7\n"),
        ("BEGIN /FIVE == 5/ { print(1); }", "1\n"),
    ],
)
def test_names_and_macros(script: str, text: str) -> None:
    """A variable of a text is the script's, and not the macro's."""
    assert printed(f"#define X $x\n#define FIVE 5\n#define BOTH m(1) + m(2)\n{script}") == text


@pytest.mark.parametrize(
    ("lines", "definition", "size"),
    [
        (["N 4"], "int x[N];", 16),
        (["N (2+2)"], "int x[N];", 16),
        (["N 4", "M N*2"], "int x[M+1];", 36),
        (["T unsigned int"], "T x; T y;", 8),
        (["FIELDS int a; int b;"], "FIELDS int x;", 12),
        (["__user", "N(x) 4"], "char __user *x; int N;", 16),
        (["N 3"], "int x:N; int y:(N+1);", 4),
        ([], "int x[sizeof(int)*2]; int y[1<<2]; int z[7/2]; int w[-7%4+5]; int v[~(-3)]; int u[5>3 ? 2 : 1];", 84),
        ([], "char x[COUNT - 1];", 6),
        (["LIKE LIKE"], "int LIKE;", 4),
    ],
)
def test_a_definition_has_the_tokens_of_a_text(lines: list[str], definition: str, size: int) -> None:
    """As C reads it; lengths and widths are computed, also with constants of enums."""
    defines = "".join(f"#define {each}\n" for each in lines)
    enum = "enum count { ZERO, COUNT = 7 };"
    assert (
        printed(f"{defines}{enum} struct all {{ {definition} }}; BEGIN {{ print(sizeof(struct all)); }}") == f"{size}\n"
    )


def test_names_of_structs_attributes_and_constants_of_enums() -> None:
    """Replaced as well, each by what the lines before it say."""
    script = (
        "#define PACKED __attribute__((packed))\n#define ALIGN 4*4\n#define NAME one\n#define N 1\n"
        "struct PACKED NAME { int x; char y; };\n#define NAME other\n"
        "struct NAME { char x[N]; } __attribute__((aligned(ALIGN)));\n#undef N\n#define N 9\n"
        "enum e { A = N << 2, B = ~N, C = A / 7, D = C ^ 1, N };"
        "BEGIN { print((sizeof(struct one), sizeof(struct other))); print(((int64)A, (int64)B, (int64)C, (int64)D)); }"
    )
    assert printed(script.replace(", N }", " }")) == "(5, 16)\n(36, -10, 5, 4)\n"


def test_attributes_behind_a_struct_have_names() -> None:
    """With or without a semicolon; another name there begins the next part of the script."""
    script = (
        "#define PACKED __attribute__((packed))\n#define WIDE __attribute__((aligned(16)))\n#define start BEGIN\n"
        "struct a { char a; int b; } PACKED;\nenum e { X = 1 } PACKED\nstruct b { char a; int b; } PACKED /* */ WIDE\n"
        "struct c { char a; }\nBEGIN { print((sizeof(struct a), sizeof(enum e), sizeof(struct b), sizeof(struct c))); }"
    )
    assert printed(script) == "(5, 1, 16, 1)\n"


@pytest.mark.parametrize(
    ("text", "marked", "message"),
    [
        ("#define A A+1\nBEGIN { print(A); }", "A", "#define A stands for itself: #define A > #define A"),
        ("#define A B\n#define B A\nBEGIN { print(A); }", "A", "#define A > #define B > #define A"),
        ("#define A B\n#define B A\nstruct s { int x[A]; }; BEGIN { }", "A", "#define A > #define B > #define A"),
        ("#define E\nBEGIN { print(E); }", "E", "#define E gives it no value: write #define E 1"),
        ("#define S print(1); print(2)\nBEGIN { S; }", ";", "write macro S() { … } for statements"),
        ("#define T struct foo *\nBEGIN { print(T); }", "foo", "#define T gives no value: "),
        ("#define T struct foo *\nBEGIN { print(T); }", "foo", "write the type where it is used"),
        ("#define T uint8\nBEGIN { print((T)300); }", "T", "#define T gives a value in probes: write the type itself"),
        (
            "#define F(x) x\nstruct s { int x[F(3)]; }; BEGIN { }",
            "F",
            "#define F(x) is not read: write what F(…) stands",
        ),
        ('#define C strlen\nBEGIN { print(C("a")); }', 'C("a")', "#define of a function is not read: write macro C(x)"),
        ("#define A (1 / 0)\nBEGIN { print(A); }", "1 / 0", "division by zero"),
        ("#define X $x\nmacro m($x) { X } BEGIN { $y = 1; print(m($y)); }", "$x", "$x is read before"),
        ("struct s { int x[N]; };\n#define N 3\nBEGIN { print(sizeof(struct s)); }", "N", "is to be a number"),
        ("struct s { int x[1/0]; }; BEGIN { print(sizeof(struct s)); }", "1/0", "division by zero"),
        (
            "struct s { int x[1-2]; }; BEGIN { print(sizeof(struct s)); }",
            "int x[1-2]",
            "a length of -1: give 0 or more",
        ),
        ("enum e { A = 1 << 64 }; BEGIN { }", "1 << 64", "a shift by 64: a number has 64 bits"),
        (
            "struct __attribute__((aligned(x))) s { int x; }; BEGIN { print(sizeof(struct s)); }",
            "x",
            "an alignment is to be a number",
        ),
        (
            "struct s { int x __attribute__((aligned(1 + 2))); }; BEGIN { print(sizeof(struct s)); }",
            "1 + 2",
            "an alignment is a power of two, and this is 3",
        ),
    ],
)
def test_what_a_name_cannot_stand_for(text: str, marked: str | None, message: str) -> None:
    """An error with its place, and what to write instead."""
    with pytest.raises(CompileError) as caught:
        Script(text).compile(FakeTarget())
    assert message in caught.value.message
    place = caught.value.location
    assert place is not None
    assert marked is None or place.text[place.column : place.end_column] == marked


def test_too_many_names() -> None:
    """Of each other, and by doubling."""
    chain = "".join(f"#define A{i} A{i + 1}\n" for i in range(60))
    with pytest.raises(CompileError, match="more than 50 names stand for each other: #define fewer"):
        Script(f"{chain}BEGIN {{ print(A0); }}")
    with pytest.raises(CompileError, match="more than 50 names stand for each other: #define fewer"):
        Script(f"{chain}struct s {{ int x[A0]; }}; BEGIN {{ }}")
    double = "".join(f"#define A{i} A{i + 1} + A{i + 1}\n" for i in range(30)) + "#define A30 1\n"
    with pytest.raises(CompileError, match="more than 20000 parts long"):
        Script(f"{double}BEGIN {{ print(A0); }}")
    with pytest.raises(CompileError, match="more than 20000 words stand here: #define fewer"):
        Script(f"{double}struct s {{ int x[A0]; }}; BEGIN {{ }}")
