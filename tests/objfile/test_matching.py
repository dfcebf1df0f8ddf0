"""`bpf_core_type_matches`: what an object says of a type, and another kernel's type of that name."""

from __future__ import annotations

import pytest

from pyebpf.objfile import read_object
from pyebpf.objfile.matching import types_match

KERNEL = """
struct inner { int x; long y[4]; };
enum color { RED, GREEN = 7, BLUE };
enum wide { SMALL, LARGE = 0x100000000ULL };
typedef int number_t;
struct declared;
struct item {
    unsigned id; const number_t n; char name[8]; struct inner in; struct inner *at; struct declared *far; void *any;
    int (*call)(struct inner *, long); union { int a; long b; } u; enum color color; double ratio;
} item;
enum color color; enum wide wide; struct inner inner;
"""

# What the object says of `struct item` (or another), and whether it holds.
CASES = [
    ("struct item { unsigned id; } it;", True),
    ("struct item { char name[8]; unsigned id; } it;", True),
    ("struct item___new { unsigned id; } it;", True),
    ("struct item {} it;", True),
    ("struct item { int id; } it;", False),
    ("struct item { unsigned long id; } it;", False),
    ("struct item { unsigned di; } it;", False),
    ("struct item { volatile int n; } it;", True),
    ("struct item { char name[9]; } it;", False),
    ("struct item { struct inner { int x; } in; } it;", True),
    ("struct item { struct inner { int z; } in; } it;", False),
    ("struct item { struct other { int x; } in; } it;", False),
    ("struct item { struct inner { int z; } *at; } it;", True),
    ("struct item { struct inner *at; } it;", True),
    ("struct item { union inner *at; } it;", False),
    ("struct item { union inner { int x; } *at; } it;", False),
    ("struct item { struct other *at; } it;", False),
    ("struct item { struct declared { int x; } *far; } it;", True),
    ("struct item { int *at; } it;", False),
    ("struct item { void *any; } it;", True),
    ("struct item { int any; } it;", False),
    ("struct inner; struct item { int (*call)(struct inner *, long); } it;", True),
    ("struct inner; struct item { int (*call)(struct inner *); } it;", False),
    ("struct inner; struct item { long (*call)(struct inner *, long); } it;", False),
    ("struct item { union { long b; } u; } it;", True),
    ("struct item { struct { long b; } u; } it;", False),
    ("struct item { enum color { GREEN } color; } it;", True),
    ("struct item { enum color { RED___old } color; } it;", True),
    ("struct item { enum color { PINK } color; } it;", False),
    ("struct item { int color; } it;", False),
    ("struct item { double ratio; } it;", False),
    ("enum color { BLUE, RED } it;", True),
    ("enum color { A, B, C, D } it;", False),
    ("enum wide { SMALL } it;", False),
    ("union item { unsigned id; } it;", False),
]


@pytest.fixture(scope="module")
def kernel(compile_c):
    """The types of another kernel."""
    return read_object(compile_c(KERNEL, name="kernel")).btf


@pytest.mark.parametrize(("source", "holds"), CASES)
def test_what_matches(compile_c, kernel, source, holds):
    """Members by name and type; behind a pointer by name alone."""
    local = read_object(compile_c(source, name="local")).btf
    name = source.split(" it;")[0].split("{")[0].split(";")[-1].split()[1]
    plain = name.partition("___")[0]
    assert types_match(local, local.find(name)[0], kernel, kernel.find(plain)[0]) is holds


def test_the_question_is_answered_when_a_program_is_loaded(compile_c, kernel):
    """By 1 or 0; a type that is not there matches nothing."""
    source = """
    #define MATCHES(t) __builtin_preserve_type_info(*(t *)0, 2)
    struct item { unsigned id; }; struct item___b { long id; }; struct gone { int x; };
    SEC("socket") int f(void *c) {
        return MATCHES(struct item) * 100 + MATCHES(struct item___b) * 10 + MATCHES(struct gone);
    }
    """
    spec = read_object(compile_c(source, name="asking")).program_spec("f", kernel)
    assert [each.imm for each in spec.code.instructions if each.op.name.startswith("mov") and not each.src][:3] == [
        1,
        0,
        0,
    ]


@pytest.mark.parametrize("depth", [3, 200])
def test_types_within_types_end(compile_c, depth):
    """However deep pointers go, and though a function takes the struct that it is in."""
    stars = "*" * depth
    source = f"struct s {{ void (*f)(struct s *, struct s *); int {stars}p; }} it;"
    one = read_object(compile_c(source, name="deep")).btf
    assert types_match(one, one.find("s")[0], one, one.find("s")[0]) is (depth < 32)
