"""Texts as different authors and tools write them: comments, capitals, numbered labels, directives, listings."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from pyebpf.asm import Label, Raw, assemble, build, decode, encode, listing, parse, parse_line
from pyebpf.asm.build import R1, R2, R3
from pyebpf.errors import AssemblyError
from pyebpf.objfile import read_object

FIVE = build.mov64(R1, 5)

ONE = [
    "R1 = 5", "r1=5", "\tr1\t=\t5\t", "r1 = 5\r", "\ufeffr1 = 5", "r1 = 0b101", "r1 = + 5", "r1 = 0X5",
    "r1 = 5# five", "r1 = 5 # five", "r1 = 5 //five", "r1 = 5; five; done", "r1 = 5 ;; on exit", "r1 = 5 # /* five",
    "r1 = 5 /* five */", "/* r1 = 6 */ r1 = 5", "r1 /**/ = /* ; */ 5", "/* a\n * b\n */ r1 = 5", "r1 = 5; /* a\n b */",
    "r1 = 5;\t\\", "r1 = 5; /* a */ \\",
    "; /* no block\nr1 = 5", "// /* nor here\nr1 = 5", ".text\n.globl f\n.type f,@function\nr1 = 5\n.size f, .L-f",
    "MOV R1, 5", "Mov %R1, 0x5", "here:r1 = 5", "a: b : r1 = 5", '"/*": r1 = 5', "3: 0123456789 (b7) r1 = 5",
    "  6: 0......7.. (b7) r1 = 5  ; R1=5 R2=6", "7: (b7) r1 = 5 ; frame1: R1=5", "    5 r1 = 5  ; exit",
]  # fmt: skip


@pytest.mark.parametrize("text", ONE)
def test_spellings_of_one_line(text):
    """All are this instruction alone."""
    assert [item for item in parse(text) if not isinstance(item, Label)] == [FIVE]


def test_capitals_of_names_stay():
    """A word of the language in capitals may still be a name; labels differ by their capitals."""
    text = "GOTO Exit\nEXIT\nexit\nExit: exit\nr1 = map[EXIT]"
    items = parse(text)
    assert (items[0], items[-1].symbol) == (build.jump("Exit"), "EXIT")
    assert assemble(text)[0] == build.jump(2)
    assert parse(listing(items)) == items


@pytest.mark.parametrize("name", ["_", "$", ".", "$1", "._", "R1", "w10", "pc"])
def test_labels_of_unusual_names(name):
    """A listing puts in quotes what would be read as something else."""
    items = parse(f"{name}: goto +0\n")
    assert parse(listing([*items, build.jump(-2)], source=False))[0] == Label(name)
    assert assemble(listing([*items, build.jump(-2)]))[1] == build.jump(-2)


NUMBERED = """
1:  r1 = 5          // 0
    if r1 == 5 goto 1f
    goto 1b
1:  r0 = 0
2:  r0 += 1
    if r0 < 3 goto 2b
    jeq %r0, 9, 1b
    ja 3f
3:  exit
"""


def test_numbered_labels():
    """`1b` is the last `1:` before, `1f` the next one after, as LLVM's assembler has it."""
    items = assemble(NUMBERED)
    assert [item.offset for item in items if item.distance is not None] == [1, -3, -2, -4, 0]
    assert assemble(listing(parse(NUMBERED))) == items


def test_without_such_a_jump_a_number_counts_slots():
    """As in every listing."""
    assert parse("1: r1 = 5\n2: goto +0 # not goto 1b") == (FIVE, build.jump(0))
    assert parse('"a": goto 1f\n1: exit')[-2].name == "1"


@pytest.mark.parametrize("number", ["1", "0x1", "+1", "pc+1"])
@pytest.mark.parametrize(
    "text", ["goto {}", "ja {}", "gotol {}", "if r1 == 5 goto {}", "jeq %r1, 5, {}", "call local {}", "may_goto {}"]
)
def test_a_distance_needs_no_sign(text, number):
    """LLVM reads `goto 1` as `goto +1`, too."""
    assert parse_line(text.format(number)).distance == 1


