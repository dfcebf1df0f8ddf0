"""Bit-fields of a program's structs, as its debugging information tells of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.support.debugged import compiled, printed_by

if TYPE_CHECKING:
    from pathlib import Path

BITS = """
enum color { RED, GREEN, BLUE };
struct bits { _Bool a:1, b:1; unsigned c:3; _Bool d:1; enum color e:2; signed char f:1; int v; };
struct wide { long a:39; char b:6; unsigned long c:62; int d:28; } __attribute__((packed));
__attribute__((noinline)) int take(struct bits *x, struct wide *y) {
    asm volatile("" ::: "memory");
    return x->v + y->d;
}
int main(void) {
    for (int i = 0; i < 2; i++) {
        struct bits x = {i, !i, 5, i, BLUE - i, -i, i};
        struct wide y = {-i, i - 4, 0x2aaaaaaaaaaaaaaa + i, i - 99};
        take(&x, &y);
    }
}
"""


def test_bit_fields_have_their_bits_alone(tmp_path: Path) -> None:
    """Each bool, names of an enum, and what lies in two units, or nine bytes, of a packed struct."""
    path = compiled(tmp_path / "program", BITS, "-O1")
    members = "(args.x->a, args.x->b, args.x->d, args.x->e, args.x->f)"
    assert printed_by(f"uprobe:{path}:take {{ print({members}); print(*args.y); }}", path).splitlines() == [
        "(false, true, false, BLUE, 0)",
        f"{{ .a = 0, .b = -4, .c = {0x2AAAAAAAAAAAAAAA}, .d = -99 }}",
        "(true, false, true, GREEN, -1)",
        f"{{ .a = -1, .b = -3, .c = {0x2AAAAAAAAAAAAAAB}, .d = -98 }}",
    ]
