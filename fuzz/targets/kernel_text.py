"""Text in the syntax of the kernel and LLVM."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fuzz import assembly_text
from fuzz.mutation import words

if TYPE_CHECKING:
    from collections.abc import Iterable

COVERS = ("pyebpf/asm",)
TEXT = True
DICTIONARY = words(
    r"""
    r0 w1 = += s>>= * (u8 (u16 (u32 (u64 (s8 (s32 *) ( ) + - 0x -1 ll goto gotol may_goto if s< s>= & lock call exit
    0xffffffffffffffff -0x80000000 32768 load_acquire store_release addr_space_cast ldabs skb[ ] r10 /* */ ldimm64
    18
    """
)


def target(data: bytes) -> None:
    """Any text parses or is an AssemblyError; what parses is printed in this syntax and parses again."""
    assembly_text.check(data.decode("utf-8", "replace"), "kernel")


def seeds() -> Iterable[bytes]:
    """Each row of the table, and labels, comments, names."""
    yield from assembly_text.seeds("kernel")
    yield b'loop:\n r1 = map["a b"] ll\n if r1 == 0 goto loop ; again\n call bpf_map_lookup_elem\n goto +1\n exit\n'
    yield b"0: (18) r1 = 0xffff8881020f2800\n2: (85) call x#7\n3: (05) goto pc-1\n; x = 1 @ a.py:3\n4: (95) exit\n"