def test_bpftool_prints_a_function_with_its_distance():
    """`subprog[+5]`."""
    assert parse_line("r2 = subprog[+5]") == parse_line("r2 = subprog[pc+5]") == parse_line("lddw %r2, code_addr(+5)")


REFUSALS = [
    ("r1 = 5;r2 = 6;", "1:8: a comment starts at `;`, but this is an instruction: give it a line of its own"),
    ("r1 = 5 ;; exit", "1:11: a comment starts at `;`, but this is an instruction"),
    ("r1 = 5; L: exit // end", "1:9: a comment starts at `;`, but this is an instruction"),
    ("r1 = 5; r2 = 6 # six", "1:9: a comment starts at `;`, but this is an instruction"),
    ("r1 = 5; r2 = 0x1ffffffff", "1:9: a comment starts at `;`, but this is an instruction"),
    ("\nr1 = 5 /* five", "2:8: a comment starts here and has no end: write `*/` behind it"),
    ("r1 = 18446744073709551616", "1:6: 18446744073709551616 does not fit 64 bits"),
    ("mov %r1, -0x8000000000000001", "1:10: -0x8000000000000001 does not fit 64 bits"),
    ("r1 = 5ll", "1:6: `5ll` is not a number: `ll` stands apart"),
    ("r1 = 0x123456789LL", "1:6: `0x123456789LL` is not a number: `ll` stands apart"),
    ("mov %r1, 12abc", "1:10: `12abc` is not a number"),
    ("goto 1f\n1b: exit\n", "2:1: there is no instruction `1b`"),
    ("goto 1f", "1:1: there is no label `1:` after this"),
    ("1: goto 2b\n2: goto 2b", "1:4: there is no label `2:` before this"),
    (".section x", "1:1: `.section` is a directive: llvm-mc makes an object of such a text, which `pyebpf disasm`"),
    ("*(u64 *)(r1 + 0) = w2", "1:20: `w2` cannot stand here: expected a number, a signed number such as +4"),
    ("w1 = *(u64 *)(r2 + 0)", "1:8: `u64` cannot stand here"),
    ("w1 = *(s8 *)(r2 + 0)", "1:8: `s8` cannot stand here"),
    ("lock *(u64 *)(r1 + 0) += w2", "1:26: `w2` cannot stand here: expected a register (r0 to r10)"),
    ("w1 = bswap64 w1", "1:6: `bswap64` cannot stand here"),
    ("R11 = 5", "1:1: there is no register R11: they are r0 to r10"),
    ("12: R0=1 R10=fp0", "1:1: `R1=…` is what the verifier knows of a register, not an instruction"),
    ("12: R0=1", "1:1: `R1=…` is what the verifier knows of a register, not an instruction"),
    (" 5: <unknown>", "1:2: `<unknown>` stands for bytes that the listing does not show"),
]


@pytest.mark.parametrize(("text", "message"), REFUSALS, ids=[text for text, _ in REFUSALS])
def test_what_could_be_misread_is_refused(text, message):
    """Rather than taken for less than it says."""
    with pytest.raises(AssemblyError) as caught:
        assemble(text, "a.s")
    assert str(caught.value).startswith(f"a.s:{message}")


def test_what_llvm_objdump_prints_alike():
    """A call of a subprogram, and a 32-bit addition that fetches, differ in the bytes beside the text only."""
    call, add = build.call_local(4), build.atomic("add", 4, R3, 0, R2, fetch=True)
    for order in ("little", "big"):
        texts = ((call, "call 0x4"), (add, "lock *(u32 *)(r3 + 0x0) += r2"), (build.call(4), "call 0x4"))
        for meant, text in texts:
            assert parse_line(f"      12:\t{encode([meant], order).hex(' ')}\t{text}") == meant


