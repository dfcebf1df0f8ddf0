"""Parameters behind vectors, wide integers and aligned structs, and USDT's arguments in high bytes, in scripts."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from pyebpf.errors import CompileError
from tests.support.debugged import compiled, printed_by
from tests.support.needs import unless

if TYPE_CHECKING:
    from pathlib import Path

PROGRAM = """
typedef int v4 __attribute__((vector_size(16)));
typedef int v8 __attribute__((vector_size(32)));
struct wide { __int128 v; }; union either { __int128 v; int i; };
struct vector { v4 v; };
struct __attribute__((aligned(16))) aligned { long a; };
struct member { char c; long a __attribute__((aligned(32))); };
#define APART __attribute__((noipa)) int
APART one(v4 v, int x) { return x; }
APART two(struct vector v, int x) { return x; }
APART three(v4 a, v4 b, v4 c, v4 d, v4 e, v4 f, v4 g, v4 h, long i, long j, long k, long l, long m, long n, long o,
            long p, long q, v4 r, int x) { return x; }
APART four(int a, int b, int c, int d, int e, struct wide v, int x, int y) { return x + y; }
APART five(int a, union either v, int x) { return x; }
APART six(int a, int b, int c, int d, int e, int f, int h, int i, char g, struct aligned v, int x) { return x; }
APART seven(int a, int b, int c, int d, int e, int f, int h, int i, char g, struct member v, int x) { return x; }
APART eight(v8 v, int a, int b, int c, int d, int e, int f, int h, int i, int x) { return x; }
int main(void) {
    v4 v = {1}; v8 large = {1};
    struct wide wide = {2}; union either either = {3}; struct aligned aligned = {4}; struct member member = {5};
    one(v, 101); two((struct vector){v}, 102); three(v, v, v, v, v, v, v, v, 1, 2, 3, 4, 5, 6, 7, 8, 9, v, 103);
    four(1, 2, 3, 4, 5, wide, 104, 1041); five(1, either, 105); six(1, 2, 3, 4, 5, 6, 7, 8, 9, aligned, 106);
    seven(1, 2, 3, 4, 5, 6, 7, 8, 9, member, 107); eight(large, 108, 2, 3, 4, 5, 6, 7, 8, 1081); return 0; }
"""
FUNCTIONS = ("one", "two", "three", "four", "five", "six", "seven")


@pytest.mark.parametrize("optimization", ["-O0", "-O2"])
def test_parameters_behind_vectors_and_aligned_structs(optimization: str, tmp_path: Path) -> None:
    """A vector takes no integer register, a wide integer takes two or none, and the stack is aligned as is asked."""
    path = compiled(tmp_path / "program", PROGRAM, optimization, "-Wno-psabi")
    script = " ".join(f"uprobe:{path}:{name} {{ print(args.x); }}" for name in FUNCTIONS)
    script += f" uprobe:{path}:four {{ print(args.y); }} uprobe:{path}:eight {{ print(args.a); }}"
    found = printed_by(script, path).split()
    assert sorted(map(int, found)) == [*range(101, 109), 1041]


def test_what_options_of_the_compiler_decide_is_refused(tmp_path: Path) -> None:
    """By -mavx a vector of 32 bytes lies in a register, else on the stack: what follows it there is not known."""
    unless(os.uname().machine == "x86_64", "machine:x86_64")
    path = compiled(tmp_path / "program", PROGRAM, "-O1", "-Wno-psabi")
    with pytest.raises(CompileError, match="where x is passed is not known: a value before it, or the result, is of a"):
        printed_by(f"uprobe:{path}:eight {{ print(args.x); }}", path)


NOTE = r"""
__asm__(".pushsection .stapsdt.base, \"a\", \"progbits\"\n_.stapsdt.base: .space 1\n.popsection\n");
int main(void) {
    long a = 0x1180aa, b = 0x22fe00, c = 0x33f0ff, d = 0x447f80;
    __asm__ volatile("990: nop\n.pushsection .note.stapsdt, \"\", \"note\"\n.balign 4\n"
        ".4byte 992f - 991f, 994f - 993f, 3\n991: .asciz \"stapsdt\"\n992: .balign 4\n"
        "993: .8byte 990b, _.stapsdt.base, 0\n.asciz \"high\"\n.asciz \"bytes\"\n"
        ".asciz \"-1@%%ah -1@%%bh 1@%%ch 1@%%dh 1@%%al\"\n994: .balign 4\n.popsection\n"
        :: "a"(a), "b"(b), "c"(c), "d"(d));
    return 0; }
"""


def test_high_bytes_of_registers(tmp_path: Path) -> None:
    """ah, bh, ch and dh are bits 8 to 15, with a sign where the note says so."""
    unless(os.uname().machine == "x86_64", "machine:x86_64")
    path = compiled(tmp_path / "program", NOTE, "-O1")
    script = f"usdt:{path}:high:bytes {{ print(((int64)arg0, (int64)arg1, arg2, arg3, arg4)); }}"
    assert printed_by(script, path) == "(-128, -2, 240, 127, 170)"