def test_bytes_that_llvm_objdump_does_not_know():
    """They are kept."""
    assert parse("  46:\tff 00 00 00 00 00 00 01\t<unknown>") == (Raw(bytes([255, 0, 0, 0, 0, 0, 0, 1])),)


def test_relocations_of_type_information_are_stepped_over():
    """`llvm-objdump -dr` prints them below the instruction that they change."""
    assert parse("0000000000000008:  CO-RE <byte_off> [7] struct task_struct::pid (0:2)\nr1 = 5") == (FIVE,)


def text_section(made):
    """The code of an object that LLVM made."""
    elf = read_object(made.read_bytes()).elf
    return elf.contents(elf.code_section(".text"))


SOURCE = """
typedef unsigned int u32; typedef unsigned long long u64;
struct bits { u32 a:3, b:5; int c:7; u64 d:33; } g; u32 n; const volatile int limit = 7;
static __attribute__((noinline)) long twice(long x) { return x * g.a; }
long f(struct bits *p, u64 *q, signed char *s) {
    g.b = p->a; n += limit; __sync_fetch_and_sub(&n, 3);
    u64 o = __sync_fetch_and_add(q, 2) + __sync_fetch_and_or(&n, 5) + __sync_val_compare_and_swap(q, 1, 2);
    for (int i = 0; i < limit; i++) o += q[i] / (s[i] | 1) + twice(o) + __builtin_bswap32(o);
    asm volatile(".byte 0xff, 0, 0, 0, 0, 0, 0, 0");
    return o + twice(s[0]) + (long)s[1] + (long)((short *)s)[9];
}
"""


@pytest.mark.skipif(shutil.which("clang-19") is None, reason="probe command:clang-19: no")
@pytest.mark.skipif(shutil.which("llvm-objdump-19") is None, reason="probe command:llvm-objdump-19: no")
@pytest.mark.parametrize("order", ["little", "big"])
@pytest.mark.parametrize("version", ["v3", "v4"])
def test_a_listing_of_llvm_objdump_assembles_to_the_section(tmp_path, order, version):
    """Local calls, 32-bit atomics that it prints as others, and unknown bytes included; so do both of ours."""
    target = "bpfel" if order == "little" else "bpfeb"
    made = tmp_path / "a.o"
    subprocess.run(
        ["clang-19", "-O2", "-target", target, f"-mcpu={version}", "-c", "-x", "c", "-", "-o", made],
        input=SOURCE, text=True, check=True,
    )  # fmt: skip
    code = text_section(made)
    text = subprocess.run(["llvm-objdump-19", "-d", made], capture_output=True, text=True, check=True).stdout
    assert encode(assemble(text), order) == code
    for syntax in ("kernel", "mnemonic"):
        assert encode(assemble(listing(decode(code, order, raw=True), syntax=syntax)), order) == code


LLVM = """
; R1 = 5
1: r1 = 5; # five
\tif r1 == 5 goto 1f   // on
goto 1b /* back
again */
1:r1=-0x1
goto 2
r2 = *(u32*)( r1 +4 )
* (u16 *) (r10 -8)=r2
r2 = 0b11 ll
w3 s>>= 0x1F
may_goto 1b
call 5
EXIT
"""


@pytest.mark.skipif(shutil.which("llvm-mc-19") is None, reason="probe command:llvm-mc-19: no")
def test_llvm_reads_these_spellings_alike(tmp_path):
    """Each line of that text, to the same bytes."""
    text = LLVM.replace("; R1 = 5\n", "")
    made = tmp_path / "a.o"
    command = ["llvm-mc-19", "-triple=bpfel", "-mcpu=v4", "-filetype=obj", "-o", made]
    subprocess.run(command, input=text, text=True, check=True)
    assert encode(assemble(text)) == text_section(made)
